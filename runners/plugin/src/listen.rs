//! Where the runner listens: over IPv6 and IPv4 alike, as Pods of one cluster may have either.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// All addresses of a Pod, whichever kind they are.
pub(crate) const EVERYWHERE: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Listens on an address. On a node without IPv6, all addresses are those of IPv4.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == EVERYWHERE && has_no_ipv6(&error) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

/// Waits until somebody listens on an address of this Pod.
pub async fn is_listened_to(address: SocketAddr) {
    const AGAIN: Duration = Duration::from_millis(20);
    let ip = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
    while TcpStream::connect((ip, address.port())).await.is_err() {
        sleep(AGAIN).await;
    }
}

fn has_no_ipv6(error: &io::Error) -> bool {
    let kinds = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| kinds.contains(&errno))
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn whoever_waits_for_a_listener_goes_on_when_there_is_one() {
        let first = listen(SocketAddr::new(EVERYWHERE, 0)).await.unwrap();
        let address = first.local_addr().unwrap();
        is_listened_to(address).await;
        drop(first);
        let waits = is_listened_to(address);
        tokio::pin!(waits);
        assert!(timeout(Duration::from_millis(200), &mut waits).await.is_err());
        let _second = listen(address).await.unwrap();
        timeout(Duration::from_secs(10), waits).await.unwrap();
    }

    #[tokio::test]
    async fn who_comes_over_either_kind_of_address_is_heard() {
        let listener = listen(SocketAddr::new(EVERYWHERE, 0)).await.unwrap();
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
