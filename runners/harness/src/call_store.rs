//! Calls on disk, so that a result outlives the runner.
//!
//! ```text
//! SHELF/CALL/uploads/N    files that came for the call
//! SHELF/CALL/call.json    the call was taken; written before anything of it runs
//! SHELF/CALL/files/N      files that it left
//! SHELF/CALL/result.json  it ended; written beside and renamed, so that it is whole or not there
//! ```
//!
//! A folder with a call and without a result is one during which a runner ended: its outcome is
//! *lost*. A folder without a call is an upload that nobody used.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use famulus_protocol::{CallId, CallResult, Callback, Failure, Outcome, RESULT_BYTES, Reason, Run};
use serde::{Deserialize, Serialize};
use tokio::fs;

use crate::result_budget;

/// The folder of all calls.
#[derive(Clone, Debug)]
pub(crate) struct CallStore {
    root: PathBuf,
}

/// What must be known of a call when its runner is gone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredCall {
    pub(crate) tool: String,
    pub(crate) each: bool,
    #[serde(default)]
    pub(crate) callback: Option<Callback>,
}

/// A call of an earlier runner.
#[derive(Debug)]
pub(crate) struct RecoveredCall {
    pub(crate) id: CallId,
    pub(crate) taken: StoredCall,
}

impl CallStore {
    /// Opens the store, throws unused uploads away, and gives calls that were cut off their result.
    pub(crate) fn open(root: PathBuf) -> io::Result<(Self, Vec<RecoveredCall>)> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
        let call_store = Self { root };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&call_store.root)? {
            let entry = entry?;
            let id = entry.file_name().to_str().and_then(|name| name.parse::<CallId>().ok());
            let Some(id) = id else { continue };
            let Some(taken) = call_store.taken(&id)? else {
                std::fs::remove_dir_all(entry.path())?;
                continue;
            };
            if !call_store.has_result(&id) {
                let lost = lost(&id, &taken);
                std::fs::write(call_store.result_file(&id), serde_json::to_vec(&lost)?)?;
            }
            found.push(RecoveredCall { id, taken });
        }
        Ok((call_store, found))
    }

    fn taken(&self, id: &CallId) -> io::Result<Option<StoredCall>> {
        match std::fs::read(self.folder(id).join("call.json")) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)
                .inspect_err(|error| {
                    tracing::error!(%error, call.id = %id, "a kept call cannot be read: it is dropped");
                })
                .ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a whole result is there. One that a node's crash cut counts as none.
    fn has_result(&self, id: &CallId) -> bool {
        let bytes = std::fs::read(self.result_file(id)).unwrap_or_default();
        serde_json::from_slice::<CallResult>(&bytes).is_ok()
    }

    pub(crate) fn folder(&self, id: &CallId) -> PathBuf {
        self.root.join(id.as_str())
    }

    pub(crate) fn uploads(&self, id: &CallId) -> PathBuf {
        self.folder(id).join("uploads")
    }

    pub(crate) fn outputs(&self, id: &CallId) -> PathBuf {
        self.folder(id).join("files")
    }

    /// An empty folder for a self-test; its name is none of a call.
    pub(crate) fn self_test_folder(&self) -> io::Result<PathBuf> {
        let folder = self.root.join(".self-test");
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(folder)
    }

    fn result_file(&self, id: &CallId) -> PathBuf {
        self.folder(id).join("result.json")
    }

    /// Makes the folder of a call, and the one for its uploads.
    pub(crate) async fn make_room(&self, id: &CallId) -> io::Result<()> {
        make(&self.uploads(id)).await
    }

    /// The sizes of the uploads, by their number; numbers without a gap from 0.
    pub(crate) fn upload_sizes(&self, id: &CallId) -> io::Result<Vec<u64>> {
        let mut sizes = Vec::new();
        loop {
            match std::fs::metadata(self.uploads(id).join(sizes.len().to_string())) {
                Ok(file) => sizes.push(file.len()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(sizes),
                Err(error) => return Err(error),
            }
        }
    }

    /// Notes that the call was taken.
    pub(crate) async fn take(&self, id: &CallId, taken: &StoredCall) -> io::Result<()> {
        make(&self.outputs(id)).await?;
        replace(&self.folder(id).join("call.json"), serde_json::to_vec(taken)?).await
    }

    /// Keeps the result. What came for the call is not needed any more.
    pub(crate) async fn keep(&self, result: &CallResult) -> io::Result<()> {
        replace(&self.result_file(&result.call), serde_json::to_vec(result)?).await?;
        match fs::remove_dir_all(self.uploads(&result.call)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, call.id = %result.call, "uploads could not be removed");
            }
            Ok(()) | Err(_) => {}
        }
        Ok(())
    }

    pub(crate) async fn result(&self, id: &CallId) -> io::Result<CallResult> {
        let bytes = fs::read(self.result_file(id)).await?;
        let result: CallResult = serde_json::from_slice(&bytes)?;
        Ok(if bytes.len() > RESULT_BYTES { result_budget::fit(result) } else { result })
    }

    pub(crate) async fn forget(&self, id: &CallId) -> io::Result<()> {
        match fs::remove_dir_all(self.folder(id)).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

async fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    builder.mode(0o700);
    builder.create(folder).await
}

