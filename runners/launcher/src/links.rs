//! The interfaces of a sandbox's own network: the one by which programs speak to themselves, and where it
//! has one, that to the internet.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use famulus_network::{ADDRESS, ADDRESS_V6, INTERFACE, MTU};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

/// The index of the first interface of every network.
const LOOPBACK: u32 = 1;

/// Messages of the kernel's protocol `rtnetlink`, and their flags.
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;
const REQUEST_ACK: u16 = 1 | 4;
const CREATE: u16 = 0x400;

/// What they say of a link, an address and a route.
const IFF_UP: u32 = 1;
const IFLA_MTU: u16 = 4;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 2;
const RTA_OIF: u16 = 4;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;

/// The head of a message: its length, type, flags, sequence and sender.
const HEAD: usize = 16;

/// Starts the loopback.
pub(crate) fn loopback() -> io::Result<()> {
    ask(&socket_of_routes()?, RTM_NEWLINK, 0, &link(LOOPBACK))
}

/// Starts the interface to the internet: it has the sandbox's addresses, and all that is not the sandbox goes
/// there.
pub(crate) fn internet() -> io::Result<()> {
    let route = socket_of_routes()?;
    let by = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let index = name_to_index(by, INTERFACE)?;
    let up = [link(index), attribute(IFLA_MTU, &u32::from(MTU).to_ne_bytes())].concat();
    ask(&route, RTM_NEWLINK, 0, &up)?;
    for own in [IpAddr::from(ADDRESS), IpAddr::from(ADDRESS_V6)] {
        if own.is_ipv6() && !Path::new("/proc/net/if_inet6").exists() {
            // A kernel without IPv6 has an internet without it.
            continue;
        }
        ask(&route, RTM_NEWADDR, CREATE, &address(index, own))?;
        ask(&route, RTM_NEWROUTE, CREATE, &default_route(index, own))?;
    }
    Ok(())
}

fn socket_of_routes() -> io::Result<OwnedFd> {
    // The first protocol of netlink is that of interfaces and routes.
    Ok(socket(AddressFamily::NETLINK, SocketType::RAW, None)?)
}

/// Has the kernel do something, and waits until it did.
fn ask(route: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(HEAD + body.len());
    message.extend(((HEAD + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((REQUEST_ACK | flags).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    send(route, &message, SendFlags::empty())?;
    let mut answer = [0; 512];
    let (_, length) = recv(route, &mut answer, RecvFlags::empty())?;
    acknowledged(answer.get(..length).unwrap_or_default())
}

/// The interface is to be up.
fn link(index: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    for field in [index, IFF_UP, IFF_UP] {
        body.extend(field.to_ne_bytes());
    }
    body
}

/// It has an address, which is alone in its network.
fn address(index: u32, own: IpAddr) -> Vec<u8> {
    let bits = if own.is_ipv4() { 32 } else { 128 };
    let mut body = vec![family(own), bits, IFA_F_NODAD, 0];
    body.extend(index.to_ne_bytes());
    body.extend(match own {
        IpAddr::V4(own) => attribute(IFA_LOCAL, &own.octets()),
        IpAddr::V6(own) => attribute(IFA_LOCAL, &own.octets()),
    });
    body
}

/// All other addresses of its kind are behind it.
fn default_route(index: u32, own: IpAddr) -> Vec<u8> {
    let mut body =
        vec![family(own), 0, 0, 0, RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_LINK, RTN_UNICAST];
    body.extend([0; 4]);
    body.extend(attribute(RTA_OIF, &index.to_ne_bytes()));
    body
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    family.as_raw() as u8
}

/// Its length, its kind, and its value, which is a multiple of four bytes here.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len() as u16;
    [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
}

fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
    let code = answer.get(HEAD..HEAD + 4);
    let code = code.and_then(|bytes| Some(i32::from_ne_bytes(bytes.try_into().ok()?)));
    match (kind, code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(Errno::from_raw_os_error(-code).into()),
        _ => Err(io::Error::other("the kernel answered with what is no acknowledgement")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_acknowledgement_is_one() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = vec![36, 0, 0, 0];
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        acknowledged(&answer(NLMSG_ERROR, 0)).unwrap();
        let refused = acknowledged(&answer(NLMSG_ERROR, -1)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(acknowledged(&answer(RTM_NEWLINK, 0)).is_err());
        assert!(acknowledged(&[]).is_err());
    }
}
