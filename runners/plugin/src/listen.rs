//! Where the runner listens: over IPv6 and IPv4 alike, as Pods of one cluster may have either, or at a socket.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use famulus_runner_harness::{Endpoint, Listener};
use rustix::io::Errno;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::sleep;

/// All addresses of a Pod, whichever kind they are.
pub(crate) const EVERYWHERE: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Listens at an endpoint. On a node without IPv6, all addresses are those of IPv4; a socket that a runner
/// left is replaced.
pub async fn listen(at: &Endpoint) -> io::Result<Listener> {
    match at {
        Endpoint::Address(address) => listen_on(*address).await.map(Listener::Tcp),
        Endpoint::Socket(path) => {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            UnixListener::bind(path).map(Listener::Unix)
        }
    }
}

async fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == EVERYWHERE && has_no_ipv6(&error) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

/// Waits until somebody listens at an endpoint of this Pod.
pub async fn is_listened_to(at: &Endpoint) {
    const AGAIN: Duration = Duration::from_millis(20);
    while connects(at).await.is_err() {
        sleep(AGAIN).await;
    }
}

async fn connects(at: &Endpoint) -> io::Result<()> {
    match at {
        Endpoint::Address(all) if all.ip().is_unspecified() => {
            let own = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), all.port());
            Endpoint::Address(own).try_connect().await
        }
        Endpoint::Address(_) | Endpoint::Socket(_) => at.try_connect().await,
    }
}

fn has_no_ipv6(error: &io::Error) -> bool {
    let kinds = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| kinds.contains(&errno))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn whoever_waits_for_a_listener_goes_on_when_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let first = listen_on(SocketAddr::new(EVERYWHERE, 0)).await.unwrap();
        let address = Endpoint::Address(first.local_addr().unwrap());
        let socket = Endpoint::Socket(folder.path().join("socket"));
        for (first, at) in
            [(Listener::Tcp(first), address), (listen(&socket).await.unwrap(), socket)]
        {
            is_listened_to(&at).await;
            drop(first);
            let waits = is_listened_to(&at);
            tokio::pin!(waits);
            assert!(timeout(Duration::from_millis(200), &mut waits).await.is_err());
            // What the first one left of a socket is in nobody's way.
            let _second = listen(&at).await.unwrap();
            timeout(Duration::from_secs(10), waits).await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_comes_over_either_kind_of_address_is_heard() {
        let listener = listen_on(SocketAddr::new(EVERYWHERE, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let there = TcpStream::connect((host, port)).await;
            assert!(there.is_ok(), "{host}: {there:?}");
        }
    }

    #[test]
    fn a_node_without_ipv6_is_told_from_a_port_that_is_taken() {
        let check = |errno: Errno, expected| assert_eq!(has_no_ipv6(&errno.into()), expected);
        check(Errno::AFNOSUPPORT, true);
        check(Errno::ADDRNOTAVAIL, true);
        check(Errno::ADDRINUSE, false);
        check(Errno::ACCESS, false);
    }
}
