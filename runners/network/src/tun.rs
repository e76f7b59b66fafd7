//! The interface of the sandbox, from outside.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use smoltcp::phy::{self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use std::rc::Rc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::addresses::MTU;

/// A packet goes in and out by one read and one write.
pub(crate) struct Tun(AsyncFd<OwnedFd>);

impl Tun {
    #[expect(
        unsafe_code,
        reason = "tokio has no safe way to wait for a descriptor of another kind"
    )]
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&descriptor, fcntl_getfl(&descriptor)? | OFlags::NONBLOCK)?;
        // SAFETY: what is owned is open, and is the same descriptor, until it is dropped.
        let waited_for = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        Ok(Self(waited_for?))
    }

    /// Waits for a packet. Cancel safe.
    pub(crate) async fn receive(&self, packet: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|tun| Ok(rustix::io::read(tun, &mut *packet)?)) {
                Ok(read) => return read,
                Err(_not_yet) => {}
            }
        }
    }

    /// What the sandbox does not take at once is lost, as on any network: who sent it sends it again.
    pub(crate) fn send(&self, packet: &[u8]) {
        while rustix::io::write(&self.0, packet) == Err(Errno::INTR) {}
    }
}

/// The same for the stack, which takes packets one by one.
pub(crate) struct Device {
    pub(crate) tun: Rc<Tun>,
    pub(crate) incoming: Option<Vec<u8>>,
}

pub(crate) struct Incoming(Vec<u8>);
pub(crate) struct Outgoing(Rc<Tun>);

impl phy::Device for Device {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing;

    fn receive(&mut self, _now: Instant) -> Option<(Incoming, Outgoing)> {
        let packet = self.incoming.take()?;
        Some((Incoming(packet), Outgoing(Rc::clone(&self.tun))))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Outgoing> {
        Some(Outgoing(Rc::clone(&self.tun)))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut can = DeviceCapabilities::default();
        can.medium = Medium::Ip;
        can.max_transmission_unit = MTU.into();
        // What comes from the kernel of the same machine was not damaged on its way.
        let mut checksums = ChecksumCapabilities::default();
        (checksums.ipv4, checksums.tcp, checksums.udp) = (Checksum::Tx, Checksum::Tx, Checksum::Tx);
        can.checksum = checksums;
        can
    }
}

impl phy::RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl phy::TxToken for Outgoing {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let written = write(&mut packet);
        self.0.send(&packet);
        written
    }
}
