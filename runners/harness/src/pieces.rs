//! Bytes on their way between a connection and a thread that may block, a few pieces at a time.

use std::io::{self, BufWriter, Read, Write};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// What is sent at once, and how many of them wait.
const PIECE: usize = 64 * 1024;
const WAITING: usize = 4;

/// Whoever is not heard of for so long is gone: calls wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes in order. An error is the last, and tells that more was to come.
pub type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// What comes in the body of a request.
pub(crate) fn of(body: Body) -> Pieces {
    body.into_data_stream().map_err(io::Error::other).boxed()
}

/// What a thread writes. It is dropped when nobody takes it any more.
pub fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static) -> Pieces {
    let (sender, mut receiver) = mpsc::channel(WAITING);
    let runtime = Handle::current();
    spawn_blocking(move || {
        let sending = Sending { sender, runtime };
        let mut to = BufWriter::with_capacity(PIECE, &sending);
        let done = write(&mut to).and_then(|()| to.flush());
        let (_sending, _unsent) = to.into_parts();
        if let Err(error) = done {
            tracing::warn!(%error, "what was asked for could not be given whole");
            // Who is gone need not be told.
            let _gone = sending.pass(Err(error));
        }
    });
    stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
}

/// Sends what is written. Only for threads that may block.
struct Sending {
    sender: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
}

impl Sending {
    fn pass(&self, piece: io::Result<Bytes>) -> io::Result<()> {
        match self.runtime.block_on(timeout(PATIENCE, self.sender.send(piece))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_closed)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_late) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Write for &Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pass(Ok(Bytes::copy_from_slice(bytes)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads pieces. Only for threads that may block.
pub struct PieceReader {
    pieces: Pieces,
    piece: Bytes,
    runtime: Handle,
}

impl PieceReader {
    /// Made where there is a runtime, and read elsewhere.
    pub fn new(pieces: Pieces) -> Self {
        Self { pieces, piece: Bytes::new(), runtime: Handle::current() }
    }
}

impl Read for PieceReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.runtime.block_on(timeout(PATIENCE, self.pieces.next())) {
                Ok(Some(piece)) => self.piece = piece?,
                Ok(None) => return Ok(0),
                Err(_late) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        let length = to.len().min(self.piece.len());
        to[..length].copy_from_slice(&self.piece.split_to(length));
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read_and_an_error_is_told() {
        let text: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let wanted = text.clone();
        let mut reader = PieceReader::new(written(move |to| to.write_all(&text)));
        let read = spawn_blocking(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).map(|_bytes| read)
        });
        assert_eq!(read.await.unwrap().unwrap(), wanted);
        let pieces = written(|to| {
            to.write_all(b"half")?;
            Err(io::ErrorKind::UnexpectedEof.into())
        });
        let told: Vec<io::Result<Bytes>> = pieces.collect().await;
        assert!(told.last().unwrap().is_err(), "{told:?}");
    }

    #[tokio::test]
    async fn nobody_writes_for_who_is_gone() {
        let (done, heard) = tokio::sync::oneshot::channel();
        let pieces = written(move |to| {
            let written = (0..100).try_for_each(|_| to.write_all(&vec![0; PIECE]));
            let _gone = done.send(written.as_ref().err().map(io::Error::kind));
            written
        });
        drop(pieces);
        assert_eq!(heard.await.unwrap(), Some(io::ErrorKind::BrokenPipe));
    }
}
