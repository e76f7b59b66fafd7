//! What came of a call, as those above the port read it: files are fetched and stored on the way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use famulus_core::blob::{BlobError, BlobRef, Blobs};
use famulus_core::ids::PersonId;
use famulus_core::sandbox::{RunOutput, SandboxResult, SandboxRun};
use famulus_errors::chain;
use famulus_protocol::{
    CallId, CallResult, FILES, FILES_BYTES, Failure, Kind, Outcome, OutputFile, RESULT_BYTES,
    Reason, Run,
};
use futures::{StreamExt, TryStreamExt};
use tokio::time::{sleep, timeout};

use crate::wire::{RunnerClient, WireError};

/// How often a file is asked for, and the pause between.
const ATTEMPTS: u32 = 3;
const AGAIN: Duration = Duration::from_millis(300);

/// One file, from the first byte to the stored whole.
const TRANSFER: Duration = Duration::from_mins(1);

/// A runner says nothing of what a file is.
const MIME: &str = "application/octet-stream";

/// The longest name of a file, in bytes.
const NAME_BYTES: usize = 255;

/// The result with its files stored for `person`. A file that cannot be had is a note of its run:
/// what the tool did is done, and its output counts.
pub(crate) async fn store(
    result: CallResult,
    from: Option<RunnerClient<'_>>,
    blobs: &Arc<dyn Blobs>,
    person: PersonId,
) -> SandboxResult {
    let CallResult { call, tool: _, each, runs } = result;
    let mut room = FileBudget { files: FILES, bytes: FILES_BYTES };
    let mut stored = Vec::with_capacity(runs.len());
    for Run { outcome, files, mut notes, millis } in runs {
        let mut kept = Vec::new();
        for file in files {
            let name = plain_name(&file);
            match fetch(&call, &file, from, blobs, person, &mut room).await {
                Ok(blob) => kept.push((name, blob)),
                Err(why) => notes.push(format!("the file `{name}` is missing: {why}")),
            }
        }
        stored.push(SandboxRun { output: output(outcome), files: kept, notes, millis });
    }
    SandboxResult { each, runs: stored }
}

/// What is known of a call whose result a runner of another release made larger than it may be: that
/// the tool has run.
pub(crate) fn too_large() -> SandboxResult {
    let output = RunOutput::Failed(format!(
        "the tool has run, and what it did stays done; its output is lost, because the result of a \
         call may have {RESULT_BYTES} bytes and this one has more: ask for less at once, or have the \
         tool leave files"
    ));
    let run = SandboxRun { output, files: Vec::new(), notes: Vec::new(), millis: 0 };
    SandboxResult { each: false, runs: vec![run] }
}

/// What a call may still leave behind.
struct FileBudget {
    files: u32,
    bytes: u64,
}

fn output(outcome: Outcome) -> RunOutput {
    match outcome {
        Outcome::Json { output } => RunOutput::Json(output),
        Outcome::Text { output } => RunOutput::Text(output),
        Outcome::Failed(Failure { reason, message }) => match reason {
            Reason::Lost => RunOutput::Unknown(message),
            Reason::Tool
            | Reason::Deadline
            | Reason::Cancelled
            | Reason::Processes
            | Reason::Memory
            | Reason::Start
            | Reason::Files
            | Reason::Runner => RunOutput::Failed(message),
        },
    }
}

/// One part of a path, whatever the runner called it.
fn plain_name(file: &OutputFile) -> String {
    let name = file.name.as_str();
    let plain = !name.is_empty()
        && name.len() <= NAME_BYTES
        && !matches!(name, "." | "..")
        && !name.chars().any(|letter| letter == '/' || letter == '\\' || letter.is_control());
    if plain { name.to_owned() } else { format!("file-{}", file.index) }
}

async fn fetch(
    call: &CallId,
    file: &OutputFile,
    from: Option<RunnerClient<'_>>,
    blobs: &Arc<dyn Blobs>,
    person: PersonId,
    room: &mut FileBudget,
) -> Result<BlobRef, String> {
    let Some(from) = from else { return Err("the runner that had it is gone".to_owned()) };
    if room.files == 0 {
        return Err(format!("a call may leave {FILES} files"));
    }
    let mut why = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            sleep(AGAIN).await;
        }
        match once(call, file.index, from, blobs, person, room.bytes).await {
            Ok(blob) => {
                room.files -= 1;
                room.bytes -= blob.size.min(room.bytes);
                return Ok(blob);
            }
            Err(FetchError::Permanent(reason)) => return Err(reason),
            Err(FetchError::Transient(reason)) => why = reason,
        }
    }
    Err(why)
}

enum FetchError {
    Permanent(String),
    Transient(String),
}

async fn once(
    call: &CallId,
    index: u32,
    from: RunnerClient<'_>,
    blobs: &Arc<dyn Blobs>,
    person: PersonId,
    limit: u64,
) -> Result<BlobRef, FetchError> {
    let response = from.file(call, index).await.map_err(|error| match error {
        WireError::Refused(problem) if problem.kind == Kind::NoFile => {
            FetchError::Permanent("the runner does not have it".to_owned())
        }
        WireError::Refused(_)
        | WireError::Unreached(_)
        | WireError::Broken(_)
        | WireError::TooLarge => FetchError::Transient(error.to_string()),
    })?;
    let pieces = response.bytes_stream().map_err(io::Error::other).boxed();
    match timeout(TRANSFER, blobs.put(person, MIME, limit, pieces)).await {
        Ok(Ok(blob)) => Ok(blob),
        Ok(Err(BlobError::TooLarge { limit: _ })) => Err(FetchError::Permanent(format!(
            "the files of a call may have {FILES_BYTES} bytes in all"
        ))),
        Ok(Err(error)) => Err(FetchError::Transient(chain(&error))),
        Err(_elapsed) => Err(FetchError::Transient("it took too long".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path_whatever_the_runner_says() {
        let check = |name: &str, expected: &str| {
            let file = OutputFile { index: 3, name: name.to_owned(), bytes: 0 };
            assert_eq!(plain_name(&file), expected, "{name:?}");
        };
        check("bild.png", "bild.png");
        check("ein name mit ä.txt", "ein name mit ä.txt");
        for bad in ["", ".", "..", "../x", "a/b", "a\\b", "a\nb", &"x".repeat(256)] {
            check(bad, "file-3");
        }
    }

    #[test]
    fn a_runner_that_was_lost_leaves_the_outcome_open() {
        let failed = |reason| output(Outcome::Failed(Failure { reason, message: "m".to_owned() }));
        assert_eq!(failed(Reason::Lost), RunOutput::Unknown("m".to_owned()));
        assert_eq!(failed(Reason::Memory), RunOutput::Failed("m".to_owned()));
    }
}
