//! Work that is leased in the transaction that makes it, and handed to the worker of its process.
//!
//! Claiming costs a round trip; whoever makes work beside an idle worker can spare it. A place is
//! reserved first, so that a worker never holds more than it has places for. At most half of the
//! places are given away like this: then the rest of the work waits for whoever comes first, also in
//! other processes.

use crate::lane::Lease;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

/// A lease with its place.
pub(crate) type HandedLease = (Lease, OwnedSemaphorePermit);

/// The link to the worker of this process, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Handover {
    link: Arc<Mutex<Option<WorkerLink>>>,
}

#[derive(Clone, Debug)]
struct WorkerLink {
    places: Arc<Semaphore>,
    keep: usize,
    leases: mpsc::Sender<HandedLease>,
    freed: Arc<Notify>,
}

/// Where a worker receives what is handed to it. Dropped, it leaves nobody to hand to.
pub(crate) struct HandoverReceiver {
    link: Arc<Mutex<Option<WorkerLink>>>,
    leases: mpsc::Receiver<HandedLease>,
    freed: Arc<Notify>,
}

impl Handover {
    /// Begins to receive: the worker has `all` places, of which `places` are free now.
    pub(crate) fn receive(&self, places: &Arc<Semaphore>, all: usize) -> HandoverReceiver {
        let (to, leases) = mpsc::channel(all.max(1));
        let freed = Arc::new(Notify::new());
        let link = WorkerLink {
            places: Arc::clone(places),
            keep: all - all / 2,
            leases: to,
            freed: Arc::clone(&freed),
        };
        *self.link.lock() = Some(link);
        HandoverReceiver { link: Arc::clone(&self.link), leases, freed }
    }

    /// Reserves up to `wanted` places, mostly all, sometimes none.
    pub fn reserve(&self, wanted: usize) -> Option<Reservation> {
        let link = self.link.lock().clone()?;
        let free = link.places.available_permits().saturating_sub(link.keep).min(wanted);
        let places = Arc::clone(&link.places).try_acquire_many_owned(u32::try_from(free).ok()?);
        (free > 0).then_some(Reservation { places: places.ok()?, link })
    }
}

impl HandoverReceiver {
    /// The next lease that is handed over, or `None` when reserved places came back unused.
    pub(crate) async fn next(&mut self) -> Option<HandedLease> {
        tokio::select! {
            handed = self.leases.recv() => match handed {
                Some(handed) => Some(handed),
                // The sender lives in the link, and that until this is dropped.
                None => std::future::pending().await,
            },
            () = self.freed.notified() => None,
        }
    }

    /// What has been handed over and not been taken.
    pub(crate) fn rest(&mut self) -> Vec<HandedLease> {
        self.link.lock().take();
        self.leases.close();
        std::iter::from_fn(|| self.leases.try_recv().ok()).collect()
    }
}

impl Drop for HandoverReceiver {
    fn drop(&mut self) {
        self.link.lock().take();
    }
}

/// Places that nobody else takes meanwhile; those that are not used go back.
#[derive(Debug)]
pub struct Reservation {
    places: OwnedSemaphorePermit,
    link: WorkerLink,
}

impl Reservation {
    pub fn count(&self) -> usize {
        self.places.num_permits()
    }

    /// Hands a lease over.
    ///
    /// # Errors
    /// The lease, when there is no place left or the worker has gone: it is to be given back.
    pub fn hand(&mut self, lease: Lease) -> Result<(), Lease> {
        let place = self.places.split(1).ok_or(lease)?;
        self.link.leases.try_send((lease, place)).map_err(|_refused| lease)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.places.num_permits() > 0 {
            // The worker may have seen no free place, and sleep.
            self.places.split(self.places.num_permits());
            self.link.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::{Class, Job};
    use famulus_core::{
        ids::{PersonId, WorkerId},
        turn::Fence,
    };
    use uuid::Uuid;

    fn lease() -> Lease {
        let person = PersonId::new();
        let lane = Uuid::now_v7();
        Lease {
            fence: Fence { lane, worker: WorkerId::new(), token: 1, person },
            job: Job { id: Uuid::now_v7(), class: Class::Turn, lane, person },
            attempts: 1,
        }
    }

    #[tokio::test]
    async fn half_of_the_places_are_given_away_and_come_back() {
        let handover = Handover::default();
        assert!(handover.reserve(1).is_none(), "there is no worker");
        let places = Arc::new(Semaphore::new(5));
        let mut receiving = handover.receive(&places, 5);

        let mut reserved = handover.reserve(8).expect("the worker is idle");
        assert_eq!(reserved.count(), 2);
        assert!(handover.reserve(1).is_none(), "the others are kept");
        let first = lease();
        reserved.hand(first).expect("there is a place");
        drop(reserved);
        assert_eq!(places.available_permits(), 4, "one is used, one came back");

        let mut seen = [receiving.next().await, receiving.next().await];
        seen.sort_by_key(Option::is_none);
        let [Some((handed, place)), None] = seen else { panic!("a lease, and a place back") };
        assert_eq!(handed, first);
        drop(place);
        assert_eq!(places.available_permits(), 5);
    }

    #[tokio::test]
    async fn a_lease_for_a_worker_that_has_gone_is_given_back() {
        let handover = Handover::default();
        let places = Arc::new(Semaphore::new(4));
        let mut receiving = handover.receive(&places, 4);
        let mut reserved = handover.reserve(2).expect("the worker is idle");
        let (first, second) = (lease(), lease());
        reserved.hand(first).expect("it is there");
        assert_eq!(receiving.rest().len(), 1);
        assert_eq!(reserved.hand(second), Err(second));
        assert_eq!(reserved.hand(second), Err(second), "no place is left either");
        drop(reserved);
        assert_eq!(places.available_permits(), 4);
        assert!(handover.reserve(1).is_none());
    }
}
