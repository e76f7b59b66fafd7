//! The ports that the store implements, in memory.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::blob::{BlobError, BlobRef, Blobs};
use famulus_core::ids::{BlobId, PersonId};
use famulus_core::runner::{DemandError, RunnerDemand};
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// Files, each of one person.
#[derive(Default)]
pub(crate) struct Files(Mutex<BTreeMap<BlobId, (PersonId, BlobRef, Bytes)>>);

impl Files {
    pub(crate) async fn add(&self, person: PersonId, bytes: &[u8]) -> BlobRef {
        let bytes = Bytes::copy_from_slice(bytes);
        let stream = futures::stream::iter([Ok(bytes)]).boxed();
        self.put(person, "text/plain", u64::MAX, stream).await.unwrap()
    }

    /// What is stored for the person.
    pub(crate) fn read(&self, person: PersonId, file: &BlobRef) -> Vec<u8> {
        let (owner, _, bytes) = self.0.lock()[&file.id].clone();
        assert_eq!(owner, person);
        bytes.to_vec()
    }
}

#[async_trait]
impl Blobs for Files {
    async fn put(
        &self,
        person: PersonId,
        mime: &str,
        limit: u64,
        mut bytes: BoxStream<'_, io::Result<Bytes>>,
    ) -> Result<BlobRef, BlobError> {
        let mut all = Vec::new();
        while let Some(piece) = bytes.next().await {
            all.extend_from_slice(&piece.map_err(BlobError::Cut)?);
            if all.len() as u64 > limit {
                return Err(BlobError::TooLarge { limit });
            }
        }
        let sha256 = hex::encode(Sha256::digest(&all));
        let size = all.len() as u64;
        let blob = BlobRef { id: BlobId::new(), sha256, mime: mime.to_owned(), size };
        self.0.lock().insert(blob.id, (person, blob.clone(), all.into()));
        Ok(blob)
    }

    async fn get(
        &self,
        person: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<Bytes, BlobError>>), BlobError> {
        let found = self.0.lock().get(&id).cloned();
        let (_, blob, bytes) =
            found.filter(|(owner, ..)| *owner == person).ok_or(BlobError::Missing { id })?;
        let pieces: Vec<_> = bytes.chunks(1000).map(Bytes::copy_from_slice).map(Ok).collect();
        Ok((blob, futures::stream::iter(pieces).boxed()))
    }
}

/// Who may start and stop runners, shared by several clusters.
#[derive(Default)]
pub(crate) struct Demand(Mutex<BTreeMap<String, Turn>>);

struct Turn {
    used: Instant,
    starts: Option<bool>,
    turned: Instant,
}

#[async_trait]
impl RunnerDemand for Demand {
    async fn used(&self, plugins: &[String]) -> Result<(), DemandError> {
        let now = Instant::now();
        for plugin in plugins {
            let mut turns = self.0.lock();
            let new = Turn { used: now, starts: None, turned: now };
            turns.entry(plugin.clone()).or_insert(new).used = now;
        }
        Ok(())
    }

    async fn may_start(&self, plugin: &str, again: Duration) -> Result<bool, DemandError> {
        let now = Instant::now();
        let mut turns = self.0.lock();
        let new = Turn { used: now, starts: None, turned: now };
        let turn = turns.entry(plugin.to_owned()).or_insert(new);
        turn.used = now;
        let may = turn.starts != Some(true) || turn.turned.elapsed() >= again;
        if may {
            (turn.starts, turn.turned) = (Some(true), now);
        }
        Ok(may)
    }

    async fn may_stop(
        &self,
        plugin: &str,
        idle: Duration,
        again: Duration,
    ) -> Result<bool, DemandError> {
        let now = Instant::now();
        let mut turns = self.0.lock();
        let new = Turn { used: now, starts: None, turned: now };
        let turn = turns.entry(plugin.to_owned()).or_insert(new);
        let may = turn.used.elapsed() >= idle
            && (turn.starts != Some(false) || turn.turned.elapsed() >= again);
        if may {
            (turn.starts, turn.turned) = (Some(false), now);
        }
        Ok(may)
    }
}
