//! Who of several operators works: the one that holds the Lease.
//!
//! The holder renews it every 2 s. Whoever sees it unchanged for 15 s, by a clock of its own, takes
//! it; a holder that could not renew it for 10 s, counted from its last request that was granted,
//! works no more before that. These are the times of Kubernetes' own controllers: an API server
//! that is slow for a few seconds ends nobody. At an orderly end the lease is given back, and taken
//! at the next look.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::clock;

/// A lease that was not renewed for so long is anybody's.
const LASTS: Duration = Duration::from_secs(15);

/// A holder that could not renew for so long has lost it.
const GIVES_UP: Duration = Duration::from_secs(10);

/// Between two renewals.
const RENEWED: Duration = Duration::from_secs(2);

/// Between two looks of who waits for it.
const LOOK: Duration = Duration::from_secs(1);

/// For a read and a write of it: half of what a holder has, so that one without an answer is none.
const REQUEST: Duration = Duration::from_secs(5);

/// The lease could not be renewed in time, or is another's.
#[derive(Debug, thiserror::Error)]
#[error(
    "the lease {0} was lost; another operator may work now, and this one waits until it is free"
)]
pub struct LeaseLost(String);

/// One that wants to work, or works.
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
}

/// The lease as it was seen last, and since when it has been as it is.
struct LeaseObservation {
    version: Option<String>,
    since: Instant,
}

impl Candidate {
    pub fn new(client: Client, namespace: &str, name: String, identity: String) -> Self {
        Self { leases: Api::namespaced(client, namespace), name, identity }
    }

    /// Waits until it holds the lease. May be dropped at any time.
    pub async fn acquire(&self) {
        let mut seen = LeaseObservation { version: None, since: Instant::now() };
        let mut waits = false;
        loop {
            // One that was taken so late that nobody knows is its own at the next look.
            match timeout(REQUEST, self.attempt(&mut seen)).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) if !waits => {
                    tracing::info!(lease = self.name, "another operator works; this one waits");
                    waits = true;
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "the lease cannot be taken yet");
                }
                Err(_elapsed) => {
                    tracing::warn!(lease = self.name, "no answer to taking the lease");
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Holds it until it is lost. May be dropped at any time.
    pub async fn hold(&self) -> LeaseLost {
        // Others count from the write, which is no earlier than the request.
        let mut renewed = Instant::now();
        loop {
            let ends = renewed + GIVES_UP;
            sleep_until(ends.min(Instant::now() + RENEWED)).await;
            let sent = Instant::now();
            if sent >= ends {
                return LeaseLost(self.name.clone());
            }
            match timeout_at(ends.min(sent + REQUEST), self.renew()).await {
                Ok(Ok(true)) => renewed = sent,
                Ok(Ok(false)) => return LeaseLost(self.name.clone()),
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "the lease could not be renewed");
                }
                Err(_elapsed) => {
                    tracing::warn!(lease = self.name, "no answer to the renewal of the lease");
                }
            }
        }
    }

    /// Gives it back, if it is still its own.
    pub async fn release(&self) {
        let released = timeout(REQUEST, async {
            let Some(lease) = self.leases.get_opt(&self.name).await? else { return Ok(()) };
            if holder(&lease) == Some(&self.identity) {
                let given = self.written(Some(&lease), Holder::Nobody);
                self.leases.replace(&self.name, &PostParams::default(), &given).await?;
            }
            Ok::<(), kube::Error>(())
        });
        match released.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the lease could not be given back"),
            Err(_elapsed) => tracing::warn!("no answer to giving the lease back"),
        }
    }

    async fn attempt(&self, seen: &mut LeaseObservation) -> Result<bool, kube::Error> {
        let post = PostParams::default();
        let Some(lease) = self.leases.get_opt(&self.name).await? else {
            let written = self.written(None, Holder::Me);
            return taken(self.leases.create(&post, &written).await);
        };
        if lease.metadata.resource_version != seen.version {
            *seen = LeaseObservation {
                version: lease.metadata.resource_version.clone(),
                since: Instant::now(),
            };
        }
        if !is_free(&lease, &self.identity, seen.since.elapsed()) {
            return Ok(false);
        }
        let written = self.written(Some(&lease), Holder::Me);
        taken(self.leases.replace(&self.name, &post, &written).await)
    }

    async fn renew(&self) -> Result<bool, kube::Error> {
        let Some(lease) = self.leases.get_opt(&self.name).await? else { return Ok(false) };
        if holder(&lease) != Some(&self.identity) {
            return Ok(false);
        }
        let written = self.written(Some(&lease), Holder::Me);
        self.leases.replace(&self.name, &PostParams::default(), &written).await.map(|_| true)
    }

    fn written(&self, before: Option<&Lease>, by: Holder) -> Lease {
        let now = Some(MicroTime(clock::exactly()));
        let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let mine = spec.holder_identity.as_ref() == Some(&self.identity);
        let transitions = spec.lease_transitions.unwrap_or(0);
        let metadata = before.map_or_else(
            || ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            |lease| lease.metadata.clone(),
        );
        let spec = match by {
            Holder::Me => LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(LASTS.as_secs() as i32),
                acquire_time: if mine { spec.acquire_time } else { now.clone() },
                renew_time: now,
                lease_transitions: Some(if mine || before.is_none() {
                    transitions
                } else {
                    transitions + 1
                }),
                ..spec
            },
            Holder::Nobody => LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                renew_time: now,
                ..spec
            },
        };
        Lease { metadata, spec: Some(spec) }
    }
}

#[derive(Clone, Copy)]
enum Holder {
    Me,
    Nobody,
}

fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref().filter(|holder| !holder.is_empty())
}

/// Whether it may be taken, when it has been unchanged for so long. The times in it are another
/// machine's, and are not looked at.
fn is_free(lease: &Lease, me: &str, unchanged: Duration) -> bool {
    match holder(lease) {
        None => true,
        Some(holder) => holder == me || unchanged >= LASTS,
    }
}

/// Somebody else was quicker: that is no error.
fn taken(written: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
