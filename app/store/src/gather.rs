//! Callers that come at the same time share one transaction: while one batch waits for the disk,
//! the next one gathers.
//!
//! Each caller has an answer of its own. What Postgres refuses of a batch is tried one by one, so
//! that nobody pays for another's fault.

use crate::error::Error;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use std::{slice, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// How much is gathered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Of one transaction, at most.
    pub(crate) batch: usize,
    /// Transactions at once: one works while the other waits for the disk.
    pub(crate) at_once: usize,
    /// For so long what comes behind a batch gathers before a transaction begins beside it. Batches
    /// get larger, which cost less; one that hangs holds nobody up for longer.
    pub(crate) patience: Duration,
    /// That may wait; beyond that, callers wait for a place.
    pub(crate) waiting: usize,
}

/// What is done for a batch.
pub(crate) trait Work: Send + Sync + 'static {
    type Item: Send + Sync + 'static;
    type Answer: Send + 'static;

    /// What did not happen, for errors.
    const OPERATION: &'static str;

    /// Does it in one transaction; one answer for every item, in order. After an error nothing
    /// happened, except that a session lost during the commit leaves it open. No two calls with
    /// one `slot`, which is less than `at_once`, overlap.
    fn commit(
        &self,
        slot: usize,
        items: &[Self::Item],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Error>> + Send;
}

type Waiting<W> = (<W as Work>::Item, oneshot::Sender<Result<<W as Work>::Answer, Arc<Error>>>);

/// The way to a [`Work`].
pub(crate) struct Gather<W: Work> {
    sender: mpsc::Sender<Waiting<W>>,
}

impl<W: Work> Clone for Gather<W> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<W: Work> Gather<W> {
    pub(crate) fn start(
        work: W,
        bounds: Bounds,
        shutdown: CancellationToken,
    ) -> (Self, BoxFuture<'static, ()>) {
        let (sender, waiting) = mpsc::channel(bounds.waiting);
        (Self { sender }, Box::pin(run(work, bounds, waiting, shutdown)))
    }

    /// Has the item done together with what else comes at this moment.
    pub(crate) async fn pass(&self, item: W::Item) -> Result<W::Answer, Arc<Error>> {
        let closed = || {
            Arc::new(Error::Unavailable {
                operation: "begin anything while shutting down",
                source: sqlx::Error::PoolClosed,
            })
        };
        let (answer, answered) = oneshot::channel();
        self.sender.send((item, answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

async fn run<W: Work>(
    work: W,
    bounds: Bounds,
    mut waiting: mpsc::Receiver<Waiting<W>>,
    shutdown: CancellationToken,
) {
    // In this task and not in one each: what comes alone is not passed on once more.
    let mut running = FuturesUnordered::new();
    // The slot that was used last is used next: what it needs is still in the processor's cache.
    let mut free: Vec<usize> = (0..bounds.at_once).collect();
    let mut batch = Vec::new();
    let mut patient_until = Instant::now();
    loop {
        let begins = running.is_empty() || patient_until <= Instant::now();
        tokio::select! {
            Some(slot) = running.next() => free.push(slot),
            () = sleep_until(patient_until), if !begins => {}
            gathered = waiting.recv_many(&mut batch, bounds.batch), if begins && !free.is_empty() => {
                let Some(slot) = free.pop().filter(|_| gathered > 0) else { break };
                patient_until = Instant::now() + bounds.patience;
                let batch = std::mem::take(&mut batch);
                running.push(settle(&work, slot, batch).map(move |()| slot));
            }
            // What waits already is still done.
            () = shutdown.cancelled(), if !waiting.is_closed() => waiting.close(),
        }
    }
    while running.next().await.is_some() {}
}

async fn settle<W: Work>(work: &W, slot: usize, batch: Vec<Waiting<W>>) {
    let (items, callers): (Vec<W::Item>, Vec<_>) = batch.into_iter().unzip();
    let mut committed = work.commit(slot, &items).await;
    if committed.as_ref().is_err_and(Error::is_conflict) {
        // Postgres gave this transaction up for another's sake: nothing of it is there.
        committed = work.commit(slot, &items).await;
    }
    match committed {
        Ok(answers) => {
            for (caller, answer) in callers.into_iter().zip(answers) {
                // A caller that went away finds it in the record.
                let _gone = caller.send(Ok(answer));
            }
        }
        // One item that Postgres refuses must not take the others with it.
        Err(Error::Refused { .. }) if items.len() > 1 => {
            for (item, caller) in items.iter().zip(callers) {
                let answer = match work.commit(slot, slice::from_ref(item)).await {
                    Ok(mut answers) => answers.pop().ok_or_else(missing::<W>),
                    Err(error) => Err(Arc::new(error)),
                };
                let _gone = caller.send(answer);
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for caller in callers {
                let _gone = caller.send(Err(Arc::clone(&error)));
            }
        }
    }
}

fn missing<W: Work>() -> Arc<Error> {
    Arc::new(Error::Refused { operation: W::OPERATION, source: sqlx::Error::RowNotFound })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

    /// Tells the size of each batch, which then waits at the gate.
    struct Gated {
        batches: mpsc::Sender<usize>,
        gate: Arc<Semaphore>,
    }

    impl Work for Gated {
        type Item = ();
        type Answer = ();

        const OPERATION: &'static str = "pass the gate";

        async fn commit(&self, _slot: usize, items: &[()]) -> Result<Vec<()>, Error> {
            self.batches.send(items.len()).await.unwrap();
            self.gate.acquire().await.unwrap().forget();
            Ok(items.to_vec())
        }
    }

    struct Begun {
        gather: Gather<Gated>,
        batches: mpsc::Receiver<usize>,
        gate: Arc<Semaphore>,
        /// End with the test.
        tasks: JoinSet<()>,
    }

    /// A batch of one stands at the gate.
    async fn begun(patience: Duration) -> Begun {
        let (batches, told) = mpsc::channel(8);
        let gate = Arc::new(Semaphore::new(0));
        let work = Gated { batches, gate: Arc::clone(&gate) };
        let bounds = Bounds { batch: 8, at_once: 2, patience, waiting: 8 };
        let (gather, run) = Gather::start(work, bounds, CancellationToken::new());
        let mut begun = Begun { gather, batches: told, gate, tasks: JoinSet::new() };
        begun.tasks.spawn(run);
        begun.pass();
        assert_eq!(begun.next().await, 1);
        begun
    }

    impl Begun {
        fn pass(&mut self) {
            let gather = self.gather.clone();
            self.tasks.spawn(async move { gather.pass(()).await.unwrap() });
        }

        async fn next(&mut self) -> usize {
            let next = timeout(Duration::from_secs(10), self.batches.recv()).await;
            next.expect("no batch began").unwrap()
        }
    }

    #[tokio::test]
    async fn what_comes_behind_a_batch_gathers_until_it_ends() {
        let mut begun = begun(Duration::from_hours(1)).await;
        for _ in 0..3 {
            begun.pass();
        }
        // On a single thread: each stands in the queue now.
        tokio::task::yield_now().await;
        assert!(begun.batches.try_recv().is_err(), "none begins beside the first");
        begun.gate.add_permits(1);
        assert_eq!(begun.next().await, 3);
    }

    #[tokio::test]
    async fn a_batch_that_hangs_does_not_hold_up_what_comes_behind_it() {
        let mut begun = begun(Duration::from_millis(5)).await;
        begun.pass();
        assert_eq!(begun.next().await, 1);
    }
}
