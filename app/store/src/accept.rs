//! Accepting messages: the door through which everything comes in.
//!
//! Callers that arrive at the same time share one transaction: while one batch waits for the disk,
//! the next one gathers. A message is acknowledged after its commit, never before.

use crate::{
    accept_batch::{MessageScope, accept_in},
    db::Store,
    error::Error,
};
use famulus_core::ids::{BlobId, ConversationId, MessageId, TurnId};
use famulus_core::inbound::Inbound;
use famulus_queue::hint::{Hints, Topic};
use futures::future::BoxFuture;
use sqlx::PgPool;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Messages of one transaction, at most.
const BATCH: usize = 128;
/// Transactions at once: one works while the other waits for the disk.
pub(crate) const AT_ONCE: u32 = 2;
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
pub(crate) struct Accepting {
    queue: mpsc::Sender<Waiting>,
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
        self.accepting.queue.send((inbound, answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

impl Accepting {
    pub(crate) fn start(
        pool: PgPool,
        hints: Hints,
        shutdown: CancellationToken,
    ) -> (Self, BoxFuture<'static, ()>) {
        let (queue, waiting) = mpsc::channel(WAITING);
        (Self { queue }, Box::pin(run(pool, hints, waiting, shutdown)))
    }
}

async fn run(
    pool: PgPool,
    hints: Hints,
    mut waiting: mpsc::Receiver<Waiting>,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(AT_ONCE as usize));
    let mut running = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while running.try_join_next().is_some() {}
        let mut batch = Vec::new();
        let gathered = tokio::select! {
            gathered = waiting.recv_many(&mut batch, BATCH) => gathered,
            () = shutdown.cancelled() => {
                waiting.close();
                waiting.recv_many(&mut batch, BATCH).await
            }
        };
        if gathered == 0 {
            break;
        }
        let (pool, hints) = (pool.clone(), hints.clone());
        running.spawn(async move {
            accept_batch(&pool, &hints, batch).await;
            drop(place);
        });
    }
    while running.join_next().await.is_some() {}
}

async fn accept_batch(pool: &PgPool, hints: &Hints, batch: Vec<Waiting>) {
    let (inbounds, answers): (Vec<Inbound>, Vec<_>) = batch.into_iter().unzip();
    let mut committed = commit(pool, &inbounds).await;
    if committed.as_ref().is_err_and(Error::is_conflict) {
        // Postgres gave this transaction up for another's sake: nothing of it is there.
        committed = commit(pool, &inbounds).await;
    }
    match committed {
        Ok(results) => {
            announce(hints, &results);
            for (answer, result) in answers.into_iter().zip(results) {
                // A caller that went away finds its message in the conversation.
                let _gone = answer.send(result);
            }
        }
        // One message that Postgres refuses must not take the others with it.
        Err(Error::Refused { .. }) if inbounds.len() > 1 => {
            for (inbound, answer) in inbounds.into_iter().zip(answers) {
                let alone = std::slice::from_ref(&inbound);
                let result = match commit(pool, alone).await {
                    Ok(mut results) => {
                        announce(hints, &results);
                        results.pop().unwrap_or_else(|| Err(missing()))
                    }
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

fn missing() -> AcceptError {
    AcceptError::Store(Arc::new(Error::Refused {
        operation: "accept a message",
        source: sqlx::Error::RowNotFound,
    }))
}

async fn commit(
    pool: &PgPool,
    inbounds: &[Inbound],
) -> Result<Vec<Result<Accepted, AcceptError>>, Error> {
    famulus_core::crash::before("accept.commit");
    // One statement outside a transaction block: it commits before its answer comes.
    let results = accept_in(pool, MessageScope::Own, inbounds).await?;
    famulus_core::crash::after("accept.commit");
    Ok(results)
}

fn announce(hints: &Hints, results: &[Result<Accepted, AcceptError>]) {
    let has = |wanted| results.iter().flatten().any(|a| a.disposition == wanted);
    if has(Disposition::Started) {
        hints.announce(Topic::Turn);
    }
    if has(Disposition::Steered) {
        hints.announce(Topic::Turn);
        hints.announce(Topic::Control);
    }
}
