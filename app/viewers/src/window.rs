//! The latest events of one conversation: what viewers read without asking the database.
//!
//! ```text
//!    in the table          in the window                     held back until the
//!  ...───────────── base ┤ frame frame ... frame ├ top  ...  gap before them is read
//! ```
//!
//! Invariants: every event up to `base` that will ever be is in the table; every event behind
//! `base` up to `top` is in the window; what comes is behind `top`. So a viewer at any place finds
//! all that follows in the table, in the window, or in both, and ids tell what it has seen.

use crate::frame::Frame;
use famulus_core::event::EventId;
use std::{collections::VecDeque, sync::Arc};
use tokio::time::Instant;

/// Stored frames that are kept for viewers that are a little behind.
const KEPT: usize = 64;
/// Frames that a viewer takes at once.
const TAKEN: usize = 64;

#[derive(Debug)]
pub(crate) struct Window {
    base: EventId,
    frames: VecDeque<Arc<Frame>>,
    /// Up to here everything is in the table.
    stored: EventId,
    held: VecDeque<Arc<Frame>>,
    touched: Instant,
}

/// What a viewer finds.
#[derive(Debug)]
pub(crate) enum View {
    /// What follows, oldest first; empty when the viewer has seen everything.
    Frames(Vec<Arc<Frame>>),
    /// The viewer's place is before the window: what is missing up to `base` is in the table.
    Behind { base: EventId },
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    Shown,
    /// Events before it may be missing: the table is to be read from `top`.
    Held,
    Known,
}

impl Window {
    /// A window whose viewers find everything up to `at` in the table.
    pub(crate) fn new(at: EventId, now: Instant) -> Self {
        Self { base: at, frames: VecDeque::new(), stored: at, held: VecDeque::new(), touched: now }
    }

    /// The last event that viewers can see.
    pub(crate) fn top(&self) -> EventId {
        self.frames.back().map_or(self.base, |frame| frame.id())
    }

    /// Takes an event of a turn that runs in this process. `watched` says whether somebody looks:
    /// if not, what comes before a gap is left to the table.
    pub(crate) fn publish(
        &mut self,
        frame: Arc<Frame>,
        watched: bool,
        now: Instant,
    ) -> PushOutcome {
        let (id, top) = (frame.id(), self.top());
        self.touched = now;
        if id <= top || self.held.back().is_some_and(|held| id <= held.id()) {
            return PushOutcome::Known;
        }
        if !self.held.is_empty() {
            self.held.push_back(frame);
            return PushOutcome::Held;
        }
        if id.fence == top.fence && id.number == top.number + 1 {
            self.push(frame);
            return PushOutcome::Shown;
        }
        if watched {
            self.held.push_back(frame);
            return PushOutcome::Held;
        }
        self.frames.clear();
        self.base = EventId { number: id.number - 1, ..id };
        self.stored = self.base;
        self.push(frame);
        PushOutcome::Shown
    }

    /// The last event that is held: of a reading of the table that begins now nothing before it is missing.
    pub(crate) fn held(&self) -> Option<EventId> {
        self.held.back().map(|frame| frame.id())
    }

    /// Takes what the table had behind [`Window::top`]. `whole` is the last event that was held when the
    /// reading began, if it came to the table's end: what was held since may follow something that was
    /// stored since, and waits for another one. Returns whether there is something new to see.
    pub(crate) fn fill(
        &mut self,
        rows: &[Arc<Frame>],
        whole: Option<EventId>,
        now: Instant,
    ) -> bool {
        let before = self.top();
        for row in rows {
            if row.id() > self.top() {
                self.push(Arc::clone(row));
                self.stored = self.stored.max(row.id());
            }
        }
        while let Some(frame) = self.held.front() {
            let (id, top) = (frame.id(), self.top());
            let is_known = id <= top;
            let follows = id.fence == top.fence && id.number == top.number + 1;
            if !is_known && !follows && whole.is_none_or(|whole| id > whole) {
                break;
            }
            if let Some(frame) = self.held.pop_front()
                && !is_known
            {
                self.push(frame);
            }
        }
        self.trim(KEPT);
        let news = self.top() > before;
        if news {
            self.touched = now;
        }
        news
    }

    /// Everything up to this id is in the table.
    pub(crate) fn store(&mut self, up_to: EventId) {
        self.stored = self.stored.max(up_to);
        self.trim(KEPT);
    }

    /// Whether the table has all of it.
    pub(crate) fn is_stored(&self) -> bool {
        self.held.is_empty() && self.top() <= self.stored
    }

    /// Lets go of stored frames when nothing has happened since `since`: an idle viewer costs no
    /// memory for what it has seen.
    pub(crate) fn rest(&mut self, since: Instant) {
        if self.touched < since {
            self.trim(0);
            self.frames.shrink_to_fit();
        }
    }

    pub(crate) fn touched(&self) -> Instant {
        self.touched
    }

    /// What follows a place.
    pub(crate) fn after(&self, place: EventId) -> View {
        if place < self.base {
            return View::Behind { base: self.base };
        }
        let first = self.frames.partition_point(|frame| frame.id() <= place);
        View::Frames(self.frames.iter().skip(first).take(TAKEN).cloned().collect())
    }

    fn push(&mut self, frame: Arc<Frame>) {
        // A lane's earlier tokens can store nothing more: what they have not stored never will be.
        if frame.id().fence > self.stored.fence {
            self.stored = EventId { fence: frame.id().fence, number: 0 };
        }
        self.frames.push_back(frame);
        self.trim(KEPT);
    }

