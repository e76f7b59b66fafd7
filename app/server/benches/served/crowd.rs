//! Viewers in numbers: a socket each, and no more than is needed to know what has come when.

use crate::{
    caller::Caller,
    pulse::{DIGITS, SIGN},
};
use anyhow::{Context, Result, anyhow, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::{
    net::{Ipv4Addr, SocketAddr},
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::timeout,
};
use uuid::Uuid;

/// Viewers that connect at the same time.
const AT_ONCE: usize = 64;
/// Viewers of one loopback address, well below its ports.
const OF_ADDRESS: usize = 4_000;
/// A stream that begins later does not begin.
const PATIENCE: Duration = Duration::from_mins(1);

/// How much a viewer's side of its socket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    Usual,
    /// As little as the system allows.
    Least,
}

/// Opens the event streams of these conversations, in order, each behind its head.
pub(crate) async fn open(
    caller: &Caller,
    conversations: &[Uuid],
    buffer: Buffer,
) -> Result<Vec<TcpStream>> {
    let connect = |(number, conversation): (usize, &Uuid)| {
        let (caller, conversation) = (caller.clone(), *conversation);
        async move {
            let opened = timeout(PATIENCE, open_one(&caller, number, conversation, buffer)).await;
            opened.context("a stream did not begin")?
        }
    };
    stream::iter(conversations.iter().enumerate())
        .map(connect)
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

async fn open_one(
    caller: &Caller,
    number: usize,
    conversation: Uuid,
    buffer: Buffer,
) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if buffer == Buffer::Least {
        socket.set_recv_buffer_size(1)?;
    }
    // Each address has ports of its own.
    let address = Ipv4Addr::new(127, 0, 1, 1 + (number / OF_ADDRESS) as u8);
    socket.bind(SocketAddr::from((address, 0)))?;
    let mut socket = socket.connect(caller.address).await?;
    let request = format!(
        "GET /v1/conversations/{conversation}/events HTTP/1.1\r\nhost: {}\r\n\
         authorization: Bearer {}\r\n\r\n",
        caller.address, caller.token
    );
    socket.write_all(request.as_bytes()).await?;
    let mut head = Vec::with_capacity(512);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        anyhow::ensure!(socket.read_buf(&mut head).await? > 0, "the server hung up");
    }
    if !head.starts_with(b"HTTP/1.1 200") {
        bail!("a stream was refused: {}", String::from_utf8_lossy(&head));
    }
    Ok(socket)
}

/// When each viewer had each word.
pub(crate) type Seen = Vec<Vec<Option<Instant>>>;

/// A crowd that reads, on a thread of its own so that nothing else of this process delays it.
pub(crate) struct Watching {
    thread: JoinHandle<Result<Seen>>,
}

impl Watching {
    /// Reads until every viewer has seen as many words; none may take longer than `patience`.
    pub(crate) fn begin(viewers: Vec<TcpStream>, words: usize, patience: Duration) -> Result<Self> {
        let viewers: Vec<std::net::TcpStream> =
            viewers.into_iter().map(TcpStream::into_std).collect::<Result<_, _>>()?;
        let read = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut reading = JoinSet::new();
                for viewer in viewers {
                    let viewer = TcpStream::from_std(viewer)?;
                    reading.spawn(timeout(patience, watch(viewer, words)));
                }
                let mut seen = Seen::new();
                while let Some(ended) = reading.join_next().await {
                    seen.push(ended?.context("a viewer did not see everything in time")??);
                }
                Ok(seen)
            })
        };
        Ok(Self { thread: std::thread::Builder::new().name("crowd".to_owned()).spawn(read)? })
    }

    pub(crate) async fn end(self) -> Result<Seen> {
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await?;
        joined.map_err(|_panic| anyhow!("the crowd panicked"))?
    }
}

async fn watch(mut viewer: TcpStream, words: usize) -> Result<Vec<Option<Instant>>> {
    let mut seen = vec![None; words];
    let mut left = words;
    let mut unread = Vec::with_capacity(4096);
    while left > 0 {
        anyhow::ensure!(viewer.read_buf(&mut unread).await? > 0, "a viewer's stream ended");
        let now = Instant::now();
        let mut from = 0;
        while let Some(place) = unread[from..].iter().position(|byte| *byte == SIGN) {
            let begin = from + place + 1;
            let Some(digits) = unread.get(begin..begin + DIGITS) else {
                from += place;
                break;
            };
            let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
            if let Some(slot) = number.and_then(|number: usize| seen.get_mut(number))
                && slot.is_none()
            {
                *slot = Some(now);
                left -= 1;
            }
            from = begin;
        }
        let rest = unread[from..].iter().position(|byte| *byte == SIGN);
        let kept = rest.map_or(unread.len(), |rest| from + rest);
        unread.drain(..kept);
    }
    Ok(seen)
}
