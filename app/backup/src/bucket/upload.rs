//! A file on its way into a bucket, in chunks, of which two are in memory.

use super::{wait, writing::Unnamed};
use crate::{error::BackupError, store::Output};
use object_store::{
    ObjectStoreExt, PutPayload,
    multipart::{MultipartStore, PartId},
    path::Path as Key,
};
use std::{
    io::{self, Write},
    sync::Arc,
};
use tokio::{runtime::Handle, task::JoinSet};

/// All of them but the last, as some stores want it.
const CHUNK: usize = 16 * 1024 * 1024;
/// More of them no store takes.
const CHUNKS: usize = 10_000;
/// So often an upload gives a sign of life: each gigabyte.
const SIGN: usize = 64;

pub(super) struct Upload {
    backup: Arc<Unnamed>,
    file: String,
    key: Key,
    /// The next chunk.
    buffer: Vec<u8>,
    /// The store's name for it, once there was a chunk.
    id: Option<String>,
    sent: Vec<PartId>,
    /// The last chunk, on its way.
    flying: JoinSet<Result<PartId, object_store::Error>>,
}

impl Upload {
    pub(super) fn new(backup: Arc<Unnamed>, file: &str) -> Self {
        let within = backup.within(file);
        let key = backup.bucket.key(&within);
        let (buffer, sent) = (Vec::new(), Vec::new());
        Self { backup, file: within, key, buffer, id: None, sent, flying: JoinSet::new() }
    }

    fn failed(&self) -> impl FnOnce(object_store::Error) -> BackupError + use<> {
        BackupError::store("written", self.backup.bucket.path(&self.file))
    }

    /// Waits until the last chunk is there.
    fn land(&mut self) -> Result<(), BackupError> {
        match wait(self.flying.join_next()) {
            Some(Ok(Ok(part))) => {
                self.sent.push(part);
                Ok(())
            }
            Some(Ok(Err(error))) => Err(self.failed()(error)),
            Some(Err(_)) => Err(BackupError::Thread),
            None => Ok(()),
        }
    }

    fn id(&mut self) -> Result<String, BackupError> {
        if let Some(id) = &self.id {
            return Ok(id.clone());
        }
        let s3 = self.backup.bucket.s3();
        let id = self.backup.while_open(|uploads| {
            let id = wait(s3.create_multipart(&self.key)).map_err(self.failed())?;
            uploads.insert(id.clone(), self.key.clone());
            Ok(id)
        })?;
        self.id = Some(id.clone());
        Ok(id)
    }

    /// Sends the chunk that is full, once the one before it is there.
    fn send(&mut self) -> Result<(), BackupError> {
        let id = self.id()?;
        self.land()?;
        let number = self.sent.len();
        if number >= CHUNKS {
            let path = self.backup.bucket.path(&self.file);
            return Err(BackupError::TooLarge { path, limit: CHUNK as u64 * CHUNKS as u64 });
        }
        if number % SIGN == SIGN - 1 {
            self.backup.while_open(|_| self.backup.mark())?;
        }
        let chunk = PutPayload::from(std::mem::take(&mut self.buffer));
        let (s3, key) = (Arc::clone(self.backup.bucket.s3()), self.key.clone());
        let put = async move { s3.put_part(&key, &id, number, chunk).await };
        self.flying.spawn_on(put, &Handle::current());
        Ok(())
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == CHUNK {
            self.send().map_err(io::Error::other)?;
        }
        let taken = bytes.len().min(CHUNK - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Upload {
    fn finish(mut self: Box<Self>) -> Result<(), BackupError> {
        if self.id.is_none() {
            let whole = PutPayload::from(std::mem::take(&mut self.buffer));
            let s3 = self.backup.bucket.s3();
            let put = async { s3.put(&self.key, whole).await.map(drop) };
            return self.backup.while_open(|_| wait(put).map_err(self.failed()));
        }
        self.send()?;
        self.land()?;
        let (id, sent) = (self.id()?, std::mem::take(&mut self.sent));
        let s3 = self.backup.bucket.s3();
        self.backup.while_open(|uploads| {
            wait(s3.complete_multipart(&self.key, &id, sent)).map_err(self.failed())?;
            uploads.remove(&id);
            Ok(())
        })
    }
}
