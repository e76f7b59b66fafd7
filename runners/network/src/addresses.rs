//! What the network of every sandbox looks like from inside.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The name of the interface.
pub const INTERFACE: &str = "net0";

/// The sandbox's own address: of a range for such networks (RFC 7335), which no other network has.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);

/// The same for IPv6: a unique local address (RFC 4193).
pub const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfd66, 0x616d, 0x756c, 0, 0, 0, 0, 2);

/// The other end of the interface.
pub(crate) const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
pub(crate) const OTHER_V6: Ipv6Addr = Ipv6Addr::new(0xfd66, 0x616d, 0x756c, 0, 0, 0, 0, 1);

/// Under which the sandbox finds the resolvers of the machine, in their order.
pub(crate) const RESOLVERS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(192, 0, 0, 3), Ipv4Addr::new(192, 0, 0, 4), Ipv4Addr::new(192, 0, 0, 5)];

/// Bytes of the longest packet: the fewer there are, the less is done for each.
pub const MTU: u16 = 65_520;
