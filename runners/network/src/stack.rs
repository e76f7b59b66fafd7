//! TCP as the sandbox sees it.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant as Moment;
use smoltcp::wire::{HardwareAddress, IpCidr};
use tokio::sync::Notify;

use crate::addresses::{OTHER, OTHER_V6};
use crate::tun::{Device, Tun};

/// Bytes that wait in a connection, each way.
const BUFFER: usize = 128 * 1024;

/// A program of this machine that does not answer for so long is gone.
const SILENT: Duration = Duration::from_mins(1);

/// The stack of one sandbox, as those who use it share it.
pub(crate) struct Stack {
    state: RefCell<Inner>,
    /// There is something to be sent.
    pub(crate) changed: Notify,
}

struct Inner {
    interface: Interface,
    sockets: SocketSet<'static>,
    device: Device,
    begun: Instant,
}

impl Stack {
    pub(crate) fn new(tun: Rc<Tun>) -> Self {
        let (begun, mut device) = (Instant::now(), Device { tun, incoming: None });
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = RandomState::new().hash_one(begun);
        let mut interface = Interface::new(config, &mut device, Moment::ZERO);
        interface.update_ip_addrs(|all| {
            let own = [IpCidr::new(OTHER.into(), 32), IpCidr::new(OTHER_V6.into(), 128)];
            // There is room for two, and for two routes.
            let _full = own.into_iter().try_for_each(|one| all.push(one));
        });
        let routes = interface.routes_mut();
        let _full = routes.add_default_ipv4_route(OTHER);
        let _full = routes.add_default_ipv6_route(OTHER_V6);
        // Whoever the sandbox speaks to, it is this stack that answers.
        interface.set_any_ip(true);
        let sockets = SocketSet::new(Vec::new());
        let state = RefCell::new(Inner { interface, sockets, device, begun });
        Self { state, changed: Notify::new() }
    }

    /// Takes a packet. What belongs to no connection is refused.
    pub(crate) fn take(&self, packet: &[u8]) {
        let Inner { interface, sockets, device, begun } = &mut *self.state.borrow_mut();
        device.incoming = Some(packet.to_vec());
        interface.poll_ingress_single(since(*begun), device, sockets);
        device.incoming = None;
    }

    /// Takes a packet that asks for a connection, which waits for its answer.
    pub(crate) fn begin(&self, packet: &[u8], to: SocketAddr) -> Option<SocketHandle> {
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.listen(to).ok()?;
        socket.pause_synack(true);
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        let handle = self.state.borrow_mut().sockets.add(socket);
        self.take(packet);
        if self.with(handle, |socket| socket.state()) == State::SynReceived {
            return Some(handle);
        }
        self.remove(handle);
        None
    }

    /// Answers that the other side took the connection.
    pub(crate) fn admit(&self, handle: SocketHandle) {
        self.with(handle, |socket| {
            socket.pause_synack(false);
            socket.set_keep_alive(Some((SILENT / 2).into()));
            socket.set_timeout(Some(SILENT.into()));
        });
        self.changed.notify_one();
    }

    pub(crate) fn with<T>(
        &self,
        handle: SocketHandle,
        work: impl FnOnce(&mut Socket<'static>) -> T,
    ) -> T {
        work(self.state.borrow_mut().sockets.get_mut(handle))
    }

    /// Ends a connection; one that is not at its end is reset.
    pub(crate) fn remove(&self, handle: SocketHandle) {
        let is_over = |state| matches!(state, State::Closed | State::TimeWait | State::Listen);
        if !self.with(handle, |socket| is_over(socket.state())) {
            self.with(handle, Socket::abort);
            self.send();
        }
        self.state.borrow_mut().sockets.remove(handle);
    }

    /// Sends what is to be sent.
    pub(crate) fn send(&self) {
        let Inner { interface, sockets, device, begun } = &mut *self.state.borrow_mut();
        interface.poll(since(*begun), device, sockets);
    }

    /// How long nothing is to be sent, if nobody comes.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let Inner { interface, sockets, begun, .. } = &mut *self.state.borrow_mut();
        interface.poll_delay(since(*begun), sockets).map(Duration::from)
    }
}

fn since(begun: Instant) -> Moment {
    Moment::from_micros(i64::try_from(begun.elapsed().as_micros()).unwrap_or(i64::MAX))
}
