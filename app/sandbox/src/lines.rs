//! Lines of progress, as they come in.

use std::time::Duration;

use bytes::BytesMut;
use famulus_core::sandbox::{Progress, Stage};
use famulus_protocol::{ANSWER_BYTES, CallResult, Progress as Line};
use reqwest::Response;
use tokio::time::timeout;

use crate::stages::{CallStage, StageTimer};
use crate::wire::{WireError, words};

/// A runner with nothing to say says so every 10 s.
const SILENCE: Duration = Duration::from_secs(35);

/// Reads until the result, and tells what comes before.
///
/// # Errors
/// The stream was cut. The call goes on.
pub(crate) async fn follow(
    response: &mut Response,
    progress: &Progress,
    stages: &mut StageTimer,
) -> Result<CallResult, WireError> {
    let mut lines = Lines { pending: BytesMut::new(), searched: 0 };
    loop {
        while let Some(line) = lines.next() {
            let line = serde_json::from_slice::<Line>(&line);
            match line.map_err(|error| cut(&format!("it sent no line of progress: {error}")))? {
                Line::Queued { position } => progress.tell(Stage::Queued { position }),
                Line::Started { run, runs } => {
                    stages.end(CallStage::Started);
                    progress.tell(Stage::Started { run, runs });
                }
                Line::Said { run: _, text } => progress.tell(Stage::Said { text }),
                Line::Skipped { lines } => {
                    progress.tell(Stage::Said { text: format!("({lines} lines were left out)") });
                }
                Line::Alive => {}
                Line::Result(result) => return Ok(result),
            }
        }
        let piece = timeout(SILENCE, response.chunk()).await;
        let piece = piece.map_err(|_elapsed| cut("it was silent for too long"))?;
        let Some(piece) = piece.map_err(words)? else {
            return Err(cut("the connection ended before the result"));
        };
        if lines.pending.len() + piece.len() > ANSWER_BYTES {
            return Err(WireError::TooLarge);
        }
        lines.pending.extend_from_slice(&piece);
    }
}

pub(crate) fn cut(what: &str) -> WireError {
    WireError::Broken(format!("its runner was cut off: {what}"))
}

/// Bytes that are no whole line yet.
struct Lines {
    pending: BytesMut,
    /// So many of them hold no end of a line.
    searched: usize,
}

impl Lines {
    fn next(&mut self) -> Option<BytesMut> {
        let end = self.pending[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.searched = self.pending.len();
            return None;
        };
        let line = self.pending.split_to(self.searched + end + 1);
        self.searched = 0;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"one\n\ntwo\nthree";
        for size in 1..=text.len() {
            let mut lines = Lines { pending: BytesMut::new(), searched: 0 };
            let mut seen = Vec::new();
            for piece in text.chunks(size) {
                lines.pending.extend_from_slice(piece);
                while let Some(line) = lines.next() {
                    seen.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(seen, ["one\n", "\n", "two\n"], "{size}");
        }
    }
}
