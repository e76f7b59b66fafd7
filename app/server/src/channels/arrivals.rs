//! Works what platforms told, in the order of each chat.

use super::{Intake, elsewhere};
use async_trait::async_trait;
use famulus_agent::Channels;
use famulus_core::intake::{Happening, Listener, Written};
use famulus_errors::chain;
use famulus_queue::{
    Lease,
    worker::{Handler, Outcome, backoff},
};
use famulus_reception::{ArriveError, Arrived, Door};
use famulus_store::{Error, Store, StoredArrival};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// An album is whole when no part of it came for so long.
const ALBUM: Duration = Duration::from_secs(1);
/// A file that the platform does not give for so long is missing.
const FILES: Duration = Duration::from_mins(1);
/// Parts of an album, and what stands between them.
const LOOKED_AT: i64 = 50;

pub(crate) struct ArrivalWorker {
    pub(crate) store: Store,
    pub(crate) channels: Channels,
    pub(crate) intake: Intake,
    /// Tries of what the store refuses.
    pub(crate) max_attempts: i32,
}

/// What becomes of a job.
enum Done {
    /// These were read.
    Read(Vec<Uuid>),
    /// More of it may come.
    Later(Duration),
}

#[async_trait]
impl Handler for ArrivalWorker {
    async fn work(&self, lease: Lease, _cancel: CancellationToken) -> Outcome {
        if lease.attempts > self.max_attempts {
            let why = format!("the process that read this ended {} times", self.max_attempts);
            let buried = self.store.bury_arrival(&lease.fence, lease.job.id, &why).await;
            return outcome(&lease, buried);
        }
        let settled = match self.read(lease.job.id).await {
            Ok(Done::Read(ids)) => self.store.arrivals_read(&lease.fence, lease.job.id, &ids).await,
            Ok(Done::Later(delay)) => return Outcome::Retry { delay, blameless: true },
            Err(error) => return self.failed(&lease, &error).await,
        };
        outcome(&lease, settled)
    }
}

impl ArrivalWorker {
    /// What cannot be received now is tried again, and what the store refuses not for ever.
    async fn failed(&self, lease: &Lease, error: &ArriveError) -> Outcome {
        let said = chain(error);
        tracing::warn!(arrival.id = %lease.job.id, error = said,
            "what a platform told was not received");
        let blameless = error.is_passing();
        if blameless || lease.attempts < self.max_attempts {
            return Outcome::Retry { delay: backoff(lease.attempts), blameless };
        }
        let buried = self.store.bury_arrival(&lease.fence, lease.job.id, &said).await;
        outcome(lease, buried)
    }

    async fn read(&self, id: Uuid) -> Result<Done, ArriveError> {
        let found = self.store.arrivals_from(id, LOOKED_AT).await;
        let all = found.map_err(famulus_core::StoreError::from)?;
        let Some(first) = all.first() else { return Ok(Done::Read(Vec::new())) };
        let listener = self.channels.get(&first.channel).and_then(|channel| channel.listener());
        let door = self.intake.door(&first.channel, &first.account);
        let (Some(listener), Some(door)) = (listener, door) else {
            // In the middle of an update another process may have the channel; one that was taken out of
            // the configuration may come back.
            return Ok(Done::Later(elsewhere(first.age)));
        };
        let door = Door { waits_for_files: first.age < FILES, ..door };
        match listener.read(&first.account, &first.body) {
            Happening::Wrote(written) => self.wrote(&door, listener.as_ref(), &all, *written).await,
            Happening::Pressed(press) => {
                let told = self.intake.arrivals.pressed(&door, &press).await?;
                if let Err(error) = listener.answer_press(&press, told.as_deref()).await {
                    // Whoever pressed sees it turn for a while.
                    tracing::debug!(%error, "a press was not answered");
                }
                Ok(Done::Read(vec![first.id]))
            }
            Happening::Joined { chat } => {
                self.leave(listener.as_ref(), &chat.id).await;
                Ok(Done::Read(vec![first.id]))
            }
            Happening::Reach { chat, may } => {
                let reach = self.store.may_reach(&first.channel, &first.account, &chat, may).await;
                reach.map_err(famulus_core::StoreError::from)?;
                Ok(Done::Read(vec![first.id]))
            }
            Happening::Moved { .. } | Happening::Nothing => Ok(Done::Read(vec![first.id])),
        }
    }

    async fn wrote(
        &self,
        door: &Door,
        listener: &dyn Listener,
        all: &[StoredArrival],
        written: Written,
    ) -> Result<Done, ArriveError> {
        let random = all.first().map_or([0; 8], |first| first.random);
        let mut ids: Vec<Uuid> = all.iter().map(|one| one.id).take(1).collect();
        let mut parts = vec![written];
        if let Some(album) = parts[0].album.clone() {
            let youngest = all.iter().filter_map(|one| {
                let Happening::Wrote(part) = listener.read(&one.account, &one.body) else {
                    return None;
                };
                (part.album.as_ref() == Some(&album)).then(|| {
                    if !ids.contains(&one.id) {
                        ids.push(one.id);
                        parts.push(*part);
                    }
                    one.age
                })
            });
            let youngest = youngest.min().unwrap_or_default();
            if youngest < ALBUM {
                return Ok(Done::Later(ALBUM.saturating_sub(youngest)));
            }
        }
        let group = parts[0].chat.id.clone();
        match self.intake.arrivals.arrive(door, &parts, listener, random).await? {
            Arrived::Group => self.leave(listener, &group).await,
            Arrived::Ignored
            | Arrived::Coded
            | Arrived::Answered
            | Arrived::Changed
            | Arrived::Accepted(_) => {}
        }
        Ok(Done::Read(ids))
    }

    async fn leave(&self, listener: &dyn Listener, chat: &str) {
        if let Err(error) = listener.leave(chat).await {
            tracing::info!(chat, %error, "a group was not left");
        }
    }
}

/// What becomes of a lease whose end was recorded, or was not.
fn outcome(lease: &Lease, settled: Result<(), Error>) -> Outcome {
    match settled {
        Ok(()) | Err(Error::LeaseLost) => Outcome::Settled,
        Err(error) => {
            Outcome::Retry { delay: backoff(lease.attempts), blameless: error.is_passing() }
        }
    }
}
