//! The queues of a running assistant: who works them, and what stays open until the last of it has ended.

use famulus_lifecycle::{OnExit, Tasks};
use famulus_queue::{
    Class,
    worker::{self, Handler, Limits},
};
use famulus_store::Store;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What all who work a queue are given.
pub(crate) struct Queues<'a> {
    pub(crate) store: Store,
    pub(crate) tasks: &'a Tasks,
    /// The store ends with the last of those who hold it.
    pub(crate) in_use: Arc<DropGuard>,
    pub(crate) shutdown: CancellationToken,
    /// How long what runs may go on when the assistant is to end.
    pub(crate) grace: Duration,
}

impl Queues<'_> {
    /// Starts the task that works one, with so many jobs at once.
    pub(crate) fn work<H: Handler>(
        &self,
        task: &'static str,
        class: Class,
        handler: Arc<H>,
        concurrency: usize,
    ) {
        let Store { queue, hints, .. } = &self.store;
        let limits = Limits { concurrency, grace: self.grace };
        let works = worker::run(
            queue.clone(),
            class,
            hints.clone(),
            handler,
            limits,
            self.shutdown.clone(),
        );
        self.hold(task, works);
    }

    /// Starts a task that needs the store while the assistant drains.
    pub(crate) fn hold(
        &self,
        task: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let held = Arc::clone(&self.in_use);
        self.tasks.spawn(task, OnExit::ShutDown, async move {
            future.await;
            drop(held);
        });
    }
}
