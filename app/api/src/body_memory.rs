//! A budget of memory for request bodies that are buffered whole.
//!
//! All that are held at once fit into `api.buffered_bytes`. A body takes its room before it is read,
//! and keeps it until nothing of it is held any more; one that finds none waits its turn, which costs
//! nothing but a connection. Small bodies have a part of the room for themselves, so that a few words
//! never wait behind files.

use crate::problem::{Kind, Problem};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// The largest body that counts as small.
pub(crate) const SMALL: usize = 64 * 1024;
/// The part of the room that is kept for small bodies.
const SHARE_OF_SMALL: usize = 8;
/// Room is counted in pieces of so many bytes.
const UNIT: usize = 1024;
/// Seconds after which there may be room again.
const AGAIN: u32 = 5;

pub(crate) struct BodyMemory {
    small: Pool,
    large: Pool,
}

struct Pool {
    free: Arc<Semaphore>,
    units: u32,
}

/// Room that a body takes; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    _permit: Option<OwnedSemaphorePermit>,
}

impl BodyMemory {
    /// Room for so many bytes at once, and for the largest body in any case.
    pub(crate) fn new(bytes: usize, largest: usize) -> Self {
        let small = bytes / SHARE_OF_SMALL;
        Self {
            small: Pool::new(small.max(SMALL)),
            large: Pool::new(bytes.saturating_sub(small).max(largest)),
        }
    }

    /// Takes room for a body of so many bytes.
    ///
    /// # Errors
    /// There was none in all that time.
    pub(crate) async fn take(&self, bytes: usize, wait: Duration) -> Result<Reservation, Problem> {
        let pool = if bytes <= SMALL { &self.small } else { &self.large };
        let taking = Arc::clone(&pool.free).acquire_many_owned(units(bytes).min(pool.units));
        match timeout(wait, taking).await {
            // The semaphore is never closed.
            Ok(permit) => Ok(Reservation { _permit: permit.ok() }),
            Err(_) => Err(Problem::new(
                Kind::NoRoom,
                format!("there was no room for a body of {bytes} bytes among those that are read"),
                "send it again later, send large files with POST /v1/blobs, which holds none of \
                 them whole, or raise `api.buffered_bytes` in the configuration",
            )
            .after(AGAIN)),
        }
    }
}

impl Pool {
    fn new(bytes: usize) -> Self {
        let units = units(bytes);
        Self { free: Arc::new(Semaphore::new(units as usize)), units }
    }
}

fn units(bytes: usize) -> u32 {
    // Four TiB are beyond what can be meant.
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;
    const WAIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_waits_and_small_bodies_do_not() {
        let memory = BodyMemory::new(8 * MIB, 3 * MIB);
        let first = memory.take(3 * MIB, WAIT).await.unwrap();
        let second = memory.take(3 * MIB, WAIT).await.unwrap();
        let refused = memory.take(3 * MIB, WAIT).await.unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (Kind::NoRoom, Some(AGAIN)));
        assert!(refused.remedy.contains("api.buffered_bytes"), "{}", refused.remedy);

        let (third, small) = tokio::join!(memory.take(3 * MIB, WAIT), async {
            let small = memory.take(SMALL, Duration::ZERO).await;
            drop(first);
            small
        });
        assert!(small.is_ok(), "large bodies that wait are not in the way of small ones");
        drop((second, third.unwrap(), small.unwrap()));
        assert!(memory.take(7 * MIB, Duration::ZERO).await.is_ok(), "all is given back");
    }

    #[tokio::test]
    async fn the_largest_body_fits_into_any_room() {
        let memory = BodyMemory::new(0, 3 * MIB);
        assert!(memory.take(3 * MIB, Duration::ZERO).await.is_ok());
        assert!(memory.take(0, Duration::ZERO).await.is_ok());
        assert!(memory.take(usize::MAX, Duration::ZERO).await.is_ok());
    }
}
