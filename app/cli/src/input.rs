//! Lines from standard input, waited for without holding a thread: a program that is to end does
//! not hang on a read.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::termios::{QueueSelector, tcflush};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::error::Error;

/// The longest message that is taken from a pipe; the server's own limit is near.
const LONGEST: usize = 24 * 1024 * 1024;

/// Reads text, line by line or whole.
pub(crate) struct Lines {
    source: File,
    buffer: Vec<u8>,
    /// How much of the buffer was searched for a line break.
    searched: usize,
    ended: bool,
}

impl Lines {
    pub(crate) fn stdin() -> Result<Self, Error> {
        let fd = io::stdin().as_fd().try_clone_to_owned();
        Ok(Self::from_fd(fd.map_err(|source| Error::Read { source })?))
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self { source: File::from(fd), buffer: Vec::new(), searched: 0, ended: false }
    }

    /// The next line without its end, or `None` at the end of the input. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(offset) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
                let rest = self.buffer.split_off(self.searched + offset + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                line.pop();
                return text(line).map(Some);
            }
            self.searched = self.buffer.len();
            if self.ended {
                let last = std::mem::take(&mut self.buffer);
                self.searched = 0;
                return if last.is_empty() { Ok(None) } else { text(last).map(Some) };
            }
            self.fill().await?;
        }
    }

    /// Everything up to the end of the input.
    pub(crate) async fn whole(&mut self) -> Result<String, Error> {
        while !self.ended {
            self.fill().await?;
        }
        self.searched = 0;
        text(std::mem::take(&mut self.buffer))
    }

    /// Drops what was typed before it was asked for: an old keystroke is no answer.
    pub(crate) fn forget(&mut self) {
        self.buffer.clear();
        self.searched = 0;
        // Fails where the input is no terminal, which has nothing to forget.
        let _no_terminal = tcflush(&self.source, QueueSelector::IFlush);
    }

    async fn fill(&mut self) -> Result<(), Error> {
        let failed = |source| Error::Read { source };
        self.readable().await.map_err(failed)?;
        let mut piece = [0; 16 * 1024];
        match self.source.read(&mut piece) {
            Ok(0) => self.ended = true,
            Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
            // Somebody else read it first, or made the descriptor non-blocking: wait again.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(failed(error)),
        }
        if self.buffer.len() > LONGEST {
            return Err(Error::InputTooLong { limit: LONGEST });
        }
        Ok(())
    }

    /// Waits until a read will not block. A file never does, and cannot be waited for.
    async fn readable(&self) -> io::Result<()> {
        // Registered anew each time, because only a new registration reports what is there
        // already: a read takes less than everything.
        #[expect(
            deprecated,
            reason = "its successor is unsafe and asks that the descriptor stays open while it is registered, which the borrow guarantees"
        )]
        let registered = AsyncFd::with_interest(self.source.as_fd(), Interest::READABLE);
        match registered {
            Ok(fd) => {
                let _ready = fd.readable().await?;
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(NOT_POLLABLE) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What epoll answers for regular files and `/dev/null`.
const NOT_POLLABLE: i32 = rustix::io::Errno::PERM.raw_os_error();

fn text(mut bytes: Vec<u8>) -> Result<String, Error> {
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| Error::InputNotText)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, Write as _};

    #[tokio::test]
    async fn lines_come_from_a_pipe_as_they_are_written() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = Lines::from_fd(reader.into());
        writer.write_all(b"one\ntwo\r\nth").unwrap();
        assert_eq!(lines.next().await.unwrap().as_deref(), Some("one"));
        assert_eq!(lines.next().await.unwrap().as_deref(), Some("two"));
        // Dropped while it waits, nothing is lost.
        let cut = tokio::time::timeout(std::time::Duration::from_millis(20), lines.next()).await;
        assert!(cut.is_err());
        writer.write_all(b"ree\n\nlast").unwrap();
        drop(writer);
        assert_eq!(lines.next().await.unwrap().as_deref(), Some("three"));
        assert_eq!(lines.next().await.unwrap().as_deref(), Some(""));
        assert_eq!(lines.next().await.unwrap().as_deref(), Some("last"));
        assert_eq!(lines.next().await.unwrap(), None);
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_file_is_read_whole() {
        let mut file = tempfile::tempfile().unwrap();
        let content = "line\n".repeat(10_000);
        file.write_all(content.as_bytes()).unwrap();
        file.rewind().unwrap();
        assert_eq!(Lines::from_fd(file.into()).whole().await.unwrap(), content);
    }

    #[tokio::test]
    async fn bytes_that_are_not_text_are_refused() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"\xff\n").unwrap();
        let error = Lines::from_fd(reader.into()).next().await.unwrap_err();
        assert!(matches!(error, Error::InputNotText));
    }

    #[tokio::test]
    async fn what_was_read_too_early_is_forgotten() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = Lines::from_fd(reader.into());
        writer.write_all(b"first\ny\n").unwrap();
        assert_eq!(lines.next().await.unwrap().as_deref(), Some("first"));
        lines.forget();
        writer.write_all(b"n\n").unwrap();
        assert_eq!(lines.next().await.unwrap().as_deref(), Some("n"));
    }
}
