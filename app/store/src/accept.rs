//! Accepting messages: everything that comes in passes here.
//!
//! Callers that arrive at the same time share one transaction: while one batch waits for the disk,
//! the next one gathers. A message is acknowledged after its commit, never before.

use crate::{
    accept_batch::{Batch, Lessee, MessageScope, accept_in},
    db::Store,
    error::Error,
};
use famulus_core::ids::{BlobId, ConversationId, MessageId, TurnId};
use famulus_core::inbound::Inbound;
use famulus_queue::{
    Class, Lease, Queue,
    handover::Reservation,
    hint::{Hints, Topic},
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use sqlx::PgPool;
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Messages of one transaction, at most.
const BATCH: usize = 128;
/// Transactions at once: one works while the other waits for the disk.
pub(crate) const AT_ONCE: usize = 2;
/// Messages that may wait; beyond that, callers wait for a place.
const WAITING: usize = 4096;

/// A message was stored (or had been before).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub conversation: ConversationId,
    pub message: MessageId,
    pub turn: TurnId,
    pub disposition: Disposition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It began a turn of its own.
    Started,
    /// It joined the turn that was running.
    Steered,
    /// It had been accepted before; this is what came of it then.
    Duplicate,
}

/// A message was not stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("the key `{key}` was used for another message; use a new key, or send the same body")]
    KeyReused { key: String },
    #[error("conversation {id} does not exist, or belongs to somebody else")]
    NoConversation { id: String },
    #[error("attachment {id} is not stored, or belongs to somebody else; upload it first")]
    NoAttachment { id: BlobId },
    #[error("the message was not stored")]
    Store(#[source] Arc<Error>),
}

type Waiting = (Inbound, oneshot::Sender<Result<Accepted, AcceptError>>);

/// The port of acceptance, for callers that need nothing else of the store.
pub trait Accept {
    fn accept(
        &self,
        inbound: Inbound,
    ) -> impl Future<Output = Result<Accepted, AcceptError>> + Send;
}

#[derive(Clone)]
pub(crate) struct AcceptQueue {
    sender: mpsc::Sender<Waiting>,
}

impl Accept for Store {
    /// Stores a message and the work that it asks for, in one transaction.
    ///
    /// # Errors
    /// After an error nothing was stored, except that a connection lost during the commit leaves it
    /// open: a caller with an `external_id` finds out by sending it again.
    async fn accept(&self, inbound: Inbound) -> Result<Accepted, AcceptError> {
        let (answer, answered) = oneshot::channel();
        let closed = || {
            AcceptError::Store(Arc::new(Error::Unavailable {
                operation: "accept a message while shutting down",
                source: sqlx::Error::PoolClosed,
            }))
        };
        self.accept_queue.sender.send((inbound, answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

/// Writes batches.
struct BatchWriter {
    /// Pools of one session each.
    sessions: Vec<PgPool>,
    queue: Queue,
    hints: Hints,
}

impl AcceptQueue {
    pub(crate) fn start(
        sessions: Vec<PgPool>,
        queue: Queue,
        hints: Hints,
        shutdown: CancellationToken,
    ) -> (Self, BoxFuture<'static, ()>) {
        let (sender, waiting) = mpsc::channel(WAITING);
        let writer = BatchWriter { sessions, queue, hints };
        (Self { sender }, Box::pin(run(writer, waiting, shutdown)))
    }
}

async fn run(
    writer: BatchWriter,
    mut waiting: mpsc::Receiver<Waiting>,
    shutdown: CancellationToken,
) {
    // In this task and not in one each: a message that comes alone is not passed on once more.
    let mut running = FuturesUnordered::new();
    // The session that was used last is used next: what it needs is still in the processor's cache.
    let mut free: Vec<&PgPool> = writer.sessions.iter().collect();
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            Some(session) = running.next() => free.push(session),
            gathered = waiting.recv_many(&mut batch, BATCH), if !free.is_empty() => {
                let Some(session) = free.pop().filter(|_| gathered > 0) else { break };
                let batch = std::mem::take(&mut batch);
                running.push(writer.accept(session, batch).map(move |()| session));
            }
            // What waits already is still accepted.
            () = shutdown.cancelled(), if !waiting.is_closed() => waiting.close(),
        }
    }
    while running.next().await.is_some() {}
}

impl BatchWriter {
    async fn accept(&self, session: &PgPool, batch: Vec<Waiting>) {
        let (inbounds, answers): (Vec<Inbound>, Vec<_>) = batch.into_iter().unzip();
        let mut committed = self.commit(session, &inbounds).await;
        if committed.as_ref().is_err_and(Error::is_conflict) {
            // Postgres gave this transaction up for another's sake: nothing of it is there.
            committed = self.commit(session, &inbounds).await;
        }
        match committed {
            Ok(results) => {
                for (answer, result) in answers.into_iter().zip(results) {
                    // A caller that went away finds its message in the conversation.
                    let _gone = answer.send(result);
                }
            }
            // One message that Postgres refuses must not take the others with it.
            Err(Error::Refused { .. }) if inbounds.len() > 1 => {
                for (inbound, answer) in inbounds.into_iter().zip(answers) {
                    let result = match self.commit(session, std::slice::from_ref(&inbound)).await {
                        Ok(mut results) => results.pop().unwrap_or_else(|| Err(missing())),
                        Err(error) => Err(AcceptError::Store(Arc::new(error))),
                    };
                    let _gone = answer.send(result);
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for answer in answers {
                    let _gone = answer.send(Err(AcceptError::Store(Arc::clone(&error))));
                }
            }
        }
    }

    /// Stores messages, and sees that their work is begun.
    async fn commit(
        &self,
        session: &PgPool,
        inbounds: &[Inbound],
    ) -> Result<Vec<Result<Accepted, AcceptError>>, Error> {
        let reserved = self.queue.handover.reserve(inbounds.len());
        let lessee = Lessee {
            worker: self.queue.worker,
            places: reserved.as_ref().map_or(0, Reservation::count),
            lease: self.queue.lease,
        };
        famulus_core::crash::before("accept.commit");
        // One statement outside a transaction block: it commits before its answer comes.
        let Batch { results, leases } =
            accept_in(session, MessageScope::Own, inbounds, lessee).await?;
        famulus_core::crash::after("accept.commit");
        self.announce(&results, leases.len());
        if let Some(reserved) = reserved {
            self.hand(reserved, leases).await;
        }
        Ok(results)
    }

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

fn missing() -> AcceptError {
    AcceptError::Store(Arc::new(Error::Refused {
        operation: "accept a message",
        source: sqlx::Error::RowNotFound,
    }))
}
