//! The viewers of this process, and what is shown to them.

use crate::{
    frame::Frame,
    people::Feed,
    waiter::{self, Progress, Waiter},
    window::{PushOutcome, Window},
};
use famulus_core::{
    event::{Envelope, Event, EventId, List, Viewers},
    ids::{ConversationId, PersonId, TurnId},
};
use parking_lot::Mutex;
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

/// A window of a turn that nobody watches and that stored nothing for this long belongs to a turn
/// that lost its lease.
pub(crate) const FORSAKEN: Duration = Duration::from_mins(2);

/// The viewers of this process.
pub struct Hub {
    /// Whole at each step of a change: a panic in between loses one event, which the table still has.
    pub(crate) inner: Mutex<Inner>,
    /// Something waits for [`Hub::follow`] to look at it.
    pub(crate) work: Notify,
    limit: usize,
    viewers: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) windows: HashMap<ConversationId, Watched>,
    pub(crate) waiters: HashMap<TurnId, watch::Sender<Progress>>,
    pub(crate) people: HashMap<PersonId, Feed>,
}

/// A conversation that is watched here, or whose turn runs here.
pub(crate) struct Watched {
    /// Known as soon as somebody watches.
    pub(crate) person: Option<PersonId>,
    pub(crate) window: watch::Sender<Window>,
    /// The table is to be read now, not on the next hint.
    pub(crate) due: bool,
    /// When a turn of this process last showed something: while it does, the table has no news.
    pub(crate) local_at: Option<Instant>,
}

/// One of the places that viewers may take; given back when it is dropped.
pub struct ViewerSlot {
    pub(crate) hub: Arc<Hub>,
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
    pub fn take_place(self: &Arc<Self>) -> Option<ViewerSlot> {
        let taken = self.viewers.fetch_add(1, Ordering::AcqRel);
        // Dropping it gives the place back, also when there was none.
        let place = ViewerSlot { hub: Arc::clone(self) };
        (taken < self.limit).then_some(place)
    }

    /// Waits for a turn to end, in this process or elsewhere.
    pub fn wait_for(self: &Arc<Self>, turn: TurnId) -> Waiter {
        let progress = self
            .inner
            .lock()
            .waiters
            .entry(turn)
            .or_insert_with(|| watch::Sender::new(Progress::Unseen))
            .subscribe();
        Waiter::new(Arc::clone(self), turn, progress)
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

    fn list_changed(&self, person: PersonId, list: List) {
        if let Some(feed) = self.inner.lock().people.get(&person) {
            feed.changed(list);
        }
    }
}
