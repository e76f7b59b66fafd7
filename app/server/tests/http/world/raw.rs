//! A connection on which anything can be sent, and nothing need be read.

use super::soon;
use memchr::memmem;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::Instant,
};

pub(crate) struct Raw {
    socket: TcpStream,
    unread: Vec<u8>,
}

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { socket: TcpStream::connect(address).await.unwrap(), unread: Vec::new() }
    }

    /// With room for so much that is not read, and no more however much comes. Where the system grows
    /// that by itself, one who reads a little makes no room that the server hears of.
    pub(crate) async fn connect_small(address: SocketAddr, room: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(room).unwrap();
        Self { socket: socket.connect(address).await.unwrap(), unread: Vec::new() }
    }

    /// Sends; a server that has hung up is no error.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Everything that comes until the server hangs up.
    pub(crate) async fn rest(&mut self) -> String {
        let mut all = std::mem::take(&mut self.unread);
        let ended = async {
            // A reset ends it too; what came before it counts.
            let _reset = self.socket.read_to_end(&mut all).await;
        };
        soon("the server hangs up", ended).await;
        String::from_utf8_lossy(&all).into_owned()
    }

    /// What comes until this text has come, and with it.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        soon(&format!("{text:?} comes"), self.whenever(text)).await
    }

    /// The same, however long it takes.
    pub(crate) async fn whenever(&mut self, text: &str) -> String {
        let mut searched: usize = 0;
        let end = loop {
            let begin = searched.saturating_sub(text.len());
            if let Some(place) = memmem::find(&self.unread[begin..], text.as_bytes()) {
                break begin + place + text.len();
            }
            searched = self.unread.len();
            let read = self.socket.read_buf(&mut self.unread).await.unwrap();
            assert!(read > 0, "hung up after {:?}", String::from_utf8_lossy(&self.unread));
        };
        String::from_utf8(self.unread.drain(..end).collect()).unwrap()
    }

    /// Reads a little of what is there.
    pub(crate) async fn sip(&mut self, bytes: usize) {
        self.unread.reserve(bytes);
        self.socket.read_buf(&mut self.unread).await.unwrap();
    }

    /// Sends one byte at a time until the server hangs up; what it said, and how long it took.
    pub(crate) async fn drip(mut self, pause: Duration) -> (String, Duration) {
        let started = Instant::now();
        let over = async {
            loop {
                tokio::select! {
                    read = self.socket.read_buf(&mut self.unread) => {
                        if read.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    () = tokio::time::sleep(pause) => {
                        let _gone = self.socket.write_all(b"x").await;
                    }
                }
            }
        };
        soon("a slow client is cut off", over).await;
        (String::from_utf8_lossy(&self.unread).into_owned(), started.elapsed())
    }

    /// Goes away without a word: the server's next write meets a reset.
    pub(crate) fn abort(self) {
        self.socket.set_zero_linger().unwrap();
    }
}
