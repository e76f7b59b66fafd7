//! A backup on its way into a bucket, from its mark to its name or its end.

use super::{Bucket, mark_of, upload::Upload, wait};
use crate::{
    error::BackupError,
    store::{Draft, Output},
};
use object_store::{multipart::MultipartStore, path::Path as Key};
use parking_lot::Mutex;
use std::{collections::BTreeMap, io::Read, path::PathBuf, sync::Arc};
use tokio::runtime::Handle;
use uuid::Uuid;

/// A backup that has a mark.
pub(super) struct Unnamed {
    pub(super) bucket: Bucket,
    installation: Uuid,
    backup: String,
    stage: Mutex<Stage>,
}

enum Stage {
    /// With the uploads that were begun, by their ids.
    Open(BTreeMap<String, Key>),
    Named,
    Discarded,
}

impl Unnamed {
    pub(super) fn within(&self, file: &str) -> String {
        format!("{}/{file}", self.backup)
    }

    /// Does what makes something appear, unless the backup was given up: then nothing may any more.
    pub(super) fn while_open<T>(
        &self,
        what: impl FnOnce(&mut BTreeMap<String, Key>) -> Result<T, BackupError>,
    ) -> Result<T, BackupError> {
        match &mut *self.stage.lock() {
            Stage::Open(uploads) => what(uploads),
            Stage::Named | Stage::Discarded => Err(self.given_up()),
        }
    }

    /// A sign of life.
    pub(super) fn mark(&self) -> Result<(), BackupError> {
        self.bucket.mark(self.installation, &self.backup)
    }

    fn name(&self) -> Result<(), BackupError> {
        let mut stage = self.stage.lock();
        match *stage {
            Stage::Open(_) => self.bucket.delete(&mark_of(self.installation, &self.backup))?,
            Stage::Named | Stage::Discarded => return Err(self.given_up()),
        }
        *stage = Stage::Named;
        Ok(())
    }

    fn given_up(&self) -> BackupError {
        BackupError::GivenUp { name: self.backup.clone() }
    }

    fn discard(&self) {
        let mut stage = self.stage.lock();
        let Stage::Open(uploads) = &mut *stage else { return };
        let uploads = std::mem::take(uploads);
        *stage = Stage::Discarded;
        for (id, key) in uploads {
            if let Err(error) = wait(self.bucket.s3.abort_multipart(&key, &id)) {
                tracing::warn!(%key, %error, "what was uploaded of it stays, and is not to be seen");
            }
        }
        let removed = self.mark().and_then(|()| self.bucket.clear(self.installation, &self.backup));
        if let Err(error) = removed {
            tracing::warn!(backup = self.backup, %error,
                "an unfinished backup stays until one is taken a day from now");
        }
    }
}

pub(super) struct Writing(Arc<Unnamed>);

impl Writing {
    /// The mark is there.
    pub(super) fn new(bucket: Bucket, installation: Uuid, backup: &str) -> Self {
        let stage = Mutex::new(Stage::Open(BTreeMap::new()));
        Self(Arc::new(Unnamed { bucket, installation, backup: backup.to_owned(), stage }))
    }
}

impl Draft for Writing {
    fn path(&self, file: &str) -> PathBuf {
        self.0.bucket.path(&self.0.within(file))
    }

    fn create(&self, file: &str) -> Result<Box<dyn Output>, BackupError> {
        self.0.while_open(|_| self.0.mark())?;
        Ok(Box::new(Upload::new(Arc::clone(&self.0), file)))
    }

    fn open(&self, file: &str) -> Result<Box<dyn Read + Send>, BackupError> {
        self.0.bucket.open(&self.0.within(file))
    }

    /// An upload that is given up names nothing.
    fn forget(&self, _file: &str) {}

    fn name(&self) -> Result<(), BackupError> {
        self.0.name()
    }

    fn discard(&self) {
        self.0.discard();
    }
}

impl Drop for Writing {
    /// Dropped on its way, perhaps where nothing may block: a thread of its own cleans up, and where
    /// none can, a later backup does.
    fn drop(&mut self) {
        let done = |stage: &Stage| matches!(stage, Stage::Named | Stage::Discarded);
        if self.0.stage.try_lock().is_some_and(|stage| done(&stage)) {
            return;
        }
        if let Ok(handle) = Handle::try_current() {
            let unnamed = Arc::clone(&self.0);
            handle.spawn_blocking(move || unnamed.discard());
        }
    }
}
