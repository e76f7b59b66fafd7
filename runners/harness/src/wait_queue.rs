//! A queue in front of a number of places: first come, first served, and everybody knows their
//! position.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// As many run at once as there are places; as many wait as there is room.
#[derive(Clone, Debug)]
pub(crate) struct WaitQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    places: usize,
    waiting: usize,
    /// Held for single operations, never across an await.
    tickets: Mutex<Tickets>,
}

#[derive(Debug, Default)]
struct Tickets {
    next: u64,
    /// Those who run come first.
    held: VecDeque<(u64, watch::Sender<usize>)>,
}

/// No room is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A place in the line, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    number: u64,
    position: watch::Receiver<usize>,
}

impl WaitQueue {
    pub(crate) fn new(places: usize, waiting: usize) -> Self {
        let tickets = Mutex::default();
        Self { shared: Arc::new(Shared { places: places.max(1), waiting, tickets }) }
    }

    pub(crate) fn join(&self) -> Result<Ticket, Full> {
        let mut tickets = self.shared.tickets.lock();
        if tickets.held.len() >= self.shared.places + self.shared.waiting {
            return Err(Full);
        }
        let number = tickets.next;
        tickets.next += 1;
        let (sender, position) =
            watch::channel((tickets.held.len() + 1).saturating_sub(self.shared.places));
        tickets.held.push_back((number, sender));
        drop(tickets);
        Ok(Ticket { shared: Arc::clone(&self.shared), number, position })
    }

    /// How many run, and how many wait.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = self.shared.tickets.lock().held.len();
        let running = all.min(self.shared.places);
        (running, all - running)
    }
}

impl Ticket {
    /// How many must end before this one runs; 0 when it may run.
    pub(crate) fn position(&self) -> usize {
        *self.position.borrow()
    }

    /// Waits until the position is another one. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        // The sender lives as long as this ticket.
        let _never_closed = self.position.changed().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut tickets = self.shared.tickets.lock();
        tickets.held.retain(|(number, _)| *number != self.number);
        for (place, (_, position)) in tickets.held.iter().enumerate() {
            let now = (place + 1).saturating_sub(self.shared.places);
            position.send_if_modified(|was| std::mem::replace(was, now) != now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_served_in_order_and_positions_shrink() {
        let queue = WaitQueue::new(1, 2);
        let first = queue.join().unwrap();
        let second = queue.join().unwrap();
        let third = queue.join().unwrap();
        assert_eq!(queue.join().unwrap_err(), Full);
        assert_eq!([&first, &second, &third].map(Ticket::position), [0, 1, 2]);
        assert_eq!(queue.counts(), (1, 2));
        drop(second);
        assert_eq!([&first, &third].map(Ticket::position), [0, 1]);
        drop(first);
        assert_eq!(third.position(), 0);
        drop(third);
        assert_eq!(queue.counts(), (0, 0));
    }

    #[tokio::test]
    async fn several_places_serve_several_and_a_change_wakes() {
        let queue = WaitQueue::new(2, 1);
        let (first, second) = (queue.join().unwrap(), queue.join().unwrap());
        let mut third = queue.join().unwrap();
        assert_eq!([first.position(), second.position(), third.position()], [0, 0, 1]);
        drop(first);
        third.changed().await;
        assert_eq!(third.position(), 0);
    }
}
