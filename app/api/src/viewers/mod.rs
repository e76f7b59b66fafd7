//! Viewers: who watches what, and how events reach them.
//!
//! ```text
//! a turn here ── publish ──► window ──► viewers of the conversation
//! a turn elsewhere ─► table ── follow ──┘        (one task each: their connection)
//! ```
//!
//! Events of this process are shown before they are stored; those of others are read from the table
//! on a hint, by one query for everything that is watched. Where nobody watches, nothing is asked.
//! A viewer that falls behind reads the table from its own place: it is never sent less, and holds
//! no more.

mod follow;
mod frame;
mod people;
pub(crate) mod sse;
mod table;
#[cfg(test)]
mod tests;
mod viewer;
mod waiter;
mod window;

pub(crate) use people::PersonViewer;
pub use table::{EventTable, RecentConversation};
pub(crate) use viewer::Viewer;
pub(crate) use waiter::{Progress, Waiter};

use famulus_core::{
    event::{Envelope, Event, EventId, List, Viewers},
    ids::{ConversationId, PersonId, TurnId},
};
use frame::Frame;
use parking_lot::Mutex;
use people::Feed;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use window::{PushOutcome, Window};

/// A window of a turn that nobody watches and that stored nothing for this long belongs to a turn
/// that lost its lease.
const FORSAKEN: Duration = Duration::from_mins(2);

/// The viewers of this process.
pub struct Hub {
    /// Whole at each step of a change: a panic in between loses one event, which the table still has.
    inner: Mutex<Inner>,
    /// Something waits for [`Hub::follow`] to look at it.
    work: Notify,
    limit: usize,
    viewers: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    windows: HashMap<ConversationId, Watched>,
    waiters: HashMap<TurnId, watch::Sender<Progress>>,
    people: HashMap<PersonId, Feed>,
}

/// A conversation that is watched here, or whose turn runs here.
struct Watched {
    /// Known as soon as somebody watches.
    person: Option<PersonId>,
    window: watch::Sender<Window>,
    /// The table is to be read now, not on the next hint.
    due: bool,
    /// When a turn of this process last showed something: while it does, the table has no news.
    local_at: Option<Instant>,
}

/// One of the places that viewers may take; given back when it is dropped.
pub(crate) struct ViewerSlot {
    hub: Arc<Hub>,
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        self.hub.viewers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Hub {
    /// A hub for at most `limit` viewers at once.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            work: Notify::new(),
            limit,
            viewers: AtomicUsize::new(0),
        })
    }

    /// How many watch now.
    pub fn viewers(&self) -> usize {
        self.viewers.load(Ordering::Acquire)
    }

    /// Takes a viewer's place, or `None` when all are taken.
    pub(crate) fn take_place(self: &Arc<Self>) -> Option<ViewerSlot> {
        let taken = self.viewers.fetch_add(1, Ordering::AcqRel);
        // Dropping it gives the place back, also when there was none.
        let place = ViewerSlot { hub: Arc::clone(self) };
        (taken < self.limit).then_some(place)
    }

    /// Waits for a turn to end, in this process or elsewhere.
    pub(crate) fn wait_for(self: &Arc<Self>, turn: TurnId) -> Waiter {
        let progress = self
            .inner
            .lock()
            .waiters
            .entry(turn)
            .or_insert_with(|| watch::Sender::new(Progress::Unseen))
            .subscribe();
        Waiter::new(Arc::clone(self), turn, progress)
    }

    /// Tells the viewers of a person that a list has changed.
    pub fn list_changed(&self, person: PersonId, list: List) {
        if let Some(feed) = self.inner.lock().people.get(&person) {
            feed.changed(list);
        }
    }
}

impl Viewers for Hub {
    fn publish(&self, envelope: &Arc<Envelope>) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        if !inner.waiters.is_empty() {
            waiter::tell(&inner.waiters, &envelope.event);
        }
        let watched = inner.windows.entry(envelope.conversation).or_insert_with(|| {
            let before = EventId { number: envelope.id.number - 1, ..envelope.id };
            Watched {
                person: None,
                window: watch::Sender::new(Window::new(before, now)),
                due: false,
                local_at: None,
            }
        });
        let ends = matches!(envelope.event, Event::Complete { .. });
        watched.local_at = (!ends).then_some(now);
        let frame = Frame::new(Arc::clone(envelope));
        let is_watched = watched.window.receiver_count() > 0;
        let mut taken = PushOutcome::Known;
        watched.window.send_if_modified(|window| {
            taken = window.publish(frame, is_watched, now);
            taken == PushOutcome::Shown
        });
        if taken == PushOutcome::Held {
            watched.due = true;
            self.work.notify_one();
        }
    }

    fn stored(&self, conversation: ConversationId, up_to: EventId) {
        let mut inner = self.inner.lock();
        let Some(watched) = inner.windows.get(&conversation) else { return };
        let mut is_stored = false;
        watched.window.send_if_modified(|window| {
            window.store(up_to);
            is_stored = window.is_stored();
            false
        });
        if is_stored && watched.window.receiver_count() == 0 {
            inner.windows.remove(&conversation);
        }
    }
}
