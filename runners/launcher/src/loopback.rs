//! The one interface of an empty network: programs speak to themselves over it.

use std::io;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

/// It is the first one of every network.
const INDEX: i32 = 1;

const RTM_NEWLINK: u16 = 16;
const NLMSG_ERROR: u16 = 2;
const REQUEST_ACK: u16 = 1 | 4;
const UP: u32 = 1;

/// The head of a message: its length, type, flags, sequence and sender.
const HEAD: usize = 16;

/// Starts it.
pub(crate) fn start() -> io::Result<()> {
    // The first protocol of netlink is that of interfaces and routes.
    let route = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&route, &request(), SendFlags::empty())?;
    let mut answer = [0; 256];
    let (_, length) = recv(&route, &mut answer, RecvFlags::empty())?;
    acknowledged(answer.get(..length).unwrap_or_default())
}

/// The interface is to be up.
fn request() -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(INDEX.to_ne_bytes());
    body.extend(UP.to_ne_bytes());
    body.extend(UP.to_ne_bytes());
    let mut message = Vec::with_capacity(HEAD + body.len());
    message.extend(((HEAD + body.len()) as u32).to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_ACK.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
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
