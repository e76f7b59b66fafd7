//! One connection: of the sandbox with this process, and of this process with the other side.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, State};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::stack::Stack;

/// How long the other side has to take it.
const TAKEN: Duration = Duration::from_secs(30);

/// How long its last bytes are waited for.
const LAST: Duration = Duration::from_secs(30);

/// Bytes that are carried at once.
const PIECE: usize = 32 * 1024;

/// Carries a connection until both sides have ended it.
pub(crate) async fn carry(stack: Rc<Stack>, handle: SocketHandle, to: SocketAddr) {
    let mut inside = Inside { stack, handle };
    if let Ok(Ok(mut outside)) = timeout(TAKEN, TcpStream::connect(to)).await {
        // It costs time and nothing else where it is refused.
        let _slower = outside.set_nodelay(true);
        inside.stack.admit(handle);
        let carried = async {
            inside.begun().await?;
            copy_bidirectional_with_sizes(&mut inside, &mut outside, PIECE, PIECE).await
        };
        if carried.await.is_ok() {
            // What is not over by then is reset.
            let _late = timeout(LAST, inside.over()).await;
        }
    }
    inside.stack.remove(handle);
}

/// The sandbox's side.
struct Inside {
    stack: Rc<Stack>,
    handle: SocketHandle,
}

impl Inside {
    /// Waits until the sandbox knows that it was taken.
    async fn begun(&self) -> io::Result<()> {
        let state = self.until(|state| (state != State::SynReceived).then_some(state)).await;
        if state == State::Closed { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    /// Waits until the sandbox has all, and ended it.
    async fn over(&self) {
        self.until(|state| matches!(state, State::Closed | State::TimeWait).then_some(())).await;
    }

    async fn until<T>(&self, mut is_so: impl FnMut(State) -> Option<T>) -> T {
        poll_fn(|context| {
            self.stack.with(self.handle, |socket| {
                if let Some(so) = is_so(socket.state()) {
                    return Poll::Ready(so);
                }
                socket.register_recv_waker(context.waker());
                socket.register_send_waker(context.waker());
                Poll::Pending
            })
        })
        .await
    }
}

impl AsyncRead for Inside {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.stack.with(self.handle, |socket| {
            if socket.can_recv() {
                let read = socket.recv_slice(into.initialize_unfilled());
                return Poll::Ready(read.map_err(io::Error::other));
            }
            if socket.may_recv() {
                socket.register_recv_waker(context.waker());
                return Poll::Pending;
            }
            if socket.state() == State::Closed {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            Poll::Ready(Ok(0))
        });
        read.map_ok(|bytes| {
            into.advance(bytes);
            // There is room again.
            self.stack.changed.notify_one();
        })
    }
}

impl AsyncWrite for Inside {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stack.with(self.handle, |socket| {
            if socket.can_send() {
                return Poll::Ready(socket.send_slice(bytes).map_err(io::Error::other));
            }
            if socket.may_send() {
                socket.register_send_waker(context.waker());
                return Poll::Pending;
            }
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        });
        written.map_ok(|bytes| {
            self.stack.changed.notify_one();
            bytes
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stack.with(self.handle, Socket::close);
        self.stack.changed.notify_one();
        Poll::Ready(Ok(()))
    }
}
