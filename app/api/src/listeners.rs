//! The sockets that the API listens on, and who gets a connection there.

use crate::{
    fairness::{Share, Shares},
    routes::lookup::Listener,
};
use famulus_core::runner::{Door, Origin};
use std::{io, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::mpsc,
};
use tokio_util::either::Either;

/// The sockets that the API listens on.
#[derive(Debug)]
pub struct Listeners {
    pub public: TcpListener,
    pub internal: TcpListener,
    /// For sandboxes that have addresses, where there are some.
    pub callback: Option<TcpListener>,
    /// For sandboxes that have a door of their own: each serves from when it comes until it is closed.
    pub doors: Option<mpsc::Receiver<Door>>,
}

/// Listeners that share their places.
pub(crate) enum ListenerGroup {
    Front(TcpListener, TcpListener),
    /// Everybody who comes here has an address of their own, which a proxy's clients have not.
    Callback(TcpListener, Arc<Shares>),
    /// The socket of a door, and the plugin whose it is.
    Door(UnixListener, Arc<str>, Arc<Shares>),
}

/// Somebody who has come.
pub(crate) struct Arrived {
    pub(crate) socket: Either<TcpStream, UnixStream>,
    pub(crate) from: Origin,
    pub(crate) listener: Listener,
}

impl ListenerGroup {
    /// Cancel safe.
    pub(crate) async fn accept(&self) -> io::Result<Arrived> {
        let (tcp, listener) = match self {
            Self::Front(public, internal) => tokio::select! {
                accepted = public.accept() => (accepted, Listener::Public),
                accepted = internal.accept() => (accepted, Listener::Internal),
            },
            Self::Callback(listener, _) => (listener.accept().await, Listener::Callback),
            Self::Door(door, plugin, _) => {
                let (socket, _nameless) = door.accept().await?;
                let from = Origin::Door(Arc::clone(plugin));
                let socket = Either::Right(socket);
                return Ok(Arrived { socket, from, listener: Listener::Callback });
            }
        };
        let (socket, peer) = tcp?;
        // Without it an answer waits for the acknowledgement of the one before.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a socket option was refused");
        }
        Ok(Arrived { socket: Either::Left(socket), from: peer.ip().into(), listener })
    }

    /// What a connection from there holds while it lasts.
    pub(crate) fn admit(&self, from: &Origin) -> Admission {
        match self {
            Self::Front(..) => Admission::Free,
            Self::Callback(_, shares) | Self::Door(_, _, shares) => {
                shares.take(from).map_or(Admission::Refused, Admission::Share)
            }
        }
    }
}

pub(crate) enum Admission {
    Free,
    Share(Share),
    Refused,
}
