//! The sockets that the API listens on, and who gets a connection there.

use crate::{
    fairness::{Share, Shares},
    routes::lookup::Listener,
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::net::{TcpListener, TcpStream};

/// The sockets that the API listens on.
#[derive(Debug)]
pub struct Listeners {
    pub public: TcpListener,
    pub internal: TcpListener,
    /// For sandboxes, where there are some.
    pub callback: Option<TcpListener>,
}

/// Listeners that share their places.
pub(crate) enum ListenerGroup {
    Front(TcpListener, TcpListener),
    /// Everybody who comes here has an address of their own, which a proxy's clients have not.
    Callback(TcpListener, Arc<Shares>),
}

impl ListenerGroup {
    pub(crate) async fn accept(&self) -> (io::Result<(TcpStream, SocketAddr)>, Listener) {
        match self {
            Self::Front(public, internal) => tokio::select! {
                accepted = public.accept() => (accepted, Listener::Public),
                accepted = internal.accept() => (accepted, Listener::Internal),
            },
            Self::Callback(listener, _) => (listener.accept().await, Listener::Callback),
        }
    }

    /// What a connection from this address holds while it lasts.
    pub(crate) fn admit(&self, peer: IpAddr) -> Admission {
        match self {
            Self::Front(..) => Admission::Free,
            Self::Callback(_, shares) => {
                shares.take(peer).map_or(Admission::Refused, Admission::Share)
            }
        }
    }
}

pub(crate) enum Admission {
    Free,
    Share(Share),
    Refused,
}
