//! Accepting messages: everything that comes in passes here.
//!
//! Callers that arrive at the same time share one transaction. A message is acknowledged after its
//! commit, never before.

use crate::{
    accept_batch::{Batch, Lessee, MessageScope, accept_in, unexpected},
    db::Store,
    error::{Error, shared},
    gather::{Bounds, Work},
};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    accept::{Accept, AcceptError, Accepted, Disposition, Replaced},
    ids::MessageId,
    inbound::Inbound,
};
use famulus_lifecycle::boxed;
use famulus_queue::{
    Class, Lease, Queue,
    handover::Reservation,
    hint::{Hints, Topic},
};
use sqlx::PgPool;
use std::time::Duration;

pub(crate) const BOUNDS: Bounds =
    Bounds { batch: 128, at_once: 2, patience: Duration::ZERO, waiting: 4096 };

#[async_trait]
impl Accept for Store {
    async fn accept(&self, inbound: Inbound) -> Result<Accepted, AcceptError> {
        self.accept_queue.pass(inbound).await.map_err(|error| AcceptError::Store(shared(error)))?
    }

    async fn replace(&self, original: &str, inbound: &Inbound) -> Result<Replaced, StoreError> {
        Ok(self.put_in_place(original, inbound).await?)
    }

    async fn vanishes(&self, message: MessageId, after: Duration) -> Result<(), StoreError> {
        Ok(self.let_vanish(message, after).await?)
    }
}

impl Store {
    /// Stores a message, and leases its turn to the caller, who works it without a worker: nothing
    /// else that waits is begun. There is no lease where the conversation is at work already.
    ///
    /// # Errors
    /// As [`Accept::accept`].
    #[boxed]
    pub async fn accept_leased(
        &self,
        inbound: Inbound,
    ) -> Result<(Accepted, Option<Lease>), AcceptError> {
        let lessee = Lessee { worker: self.queue.worker, places: 1, lease: self.queue.lease };
        famulus_core::crash::before("accept.commit");
        let stored = accept_in(&self.durable, MessageScope::Own, &[inbound], lessee).await;
        famulus_core::crash::after("accept.commit");
        let Batch { results, mut leases } =
            stored.map_err(|error| AcceptError::Store(error.into()))?;
        let accepted = results.into_iter().next();
        let accepted = accepted.ok_or_else(|| AcceptError::Store(unexpected().into()))?;
        let accepted = accepted?;
        let lease = leases.pop();
        if lease.is_none() && accepted.disposition == Disposition::Started {
            self.hints.announce(Topic::Turn);
        }
        Ok((accepted, lease))
    }

    /// Wakes a worker for what came behind a lease of [`Self::accept_leased`], once that has ended: its
    /// holder claims nothing.
    pub fn go_on_behind(&self) {
        self.hints.announce(Topic::Turn);
    }
}

/// Stores batches of messages, and sees that their work is begun.
pub(crate) struct AcceptBatches {
    /// Pools of one session each.
    pub(crate) sessions: [PgPool; BOUNDS.at_once],
    pub(crate) queue: Queue,
    pub(crate) hints: Hints,
}

impl Work for AcceptBatches {
    type Item = Inbound;
    type Answer = Result<Accepted, AcceptError>;

    const OPERATION: &'static str = "accept a message";

    async fn commit(&self, slot: usize, inbounds: &[Inbound]) -> Result<Vec<Self::Answer>, Error> {
        let reserved = self.queue.handover.reserve(inbounds.len());
        let lessee = Lessee {
            worker: self.queue.worker,
            places: reserved.as_ref().map_or(0, Reservation::count),
            lease: self.queue.lease,
        };
        famulus_core::crash::before("accept.commit");
        // One statement outside a transaction block: it commits before its answer comes.
        let Batch { results, leases } =
            accept_in(&self.sessions[slot], MessageScope::Own, inbounds, lessee).await?;
        famulus_core::crash::after("accept.commit");
        self.announce(&results, leases.len());
        if let Some(reserved) = reserved {
            self.hand(reserved, leases).await;
        }
        Ok(results)
    }
}

impl AcceptBatches {
    /// Wakes the workers for what was not leased at once.
    fn announce(&self, results: &[Result<Accepted, AcceptError>], leased: usize) {
        let count = |wanted| results.iter().flatten().filter(|a| a.disposition == wanted).count();
        let steered = count(Disposition::Steered) > 0;
        if steered || count(Disposition::Started) > leased {
            self.hints.announce(Topic::Turn);
        }
        if steered {
            self.hints.announce(Topic::Control);
        }
    }

    async fn hand(&self, mut reserved: Reservation, leases: Vec<Lease>) {
        for lease in leases {
            let Err(lease) = reserved.hand(lease) else { continue };
            // The worker ended in between: another process begins the turn.
            let given = self.queue.give_back(Class::Turn, &lease.fence, Duration::ZERO, true).await;
            match given {
                Ok(()) => self.hints.announce(Topic::Turn),
                Err(error) => tracing::warn!(turn.id = %lease.job.id, %error,
                    "a lease was not given back; it ends by itself"),
            }
        }
    }
}
