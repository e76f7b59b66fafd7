//! What a packet of the sandbox is.

use std::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpProtocol, IpRepr, IpVersion, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket, UdpRepr,
};

/// How far a packet may go, as programs of this system have it.
const HOPS: u8 = 64;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    Tcp {
        from: SocketAddr,
        to: SocketAddr,
        /// It asks for a connection.
        begins: bool,
    },
    Udp {
        from: SocketAddr,
        to: SocketAddr,
        payload: &'a [u8],
    },
    /// Nobody takes it: of another protocol, a piece of a packet, or none.
    Other,
}

impl<'a> Packet<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        if bytes.is_empty() {
            return Self::Other;
        }
        let read = match IpVersion::of_packet(bytes) {
            Ok(IpVersion::Ipv4) => Self::of_v4(bytes),
            Ok(IpVersion::Ipv6) => Self::of_v6(bytes),
            Err(_) => None,
        };
        read.unwrap_or(Self::Other)
    }

    fn of_v4(bytes: &'a [u8]) -> Option<Self> {
        let packet = Ipv4Packet::new_checked(bytes).ok()?;
        if packet.more_frags() || packet.frag_offset() != 0 {
            return None;
        }
        let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
        Self::within(packet.next_header(), from, to, packet.payload())
    }

    fn of_v6(bytes: &'a [u8]) -> Option<Self> {
        let packet = Ipv6Packet::new_checked(bytes).ok()?;
        let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
        Self::within(packet.next_header(), from, to, packet.payload())
    }

    fn within(protocol: IpProtocol, from: IpAddr, to: IpAddr, bytes: &'a [u8]) -> Option<Self> {
        let ends = |source, target| (SocketAddr::new(from, source), SocketAddr::new(to, target));
        if protocol == IpProtocol::Tcp {
            let packet = TcpPacket::new_checked(bytes).ok()?;
            let (from, to) = ends(packet.src_port(), packet.dst_port());
            let begins = packet.syn() && !packet.ack() && !packet.rst();
            Some(Self::Tcp { from, to, begins })
        } else if protocol == IpProtocol::Udp {
            let packet = UdpPacket::new_checked(bytes).ok()?;
            let (from, to) = ends(packet.src_port(), packet.dst_port());
            Some(Self::Udp { from, to, payload: packet.payload() })
        } else {
            None
        }
    }
}

/// The packet that brings a datagram to the sandbox; `None` if both are not of one kind.
pub(crate) fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    if from.is_ipv4() != to.is_ipv4() {
        return None;
    }
    let checksums = ChecksumCapabilities::default();
    let udp = UdpRepr { src_port: from.port(), dst_port: to.port() };
    let length = udp.header_len() + payload.len();
    let ip = IpRepr::new(from.ip().into(), to.ip().into(), IpProtocol::Udp, length, HOPS);
    let mut bytes = vec![0; ip.header_len() + length];
    ip.emit(&mut bytes, &checksums);
    udp.emit(
        &mut UdpPacket::new_unchecked(&mut bytes[ip.header_len()..]),
        &ip.src_addr(),
        &ip.dst_addr(),
        payload.len(),
        |place| place.copy_from_slice(payload),
        &checksums,
    );
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &str, to: &str) -> (SocketAddr, SocketAddr) {
        (from.parse().unwrap(), to.parse().unwrap())
    }

    #[test]
    fn what_is_written_is_read() {
        for (from, to) in [
            ends("203.0.113.7:53", "192.0.0.2:40000"),
            ends("[2001:db8::7]:53", "[fd66:616d:756c::2]:40000"),
        ] {
            let bytes = datagram(from, to, b"an answer").unwrap();
            assert_eq!(Packet::of(&bytes), Packet::Udp { from, to, payload: b"an answer" });
        }
        let (from, to) = ends("203.0.113.7:53", "[fd66:616d:756c::2]:40000");
        assert_eq!(datagram(from, to, b""), None);
    }

    #[test]
    fn what_is_no_whole_packet_is_nobodys() {
        let (from, to) = ends("203.0.113.7:53", "192.0.0.2:40000");
        let whole = datagram(from, to, b"payload").unwrap();
        for length in 0..whole.len() {
            assert_eq!(Packet::of(&whole[..length]), Packet::Other, "{length}");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            bytes
        };
        // More pieces follow; a later piece; another protocol; another version; a longer head.
        for (at, byte) in [(6, 0x20), (7, 1), (9, 1), (0, 0x55), (0, 0x4f)] {
            assert_eq!(Packet::of(&changed(at, byte)), Packet::Other, "{at}");
        }
    }
}
