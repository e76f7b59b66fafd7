//! Works turns: a lease comes in, the driver drives, and the lease is settled.

use crate::channels::Growing;
use async_trait::async_trait;
use famulus_agent::{DriveError, Driven, Driver, Limits, LiveTurns};
use famulus_core::{StoreError, ids::TurnId};
use famulus_errors::chain;
use famulus_queue::{
    Lease,
    worker::{Handler, Outcome, backoff},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The handler of the turn class.
pub(crate) struct TurnWorker {
    pub(crate) driver: Driver,
    /// Live: read anew for every turn.
    pub(crate) limits: watch::Receiver<Limits>,
    pub(crate) live: LiveTurns,
    pub(crate) max_attempts: i32,
    pub(crate) growing: Arc<Growing>,
}

#[async_trait]
impl Handler for TurnWorker {
    async fn work(&self, lease: Lease, cancel: CancellationToken) -> Outcome {
        let turn = TurnId(lease.job.id);
        if lease.attempts > self.max_attempts {
            return self.bury(&lease, turn).await;
        }
        let entry = self.live.enter(turn);
        let driver = Driver { limits: *self.limits.borrow(), ..self.driver.clone() };
        let started = tokio::time::Instant::now();
        let driving = driver.drive(&lease.fence, turn, &entry.stop, &cancel);
        let driven = self.growing.beside(turn, driving).await;
        metrics::histogram!("famulus_turn_seconds").record(started.elapsed().as_secs_f64());
        match driven {
            Ok(Driven::Ended(_) | Driven::Parked) => Outcome::Settled,
            Ok(Driven::Abandoned) => Outcome::Retry { delay: Duration::ZERO, blameless: true },
            Err(DriveError::Record(StoreError::LeaseLost)) => {
                tracing::info!(turn.id = %turn, "the turn has passed to another worker");
                Outcome::Settled
            }
            Err(DriveError::Record(error @ StoreError::Unavailable(_))) => {
                tracing::warn!(turn.id = %turn, error = %chain(&error),
                    "the database broke off in a turn; it goes on from its record");
                Outcome::Retry { delay: backoff(1), blameless: true }
            }
            Err(DriveError::Record(error @ StoreError::Refused(_))) => {
                tracing::error!(turn.id = %turn, attempts = lease.attempts, error = %chain(&error),
                    "the database refused a turn's record");
                Outcome::Retry { delay: backoff(lease.attempts), blameless: false }
            }
        }
    }
}

impl TurnWorker {
    async fn bury(&self, lease: &Lease, turn: TurnId) -> Outcome {
        let reason = format!(
            "the process that worked on this ended {} times without getting further, so it was \
             given up; the owner finds it among the dead letters and can have it tried again",
            self.max_attempts
        );
        match self.driver.bury(&lease.fence, turn, reason).await {
            Ok(()) | Err(DriveError::Record(StoreError::LeaseLost)) => Outcome::Settled,
            Err(DriveError::Record(error)) => {
                tracing::error!(turn.id = %turn, error = %chain(&error), "a turn was not buried");
                Outcome::Retry { delay: backoff(lease.attempts), blameless: true }
            }
        }
    }
}