    fn trim(&mut self, keep: usize) {
        while self.frames.len() > keep {
            match self.frames.front() {
                Some(front) if front.id() <= self.stored => {
                    self.base = front.id();
                    self.frames.pop_front();
                }
                Some(_) | None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::{
        event::{DeltaKind, Envelope, Event, VERSION},
        ids::{ConversationId, TurnId},
    };

    fn id(fence: i64, number: i64) -> EventId {
        EventId { fence, number }
    }

    fn frame(fence: i64, number: i64) -> Arc<Frame> {
        Frame::new(Arc::new(Envelope {
            v: VERSION,
            id: id(fence, number),
            conversation: ConversationId(uuid::Uuid::nil()),
            at: jiff::Timestamp::UNIX_EPOCH,
            event: Event::Delta {
                turn: TurnId(uuid::Uuid::nil()),
                kind: DeltaKind::Text,
                text: "x".into(),
            },
        }))
    }

    fn seen(window: &Window, after: EventId) -> Option<Vec<EventId>> {
        match window.after(after) {
            View::Frames(frames) => Some(frames.iter().map(|frame| frame.id()).collect()),
            View::Behind { .. } => None,
        }
    }

    #[test]
    fn events_in_order_are_shown_at_once() {
        let now = Instant::now();
        let mut window = Window::new(id(5, 0), now);
        assert_eq!(window.publish(frame(5, 1), true, now), PushOutcome::Shown);
        assert_eq!(window.publish(frame(5, 2), true, now), PushOutcome::Shown);
        assert_eq!(window.publish(frame(5, 2), true, now), PushOutcome::Known);
        assert_eq!(seen(&window, id(5, 0)), Some(vec![id(5, 1), id(5, 2)]));
        assert_eq!(seen(&window, id(5, 2)), Some(vec![]));
        assert_eq!(seen(&window, id(4, 9)), None, "what is before the window is in the table");
    }

    #[test]
    fn a_new_token_is_held_until_the_gap_is_read() {
        let now = Instant::now();
        let mut window = Window::new(id(5, 3), now);
        assert_eq!(window.publish(frame(9, 1), true, now), PushOutcome::Held);
        assert_eq!(window.publish(frame(9, 2), true, now), PushOutcome::Held);
        assert_eq!(seen(&window, id(5, 3)), Some(vec![]));
        assert!(window.fill(&[frame(5, 4), frame(7, 1)], None, now));
        assert_eq!(seen(&window, id(5, 3)), Some(vec![id(5, 4), id(7, 1)]));
        assert_eq!(window.held(), Some(id(9, 2)));
        assert!(window.fill(&[frame(9, 1)], window.held(), now));
        assert_eq!(
            seen(&window, id(5, 3)),
            Some(vec![id(5, 4), id(7, 1), id(9, 1), id(9, 2)]),
            "stored and held are the same event"
        );
        assert_eq!(window.publish(frame(9, 3), true, now), PushOutcome::Shown);
    }

    /// Between the reading and its answer a turn ended elsewhere, and the next one began here.
    #[test]
    fn what_is_held_since_a_reading_began_waits_for_the_next() {
        let now = Instant::now();
        let mut window = Window::new(id(5, 1), now);
        let before = window.held();
        assert_eq!(window.publish(frame(9, 1), true, now), PushOutcome::Held);
        assert!(!window.fill(&[], before, now), "(5, 2) is stored by now");
        let before = window.held();
        assert_eq!(window.publish(frame(9, 2), true, now), PushOutcome::Held);
        assert!(window.fill(&[frame(5, 2)], before, now));
        let all = vec![id(5, 2), id(9, 1), id(9, 2)];
        assert_eq!(
            seen(&window, id(5, 1)),
            Some(all),
            "what follows what is shown waits for nothing"
        );
        assert_eq!(window.held(), None);
    }

    #[test]
    fn without_viewers_a_gap_is_left_to_the_table() {
        let now = Instant::now();
        let mut window = Window::new(id(5, 3), now);
        assert_eq!(window.publish(frame(9, 4), false, now), PushOutcome::Shown);
        assert_eq!(seen(&window, id(5, 3)), None);
        assert_eq!(seen(&window, id(9, 3)), Some(vec![id(9, 4)]));
    }

    #[test]
    fn only_stored_events_are_let_go() {
        let now = Instant::now();
        let mut window = Window::new(id(5, 0), now);
        for number in 1..=200 {
            window.publish(frame(5, number), true, now);
        }
        assert_eq!(window.frames.len(), 200);
        assert!(!window.is_stored());
        window.store(id(5, 190));
        assert_eq!(window.frames.len(), KEPT);
        assert_eq!(window.base, id(5, 136));
        window.store(id(5, 200));
        assert!(window.is_stored());
        window.rest(now + std::time::Duration::from_secs(1));
        assert_eq!((window.frames.len(), window.base), (0, id(5, 200)));
    }

    #[test]
    fn what_a_lost_lease_never_stored_does_not_stay() {
        let now = Instant::now();
        let mut window = Window::new(id(5, 0), now);
        window.publish(frame(5, 1), true, now);
        let rows: Vec<_> = (1..=100).map(|number| frame(8, number)).collect();
        window.fill(&rows, None, now);
        assert_eq!(window.frames.len(), KEPT);
        assert_eq!(window.publish(frame(5, 2), true, now), PushOutcome::Known);
    }
}
