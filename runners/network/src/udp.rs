//! Datagrams between two addresses: a socket of this process for as long as they come.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::packet::datagram;
use crate::tun::Tun;

/// Unused for so long, a socket ends.
const IDLE: Duration = Duration::from_mins(1);

/// Datagrams of the sandbox that wait; what comes beyond is lost, as on any network.
pub(crate) const WAITING: usize = 32;

/// Bytes of the longest datagram.
const LONGEST: usize = 65_507;

/// Who speaks to whom, as the sandbox sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

/// Carries datagrams until none came for a while. `to` is whom they really go to.
pub(crate) async fn carry(
    tun: Rc<Tun>,
    ends: Ends,
    to: SocketAddr,
    mut sent: mpsc::Receiver<Vec<u8>>,
) {
    let Ok(socket) = socket(to).await else { return };
    let mut answer = vec![0; LONGEST];
    let mut next = async || {
        tokio::select! {
            sent = sent.recv() => {
                let Some(sent) = sent else { return false };
                // Nobody may be there: the network does not say what became of a datagram.
                let _lost = socket.send(&sent).await;
            }
            answered = socket.recv(&mut answer) => {
                // An error tells of what was sent before.
                let read = answered.ok().map(|length| &answer[..length]);
                if let Some(packet) = read.and_then(|bytes| datagram(ends.to, ends.from, bytes)) {
                    tun.send(&packet);
                }
            }
        }
        true
    };
    while timeout(IDLE, next()).await == Ok(true) {}
}

/// Only who was spoken to is heard.
async fn socket(to: SocketAddr) -> io::Result<UdpSocket> {
    let any =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(to).await?;
    Ok(socket)
}
