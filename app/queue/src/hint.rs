//! Hints between processes: NOTIFY carries no content, may be lost, and may be forged.
//!
//! Every process listens on one session and fans hints out in memory. Whoever waits for a hint also
//! polls. Announcements are coalesced and sent outside the accepting transaction, because NOTIFY
//! inside one takes a lock that orders all commits of the instance.

use famulus_core::ids::WorkerId;
use famulus_lifecycle::boxed;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// At most one announcement in this time, so that a thousand messages cost a few NOTIFYs.
const GAP: Duration = Duration::from_millis(2);
/// A silent session is asked for a sign of life this often: a half-open TCP connection goes unnoticed
/// for minutes.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);
const RECONNECT: Duration = Duration::from_millis(250);

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Topic {
    /// A turn may be claimed.
    Turn = 1,
    /// A delivery may be claimed.
    Delivery = 2,
    /// Events were stored.
    Event = 4,
    /// A turn was cancelled, an approval was decided, a schedule was changed.
    Control = 8,
    /// Something that a platform told may be claimed.
    Arrival = 16,
}

impl Topic {
    const ALL: [Self; 5] = [Self::Turn, Self::Delivery, Self::Event, Self::Control, Self::Arrival];

    fn channel(self) -> &'static str {
        match self {
            Self::Turn => "famulus_turn",
            Self::Delivery => "famulus_delivery",
            Self::Event => "famulus_event",
            Self::Control => "famulus_control",
            Self::Arrival => "famulus_arrival",
        }
    }

    fn index(self) -> usize {
        (self as u8).trailing_zeros() as usize
    }
}

/// This process's end of LISTEN and NOTIFY.
#[derive(Clone, Debug)]
pub struct Hints {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    worker: WorkerId,
    local: [watch::Sender<u64>; 5],
    outgoing: AtomicU8,
    ready: Notify,
}

impl Hints {
    pub fn new(worker: WorkerId) -> Self {
        let local = std::array::from_fn(|_| watch::Sender::new(0));
        let inner = Inner { worker, local, outgoing: AtomicU8::new(0), ready: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Wakes whoever waits in this process.
    pub fn signal(&self, topic: Topic) {
        self.inner.local[topic.index()].send_modify(|count| *count += 1);
    }

    /// Wakes whoever waits, here now and elsewhere soon.
    pub fn announce(&self, topic: Topic) {
        self.signal(topic);
        self.inner.outgoing.fetch_or(topic as u8, Ordering::AcqRel);
        self.inner.ready.notify_one();
    }

    /// A receiver that is marked changed by every hint, also by those before its first look.
    pub fn subscribe(&self, topic: Topic) -> watch::Receiver<u64> {
        self.inner.local[topic.index()].subscribe()
    }

    /// Sends announcements until the token ends. Failures are dropped: a hint may be lost.
    #[boxed]
    pub async fn run_notifier(self, pool: PgPool, shutdown: CancellationToken) {
        let payload = self.inner.worker.to_string();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.inner.ready.notified() => {}
            }
            let topics = self.inner.outgoing.swap(0, Ordering::AcqRel);
            let channels: Vec<String> = Topic::ALL
                .into_iter()
                .filter(|topic| topics & *topic as u8 != 0)
                .map(|topic| topic.channel().to_owned())
                .collect();
            if channels.is_empty() {
                continue;
            }
            let sent = sqlx::query!(
                r#"select count(pg_notify(channel, $2)) as "sent!"
                   from unnest($1::text[]) as c (channel)"#,
                &channels,
                payload,
            )
            .fetch_one(&pool)
            .await;
            if let Err(error) = sent {
                tracing::warn!(%error, "an announcement was not sent; other processes will poll");
            }
            tokio::time::sleep(GAP).await;
        }
    }

    /// Listens until the token ends. After every reconnect all topics are signalled, because what
    /// was announced meanwhile is gone.
    #[boxed]
    pub async fn run_listener(self, options: PgConnectOptions, shutdown: CancellationToken) {
        loop {
            let heard = tokio::select! {
                () = shutdown.cancelled() => return,
                heard = self.listen(&options) => heard,
            };
            if let Err(error) = heard {
                tracing::warn!(%error, "the listening session ended; listening again");
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(RECONNECT) => {}
            }
        }
    }

    async fn listen(&self, options: &PgConnectOptions) -> Result<(), sqlx::Error> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(5))
            .connect_with(options.clone())
            .await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.ignore_pool_close_event(true);
        listener.listen_all(Topic::ALL.map(Topic::channel)).await?;
        for topic in Topic::ALL {
            self.signal(topic);
        }
        let own = self.inner.worker.to_string();
        loop {
            match tokio::time::timeout(SIGN_OF_LIFE, listener.try_recv()).await {
                Ok(Ok(Some(hint))) => {
                    if hint.payload() == own {
                        continue;
                    }
                    for topic in Topic::ALL {
                        if topic.channel() == hint.channel() {
                            self.signal(topic);
                        }
                    }
                }
                // The session broke: listen anew, then signal everything.
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                Err(_silent) => {
                    let alive = sqlx::query("select 1").execute(&mut listener);
                    match tokio::time::timeout(Duration::from_secs(5), alive).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => return Err(error),
                        Err(_no_answer) => return Ok(()),
                    }
                }
            }
        }
    }
}
