//! Shares of a listener's places, so that nobody takes those of another.
//!
//! Who comes through a door of its own has its share as an address has.
//!
//! ```text
//! 0 ─── any address, up to PER_ORIGIN ─── CONNECTIONS - FIRST ─── the first of an address ─── CONNECTIONS
//! ```
//!
//! Refuses to know what is said on a connection: who has said nothing yet counts like everybody else.
//! What holds: an address that holds no connection gets one, unless so many addresses are there that
//! even those that are kept for the first of each are taken.

use famulus_core::runner::Origin;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// Connections of one listener, counted by address.
pub(crate) struct Shares {
    limits: ShareLimits,
    held: Mutex<Held>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareLimits {
    /// Connections at once.
    pub(crate) all: usize,
    /// Those of one address, or of one door.
    pub(crate) per_origin: usize,
    /// Of all, those that only an address gets that holds none.
    pub(crate) first: usize,
}

#[derive(Default)]
struct Held {
    all: usize,
    by_origin: HashMap<Origin, Holder>,
}

#[derive(Clone, Copy, Default)]
struct Holder {
    connections: usize,
    /// The log says once that it wants more, until it holds none.
    refused: bool,
}

/// The place of one connection; it is free again when this is dropped.
pub(crate) struct Share {
    shares: Arc<Shares>,
    from: Origin,
}

impl Shares {
    pub(crate) fn new(limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self { limits, held: Mutex::default() })
    }

    /// A place for a connection from there, if it may have one more.
    pub(crate) fn take(self: &Arc<Self>, from: &Origin) -> Option<Share> {
        let ShareLimits { all, per_origin, first } = self.limits;
        let mut held = self.held.lock();
        let full = held.all + first >= all;
        let holder = held.by_origin.entry(from.clone()).or_default();
        if holder.connections >= per_origin || (full && holder.connections > 0) {
            if !std::mem::replace(&mut holder.refused, true) {
                let connections = holder.connections;
                tracing::warn!(%from, connections, "an address holds all connections that it may");
            }
            metrics::counter!("famulus_connections_refused_total").increment(1);
            return None;
        }
        holder.connections += 1;
        held.all += 1;
        Some(Share { shares: Arc::clone(self), from: from.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.held.lock();
        held.all -= 1;
        if let Some(holder) = held.by_origin.get_mut(&self.from) {
            holder.connections -= 1;
            if holder.connections == 0 {
                held.by_origin.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    #[test]
    fn an_address_gets_its_share_and_the_first_of_each_has_room() {
        let shares = Shares::new(ShareLimits { all: 8, per_origin: 3, first: 3 });
        let address = |last: u8| Origin::from(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let take = |last: u8, count: usize| -> Vec<Share> {
            (0..count).filter_map(|_| shares.take(&address(last))).collect()
        };
        let one = take(1, 9);
        assert_eq!(one.len(), 3);
        let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
        assert!(
            shares.take(&IpAddr::V6(mapped).into()).is_none(),
            "the same address, written otherwise"
        );
        let two = take(2, 9);
        assert_eq!(two.len(), 2, "the rest is kept for those who have none");
        let firsts: Vec<Share> = (3..6).flat_map(|last| take(last, 9)).collect();
        assert_eq!(firsts.len(), 3);
        drop(one);
        assert_eq!(take(2, 9).len(), 0, "still fewer are free than are kept");
        drop(firsts);
        let other = shares.take(&IpAddr::V6(Ipv6Addr::LOCALHOST).into());
        let door = shares.take(&Origin::Door("p".into()));
        assert!(other.is_some() && door.is_some());
        assert_eq!(take(2, 9).len(), 1);
        drop((two, other, door));
        let held = shares.held.lock();
        assert_eq!((held.all, held.by_origin.len()), (0, 0));
    }
}
