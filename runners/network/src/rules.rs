//! Who is reached.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use famulus_netguard::is_public;

/// Public addresses that are none of this machine's, and what the owner named.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    also: Vec<SocketAddr>,
}

impl Rules {
    /// `also`: private addresses that the owner lets this sandbox reach.
    pub fn new(also: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self { also: also.into_iter().map(plain).collect() }
    }

    pub(crate) fn lets(&self, to: SocketAddr) -> bool {
        let to = plain(to);
        self.also.contains(&to) || (is_public(to.ip()) && !is_own(to.ip()))
    }
}

/// An IPv4 address within an IPv6 one is itself.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether it is an address of this machine: whoever listens there may trust who comes from it. No other
/// address can be taken for a socket.
fn is_own(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_taken) => true,
        // Whatever else is wrong does not show that it is another machine's.
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_private_is_reached_unless_the_owner_named_him() {
        let also = ["10.1.2.3:443", "[::ffff:10.1.2.4]:443"];
        let rules = Rules::new(also.map(|address| address.parse().unwrap()));
        let check = |address: &str, lets: bool| {
            let to = SocketAddr::new(address.parse().unwrap(), 443);
            assert_eq!(rules.lets(to), lets, "{address}");
        };
        assert!(!rules.lets("10.1.2.3:80".parse().unwrap()), "another port");
        check("203.0.113.7", true);
        check("::ffff:203.0.113.7", true);
        check("10.1.2.3", true);
        check("::ffff:10.1.2.3", true);
        check("10.1.2.4", true);
        for private in [
            "10.1.2.5",
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "169.254.169.254",
            "192.168.0.1",
            "192.0.0.1",
            "fd66:616d:756c::1",
            "fe80::1",
            "224.0.0.1",
            "255.255.255.255",
            "0.0.0.0",
        ] {
            check(private, false);
        }
        // This machine has it, whatever range it is of.
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("203.0.113.7".parse().unwrap()));
    }
}