/// Writes beside and renames. The disk is not waited for: what must outlive is the process, and a
/// node that breaks down takes its runner's answer with it anyway.
async fn replace(file: &Path, bytes: Vec<u8>) -> io::Result<()> {
    let beside = file.with_extension("new");
    fs::write(&beside, bytes).await?;
    fs::rename(&beside, file).await
}

fn lost(id: &CallId, taken: &StoredCall) -> CallResult {
    let message = "the runner ended while the call ran, so that its outcome is unknown: look whether \
                   it happened before calling again. If the call needs much memory, that may be why \
                   the runner ended: ask for less at once, or have its limit raised";
    let outcome = Outcome::Failed(Failure { reason: Reason::Lost, message: message.to_owned() });
    let run = Run { outcome, files: Vec::new(), notes: Vec::new(), millis: 0 };
    CallResult { call: id.clone(), tool: taken.tool.clone(), each: taken.each, runs: vec![run] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> StoredCall {
        let callback = Callback { url: "http://app/".into(), token: "t".into() };
        StoredCall { tool: "tool".into(), each: false, callback: Some(callback) }
    }

    #[tokio::test]
    async fn a_new_runner_finds_results_and_calls_that_were_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (call_store, found) = CallStore::open(folder.path().join("kept")).unwrap();
        assert!(found.is_empty());
        let id = |name: &str| name.parse::<CallId>().unwrap();
        call_store.make_room(&id("unused")).await.unwrap();
        call_store.make_room(&id("cut")).await.unwrap();
        call_store.take(&id("cut"), &taken()).await.unwrap();
        call_store.take(&id("done"), &taken()).await.unwrap();
        let mut result = lost(&id("done"), &taken());
        result.runs[0].outcome = Outcome::Text { output: "ok".into() };
        call_store.keep(&result).await.unwrap();

        let (call_store, mut found) = CallStore::open(folder.path().join("kept")).unwrap();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        let names: Vec<&str> = found.iter().map(|found| found.id.as_str()).collect();
        assert_eq!(names, ["cut", "done"]);
        assert_eq!(found[0].taken.callback, taken().callback);
        assert_eq!(call_store.result(&id("done")).await.unwrap(), result);
        let cut = call_store.result(&id("cut")).await.unwrap();
        assert!(
            matches!(&cut.runs[0].outcome, Outcome::Failed(failure) if failure.reason == Reason::Lost)
        );
        assert!(!call_store.folder(&id("unused")).exists());
        call_store.forget(&id("cut")).await.unwrap();
        call_store.forget(&id("cut")).await.unwrap();
        assert!(call_store.result(&id("cut")).await.is_err());
    }
}
