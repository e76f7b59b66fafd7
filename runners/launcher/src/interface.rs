//! The interface to the internet: made inside, served by a process outside.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use famulus_network::INTERFACE;
use rustix::io::read;
use rustix::ioctl::{Setter, ioctl};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::error::LaunchError;
use crate::links;

const FILE: &str = "/dev/net/tun";

/// Gives an open `/dev/net/tun` an interface.
const TUNSETIFF: rustix::ioctl::Opcode = 0x4004_54ca;

/// Packets of IP, with nothing before them.
const IFF_TUN: u16 = 0x0001;
const IFF_NO_PI: u16 = 0x1000;

/// What the kernel takes: a name of 16 bytes, the flags, and room for what others need.
const NAME: usize = 16;
const REQUEST: usize = 40;

/// What the process outside says when it serves; everything else is why it does not.
const SERVES: &[u8] = b"serves";

/// Bytes of what it says.
const SAID: usize = 512;

/// To be opened while the machine's files are there.
pub(crate) fn open() -> Result<File, LaunchError> {
    let file = OpenOptions::new().read(true).write(true).open(FILE);
    file.map_err(LaunchError::Interface)
}

/// Makes the interface in this process's network, and hands it to the process behind the socket, which serves
/// it when this returns.
pub(crate) fn join(file: File, socket: impl AsFd) -> Result<(), LaunchError> {
    make(&file).map_err(LaunchError::Interface)?;
    links::internet().map_err(LaunchError::Network)?;
    let said = hand_over(&file, &socket).map_err(LaunchError::Network)?;
    if said == SERVES {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    let said = if said.is_empty() { "who serves it ended".into() } else { said };
    Err(LaunchError::NetworkEnded(said.into_owned()))
}

#[expect(unsafe_code, reason = "no safe wrapper gives a file of the kernel's an interface")]
fn make(file: &File) -> io::Result<()> {
    let mut request = [0_u8; REQUEST];
    request[..INTERFACE.len()].copy_from_slice(INTERFACE.as_bytes());
    request[NAME..NAME + 2].copy_from_slice(&(IFF_TUN | IFF_NO_PI).to_ne_bytes());
    // SAFETY: the kernel reads a `struct ifreq` of 40 bytes for this code, and the array is one.
    Ok(unsafe { ioctl(file, Setter::<TUNSETIFF, [u8; REQUEST]>::new(request)) }?)
}

fn hand_over(file: &File, socket: &impl AsFd) -> io::Result<Vec<u8>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    along.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[io::IoSlice::new(&[0])], &mut along, SendFlags::NOSIGNAL)?;
    let mut said = vec![0; SAID];
    let length = read(socket, &mut said)?;
    said.truncate(length);
    Ok(said)
}

/// Takes the interface that the process behind the socket made. `None`: it ended before, and says why itself.
pub(crate) fn take(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [io::IoSliceMut::new(&mut byte)];
    if recvmsg(socket, &mut into, &mut along, RecvFlags::CMSG_CLOEXEC)?.bytes == 0 {
        return Ok(None);
    }
    let taken = along.drain().find_map(|message| {
        if let RecvAncillaryMessage::ScmRights(mut files) = message { files.next() } else { None }
    });
    let none = || io::Error::other("the process inside handed over no interface");
    taken.map(Some).ok_or_else(none)
}

/// Tells that process how it stands.
pub(crate) fn tell(socket: impl AsFd, stands: Result<(), &LaunchError>) -> io::Result<()> {
    let said = stands.err().map(ToString::to_string);
    let said = said.as_ref().map_or(SERVES, |said| said.as_bytes());
    rustix::io::write(socket, &said[..said.len().min(SAID)])?;
    Ok(())
}
