//! All that a sandbox sends, and who takes it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;

use futures::StreamExt;
use futures::future::{Either, FutureExt, LocalBoxFuture};
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::addresses::MTU;
use crate::packet::Packet;
use crate::resolvers::Resolvers;
use crate::rules::Rules;
use crate::stack::Stack;
use crate::tun::Tun;
use crate::udp::{Ends, WAITING};
use crate::{tcp, udp};

/// Connections, and pairs of addresses with datagrams, beside each other. Whoever wants more waits.
const MOST: usize = 256;

/// What is carried has ended: between whom, and of which kind.
type Ended = Either<Ends, Ends>;

/// Serves the interface of a sandbox until `ended`.
///
/// # Errors
/// The interface cannot be read.
pub async fn serve(
    interface: OwnedFd,
    rules: &Rules,
    resolvers: &Resolvers,
    ended: impl Future<Output = ()>,
) -> io::Result<()> {
    let tun = Rc::new(Tun::new(interface)?);
    let mut network = Network {
        rules,
        resolvers,
        stack: Rc::new(Stack::new(Rc::clone(&tun))),
        tun: Rc::clone(&tun),
        connections: HashSet::new(),
        datagrams: HashMap::new(),
        carried: FuturesUnordered::new(),
    };
    let mut ended = pin!(ended);
    let mut packet = vec![0; MTU.into()];
    loop {
        let pause = network.stack.pause();
        let stack = Rc::clone(&network.stack);
        let due = async {
            match pause {
                Some(pause) => sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = tun.receive(&mut packet) => network.take(packet.get(..read?).unwrap_or_default()),
            Some(over) = network.carried.next(), if !network.carried.is_empty() => match over {
                Either::Left(connection) => { network.connections.remove(&connection); }
                Either::Right(pair) => { network.datagrams.remove(&pair); }
            },
            () = stack.changed.notified() => {}
            () = due => {}
            () = &mut ended => return Ok(()),
        }
        network.stack.send();
    }
}

struct Network<'a> {
    rules: &'a Rules,
    resolvers: &'a Resolvers,
    stack: Rc<Stack>,
    tun: Rc<Tun>,
    connections: HashSet<Ends>,
    datagrams: HashMap<Ends, mpsc::Sender<Vec<u8>>>,
    carried: FuturesUnordered<LocalBoxFuture<'a, Ended>>,
}

impl Network<'_> {
    fn take(&mut self, bytes: &[u8]) {
        match Packet::of(bytes) {
            Packet::Tcp { from, to, begins: true } => self.connect(Ends { from, to }, bytes),
            Packet::Tcp { begins: false, .. } => self.stack.take(bytes),
            Packet::Udp { from, to, payload } => self.pass(Ends { from, to }, payload),
            Packet::Other => {}
        }
    }

    /// Whom an address stands for, if he may be reached.
    fn behind(&self, to: SocketAddr) -> Option<SocketAddr> {
        let resolver = self.resolvers.behind(to);
        resolver.or_else(|| self.rules.lets(to).then_some(to))
    }

    fn connect(&mut self, ends: Ends, packet: &[u8]) {
        let known = self.connections.contains(&ends);
        let Some(to) = self.behind(ends.to).filter(|_| !known) else {
            // What belongs to no connection is refused.
            return self.stack.take(packet);
        };
        if self.connections.len() >= MOST {
            return;
        }
        if let Some(handle) = self.stack.begin(packet, ends.to) {
            self.connections.insert(ends);
            let carried = tcp::carry(Rc::clone(&self.stack), handle, to);
            self.carried.push(carried.map(move |()| Either::Left(ends)).boxed_local());
        }
    }

    fn pass(&mut self, ends: Ends, payload: &[u8]) {
        if !self.datagrams.contains_key(&ends) {
            let Some(to) = self.behind(ends.to).filter(|_| self.datagrams.len() < MOST) else {
                return;
            };
            let (send, sent) = mpsc::channel(WAITING);
            self.datagrams.insert(ends, send);
            let carried = udp::carry(Rc::clone(&self.tun), ends, to, sent);
            self.carried.push(carried.map(move |()| Either::Right(ends)).boxed_local());
        }
        if let Some(waiting) = self.datagrams.get(&ends) {
            // What finds no room is lost, as on any network.
            let _lost = waiting.try_send(payload.to_vec());
        }
    }
}
