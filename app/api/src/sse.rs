//! An event stream on a socket of its own.
//!
//! Once a request turned out to be a stream, HTTP's machinery with its buffers is dropped and the
//! socket is written to directly: an idle viewer costs its task, its place and its socket. A viewer
//! that does not read is cut off when the system's buffer stays full; it holds frames that others
//! hold too, and comes back with `Last-Event-ID`.

use crate::guard::HEADERS;
use bytes::Bytes;
use famulus_errors::chain;
use famulus_viewers::{PersonViewer, Viewer};
use rustix::net::sockopt;
use std::{fmt::Write as _, io, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// A comment is sent this often, so that proxies and half-open connections are found out.
const PING: Duration = Duration::from_secs(15);
/// A viewer that takes nothing for longer is gone. However slowly it takes something, it stays.
const WRITE: Duration = Duration::from_mins(1);
/// A viewer that says nothing of what it was sent for longer has gone without a word. It is much
/// longer than [`WRITE`], because to the system one that takes too little at once takes nothing: it
/// lets it have more when there is room for a whole packet, and sends what it had no room for anew
/// after ever longer waits.
const SILENCE: Duration = Duration::from_mins(3);
/// Bytes of a stream that the system keeps for a viewer, before it doubles them.
const SEND_BUFFER: usize = 16 * 1024;
/// Events are joined into writes of about this size.
const JOINED: usize = 16 * 1024;

/// Where the events come from.
pub(crate) enum Source {
    Conversation { viewer: Box<Viewer>, reset: bool },
    Person(Box<PersonViewer>),
}

/// Writes events until the viewer goes, cannot be written to, or the process ends.
pub(crate) async fn run(mut socket: TcpStream, mut source: Source, shutdown: CancellationToken) {
    tune(&socket);
    if write(&mut socket, head(&source).as_bytes()).await.is_err() {
        return;
    }
    let mut ping_at = Instant::now() + PING;
    let mut ignored = [0; 64];
    loop {
        let bytes = tokio::select! {
            biased;
            () = shutdown.cancelled() => {
                let _gone = write(&mut socket, b": the server is ending\nretry: 1000\n\n").await;
                return;
            }
            read = socket.read(&mut ignored) => match read {
                // Nothing is expected of a viewer but its going away.
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            },
            events = source.next() => match events {
                Some(events) => events,
                None => return,
            },
            () = tokio::time::sleep_until(ping_at) => Bytes::from_static(b": ping\n\n"),
        };
        if write(&mut socket, &bytes).await.is_err() {
            return;
        }
        ping_at = Instant::now() + PING;
    }
}

impl Source {
    /// The next events as they are written; `None` when the viewer had better come again.
    async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Conversation { viewer, .. } => match viewer.next().await {
                Ok(frames) => Some(join(frames.iter().map(|frame| frame.bytes()))),
                Err(error) => {
                    tracing::warn!(
                        error = chain(&error),
                        "a viewer's events could not be read; it comes again"
                    );
                    None
                }
            },
            Self::Person(viewer) => Some(join(viewer.next().await.iter())),
        }
    }
}

/// One piece is passed on as it is; several become one write.
fn join<'a>(mut pieces: impl Iterator<Item = &'a Bytes>) -> Bytes {
    let Some(first) = pieces.next() else { return Bytes::new() };
    let Some(second) = pieces.next() else { return first.clone() };
    let mut joined = Vec::with_capacity(JOINED);
    for piece in [first, second].into_iter().chain(pieces) {
        joined.extend_from_slice(piece);
    }
    Bytes::from(joined)
}

/// The answer's head. The stream ends with the connection, so that nothing needs to be framed.
fn head(source: &Source) -> String {
    let mut head = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
         x-accel-buffering: no\r\n",
    );
    for (name, value) in HEADERS {
        // Writing to a String cannot fail.
        let _infallible = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\nretry: 1000\n\n");
    if matches!(source, Source::Conversation { reset: true, .. }) {
        head.push_str("event: reset\ndata: {}\n\n");
    }
    head
}

async fn write(socket: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match tokio::time::timeout(WRITE, socket.write(bytes)).await {
            Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(Ok(written)) => bytes = &bytes[written..],
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
    Ok(())
}

/// Keeps the system's share of a viewer small, and finds out when the other side is gone. A system
/// that refuses one of these serves viewers all the same.
fn tune(socket: &TcpStream) {
    let user_timeout = u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX);
    let results = [
        sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER),
        sockopt::set_socket_keepalive(socket, true),
        sockopt::set_tcp_keepidle(socket, Duration::from_secs(30)),
        sockopt::set_tcp_keepintvl(socket, Duration::from_secs(10)),
        sockopt::set_tcp_keepcnt(socket, 3),
        sockopt::set_tcp_user_timeout(socket, user_timeout),
        sockopt::set_tcp_nodelay(socket, true),
    ];
    for error in results.into_iter().filter_map(Result::err) {
        tracing::debug!(%error, "a socket option of an event stream was refused");
    }
}
