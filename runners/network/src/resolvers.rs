//! The resolvers of the machine, which a sandbox asks at addresses of its own.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::addresses::RESOLVERS;

const FILE: &str = "/etc/resolv.conf";
const PORT: u16 = 53;

/// In the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolvers(Vec<SocketAddr>);

impl Resolvers {
    /// Those that the machine's programs ask.
    ///
    /// # Errors
    /// The machine's list cannot be read.
    pub fn of_the_machine() -> io::Result<Self> {
        match fs::read_to_string(FILE) {
            Ok(text) => Ok(Self::of(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::of("")),
            Err(error) => Err(error),
        }
    }

    fn of(text: &str) -> Self {
        let named = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next()? == "nameserver").then(|| words.next()?.parse::<IpAddr>().ok())?
        });
        let mut found: Vec<SocketAddr> =
            named.take(RESOLVERS.len()).map(|ip| SocketAddr::new(ip, PORT)).collect();
        if found.is_empty() {
            // Where none is named, programs ask this one.
            found.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
        }
        Self(found)
    }

    /// The text by which programs in the sandbox find them.
    pub fn seen_inside(&self) -> String {
        let seen = RESOLVERS.iter().zip(&self.0);
        seen.fold(String::new(), |text, (address, _)| text + &format!("nameserver {address}\n"))
    }

    /// Who is asked at an address of the sandbox's.
    pub(crate) fn behind(&self, to: SocketAddr) -> Option<SocketAddr> {
        let place = RESOLVERS.iter().position(|address| to.ip() == IpAddr::V4(*address))?;
        (to.port() == PORT).then(|| self.0.get(place).copied())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_asks_whom_the_machine_asks() {
        let check = |text: &str, expected: &[&str]| {
            let found = Resolvers::of(text);
            let expected: Vec<SocketAddr> =
                expected.iter().map(|address| address.parse().unwrap()).collect();
            assert_eq!(found.0, expected, "{text:?}");
            for (place, resolver) in expected.iter().enumerate() {
                let inside = SocketAddr::new(RESOLVERS[place].into(), PORT);
                assert_eq!(found.behind(inside), Some(*resolver));
                let other = SocketAddr::new(RESOLVERS[place].into(), 80);
                assert_eq!(found.behind(other), None);
            }
            assert_eq!(found.seen_inside().lines().count(), expected.len());
        };
        check("", &["127.0.0.1:53"]);
        check("# a comment\nsearch example.com\n", &["127.0.0.1:53"]);
        check("nameserver 10.0.0.1 \n", &["10.0.0.1:53"]);
        check("nameserver  fd00::1\nnameserver 9.9.9.9", &["[fd00::1]:53", "9.9.9.9:53"]);
        // An address that is one on a single link alone is left to the machine.
        check("nameserver fe80::1%eth0\nnameserver 1.1.1.1", &["1.1.1.1:53"]);
        check(
            "nameserver 1.0.0.1\nnameserver 1.0.0.2\nnameserver 1.0.0.3\nnameserver 1.0.0.4",
            &["1.0.0.1:53", "1.0.0.2:53", "1.0.0.3:53"],
        );
        let one = Resolvers::of("nameserver 1.0.0.1");
        assert_eq!(one.behind(SocketAddr::new(RESOLVERS[1].into(), PORT)), None);
        assert_eq!(one.seen_inside(), "nameserver 192.0.0.3\n");
    }
}
