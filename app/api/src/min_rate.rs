//! A minimum rate for request bodies: who sends too slowly is cut off.
//!
//! A client may keep us waiting for a while; what it sends earns more of that while. So pauses and
//! slow lines are borne, and a body that comes byte by byte ends soon, however much came before:
//!
//! ```text
//! left = min(patience, left - time waited + bytes / bytes_per_second)
//! ```
//!
//! Only waiting for the client counts, never what is done with its bytes in between.

use axum::body::Body;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use std::{io, time::Duration};
use tokio::time::{Instant, timeout};

/// How slowly a body may come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinRate {
    /// How long the client may keep us waiting.
    patience: Duration,
    /// What it must send in the long run.
    bytes_per_second: u64,
}

impl MinRate {
    pub(crate) fn new(patience: Duration, bytes_per_second: u64) -> Self {
        Self { patience, bytes_per_second: bytes_per_second.max(1) }
    }

    /// How long the client may keep us waiting at once.
    pub(crate) fn patience(self) -> Duration {
        self.patience
    }

    /// The body as it comes. One that comes too slowly ends with [`io::ErrorKind::TimedOut`].
    pub(crate) fn pieces(
        self,
        body: Body,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static {
        let coming = (body.into_data_stream(), self.patience);
        futures::stream::unfold(Some(coming), move |coming| async move {
            let (mut stream, left) = coming?;
            let began = Instant::now();
            match timeout(left, stream.next()).await {
                Ok(Some(Ok(piece))) => {
                    let left = self.after(left, began.elapsed(), piece.len());
                    Some((Ok(piece), Some((stream, left))))
                }
                Ok(Some(Err(error))) => Some((Err(io::Error::other(error)), None)),
                Ok(None) => None,
                Err(_) => Some((Err(io::ErrorKind::TimedOut.into()), None)),
            }
        })
        .boxed()
    }

    /// What is left after this wait brought so many bytes.
    fn after(self, left: Duration, waited: Duration, bytes: usize) -> Duration {
        let earned = bytes as f64 / self.bytes_per_second as f64;
        let earned = Duration::try_from_secs_f64(earned).unwrap_or(self.patience);
        left.saturating_sub(waited).saturating_add(earned).min(self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: MinRate = MinRate { patience: Duration::from_secs(10), bytes_per_second: 100 };

    /// Sends pieces of these sizes, each after a pause; what of them came, and when the end.
    async fn send(pieces: Vec<(u64, usize)>) -> (usize, Option<io::ErrorKind>, u64) {
        let body = futures::stream::iter(pieces).then(async |(pause, size)| {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            Ok::<_, io::Error>(Bytes::from(vec![b'x'; size]))
        });
        let began = Instant::now();
        let mut stream = PACE.pieces(Body::from_stream(Box::pin(body)));
        let mut came = 0;
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(piece) => came += piece.len(),
                Err(error) => {
                    assert!(stream.next().await.is_none());
                    return (came, Some(error.kind()), began.elapsed().as_secs());
                }
            }
        }
        (came, None, began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_is_borne_and_who_drips_is_not() {
        let late = Some(io::ErrorKind::TimedOut);
        // Stands still.
        assert_eq!(send(vec![(60, 1)]).await, (0, late, 10));
        // Byte by byte: each second costs one and earns a hundredth.
        assert_eq!(send(vec![(1, 1); 3600]).await, (10, late, 10));
        // The same behind much that came at once.
        let mut pieces = vec![(0, 1 << 20)];
        pieces.extend(vec![(1, 1); 3600]);
        assert_eq!(send(pieces).await, ((1 << 20) + 10, late, 10));
        // Just fast enough, for an hour.
        assert_eq!(send(vec![(1, 100); 3600]).await, (360_000, None, 3600));
        // With long pauses, but enough in between.
        assert_eq!(send(vec![(9, 1000); 100]).await, (100_000, None, 900));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_done_in_between_costs_the_client_nothing() {
        let body =
            futures::stream::iter(0..5).map(|_| Ok::<_, io::Error>(Bytes::from_static(b"x")));
        let mut stream = PACE.pieces(Body::from_stream(body));
        for _ in 0..5 {
            assert!(stream.next().await.unwrap().is_ok());
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
        assert!(stream.next().await.is_none());
    }
}
