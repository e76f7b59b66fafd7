//! Which addresses may be gone to for somebody who is not trusted.
//!
//! An address that a stranger named may be one of the house, the cluster or the cloud in which the
//! program runs. Who goes there for him resolves the name itself, asks [`first_private`] about all that was
//! found, and connects to the address that was looked at and to no other: a name may have another
//! one the next moment.
//!
//! What is not public, and whose word that is:
//!
//! | range | what it is | source |
//! |---|---|---|
//! | 0.0.0.0/8, `::` | this host | RFC 1122, RFC 4291 |
//! | 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 | private | RFC 1918 |
//! | 100.64.0.0/10 | shared by a carrier's customers, and metadata of some clouds | RFC 6598 |
//! | 127.0.0.0/8, `::1` | loopback | RFC 1122, RFC 4291 |
//! | 169.254.0.0/16 | link-local, and metadata of most clouds | RFC 3927 |
//! | 192.0.0.0/24 | protocols, and metadata of some clouds | RFC 6890 |
//! | 198.18.0.0/15 | benchmarks | RFC 2544 |
//! | 224.0.0.0/4, 240.0.0.0/4 | multicast, reserved, broadcast | RFC 5771, RFC 1112 |
//! | `2001::/32` | Teredo, an address of the sender's own making | RFC 4380 |
//! | all of IPv6 but `2000::/3` | unique local (`fc00::/7`, metadata too), link-local (`fe80::/10`), site-local (`fec0::/10`), multicast (`ff00::/8`), discard (`100::/64`), never handed out | RFC 4193, 4291, 3879, 6666; IANA's registry of IPv6 unicast |
//!
//! An IPv4 address within an IPv6 one is judged as itself: mapped (`::ffff:0:0/96`) and compatible
//! (`::/96`, RFC 4291), NAT64 (`64:ff9b::/96`, RFC 6052), 6to4 (`2002::/16`, RFC 3056). A local NAT64
//! (`64:ff9b:1::/48`, RFC 8215) is outside of `2000::/3`.
//!
//! Ranges for documentation (RFC 5737, RFC 3849) pass: nobody has them, and tests play the internet
//! there. The policies of an installation deny them.
//!
//! The crate refuses to know who asks, how names are resolved, and which private hosts an owner
//! allows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// The first address that is not public. One private address among public ones is a trick and no
/// mistake: nothing of what was found is used then.
pub fn first_private(found: &[IpAddr]) -> Option<IpAddr> {
    found.iter().copied().find(|address| !is_public(*address))
}

/// Whether an address is one of the internet, and not of a house, a cluster or a cloud.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Whether what is sent there stays on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        // RFC 6761 keeps the name for this machine.
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let private = match a {
        0 | 10 | 127 | 224.. => true,
        100 => (64..128).contains(&b),
        169 => b == 254,
        172 => (16..32).contains(&b),
        192 => b == 168 || (b == 0 && c == 0),
        198 => b == 18 || b == 19,
        _ => false,
    };
    !private
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // Mapped, compatible and translated addresses are those within.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo hides an address of its own making.
        [0x2001, 0, ..] => false,
        // Only this block was ever handed out.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_public_is_known() {
        let check = |text: &str, public: bool| {
            assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
        };
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "198.51.100.7",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860::8888",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            check(text, true);
        }
        for text in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "2001:0:1::1",
            "100::1",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn loopback_is_told_from_the_network() {
        let check = |url: &str, expected: bool| {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        };
        check("http://127.0.0.1:3000", true);
        check("http://[::1]:3000", true);
        check("http://localhost:3000", true);
        check("http://localhost.example", false);
        check("http://192.168.1.4", false);
    }
}
