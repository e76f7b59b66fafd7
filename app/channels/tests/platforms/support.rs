//! What the channels of these tests keep, and what listens to them.

use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::{
    StoreError,
    blob::{BlobError, BlobRef, Blobs},
    ids::{BlobId, PersonId},
    inbound::Attachment,
    intake::{Arrival, Keep, Listener},
};
use famulus_lifecycle::{OnExit, Tasks};
use futures::{StreamExt, stream::BoxStream};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Listens, and begins again where it was when it fails.
pub(crate) fn listen(listener: Arc<dyn Listener>, kept: Arc<Kept>) -> Tasks {
    let tasks = Tasks::new();
    let shutdown = tasks.token();
    tasks.spawn("listener", OnExit::Log, async move {
        loop {
            let place = kept.place.lock().clone();
            tokio::select! {
                _error = listener.listen(place, kept.as_ref()) => {}
                () = shutdown.cancelled() => return,
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    tasks
}

/// Files of ours.
#[derive(Default)]
pub(crate) struct Files(Mutex<HashMap<BlobId, (BlobRef, Bytes)>>);

impl Files {
    pub(crate) fn keep(&self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Attachment {
        let bytes = bytes.into();
        let blob = BlobRef {
            id: BlobId::new(),
            sha256: "0".repeat(64),
            mime: mime.to_owned(),
            size: bytes.len() as u64,
        };
        self.0.lock().insert(blob.id, (blob.clone(), bytes));
        Attachment { blob, name: name.to_owned() }
    }
}

#[async_trait]
impl Blobs for Files {
    async fn put(
        &self,
        _: PersonId,
        _: &str,
        _: u64,
        _: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<BlobRef, BlobError> {
        panic!("a channel stores no files");
    }

    async fn get(
        &self,
        _: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<Bytes, BlobError>>), BlobError> {
        let (blob, bytes) = self.0.lock().get(&id).cloned().ok_or(BlobError::Missing { id })?;
        let pieces: Vec<_> = bytes.chunks(1000).map(Bytes::copy_from_slice).map(Ok).collect();
        Ok((blob, futures::stream::iter(pieces).boxed()))
    }
}

/// What was kept of what was heard.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) arrivals: Mutex<Vec<Arrival>>,
    pub(crate) place: Mutex<Option<String>>,
    /// The next times it fails.
    pub(crate) fails: Mutex<u32>,
    /// This process is to listen no more.
    pub(crate) over: Notify,
}

#[async_trait]
impl Keep for Kept {
    async fn keep(&self, arrivals: Vec<Arrival>, place: Option<&str>) -> Result<(), StoreError> {
        let mut fails = self.fails.lock();
        if *fails > 0 {
            *fails -= 1;
            return Err(StoreError::Unavailable("the disk is away".into()));
        }
        self.arrivals.lock().extend(arrivals);
        if let Some(place) = place {
            *self.place.lock() = Some(place.to_owned());
        }
        Ok(())
    }

    async fn over(&self) {
        self.over.notified().await;
    }

    async fn heard(&self) {}
}
