//! Where the runner listens: over IPv6 and IPv4 alike, as Pods of one cluster may have either.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use tokio::net::TcpListener;

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

fn has_no_ipv6(error: &io::Error) -> bool {
    let kinds = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| kinds.contains(&errno))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

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
