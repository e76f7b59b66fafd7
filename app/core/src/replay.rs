//! What holds of one turn, as a pure function of its events.
//!
//! ```text
//! envelope ──apply──► events that hold, usage, end
//! ```
//!
//! The store asks it what a successor goes on from, and a viewer what to show. Knows nothing of
//! tables, streams or screens. Invariants: an event counts once, however often it is delivered;
//! after `resumed` nothing is left that lies beyond the id which it names; behind the end of the
//! turn nothing counts.

use crate::event::{DeltaKind, Envelope, Event, EventId, Status};
use crate::ids::{MessageId, TurnId};
use crate::model::Usage;
use crate::turn::TurnState;

/// One turn, seen from outside.
#[derive(Debug)]
pub struct Replay {
    turn: TurnId,
    position: EventId,
    events: Vec<Envelope>,
    usage: Option<Usage>,
    end: Option<End>,
}

/// How the turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub state: TurnState,
    /// The message that the text belongs to.
    pub message: Option<MessageId>,
    /// The reply, whole.
    pub text: String,
}

impl Replay {
    /// A turn of which nothing has been seen; events up to and with `position` are known already.
    pub fn new(turn: TurnId, position: EventId) -> Self {
        Self { turn, position, events: Vec::new(), usage: None, end: None }
    }

    pub fn turn(&self) -> TurnId {
        self.turn
    }

    /// The id of the last event, also of one that does not hold: what to go on from.
    pub fn position(&self) -> EventId {
        self.position
    }

    /// What was said and done, in order. That it streams or idles leaves no trace.
    pub fn events(&self) -> &[Envelope] {
        &self.events
    }

    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// All that was written of this kind, in one piece.
    pub fn written(&self, wanted: DeltaKind) -> String {
        let piece = |envelope: &Envelope| match &envelope.event {
            Event::Delta { kind, text, .. } if *kind == wanted => Some(text.clone()),
            Event::Delta { .. }
            | Event::Status { .. }
            | Event::Usage { .. }
            | Event::Resumed { .. }
            | Event::Message { .. }
            | Event::Complete { .. }
            | Event::ListChanged { .. } => None,
        };
        self.events.iter().filter_map(piece).collect()
    }

    /// Takes in one event of the conversation, and says whether it is news of the turn.
    pub fn apply(&mut self, envelope: Envelope) -> bool {
        if envelope.id <= self.position {
            return false;
        }
        self.position = envelope.id;
        if self.end.is_some() || envelope.event.turn() != Some(self.turn) {
            return false;
        }
        match envelope.event {
            Event::Resumed { last, .. } => {
                self.events.retain(|held| held.id <= last);
                self.events.push(envelope);
            }
            Event::Status { status: Status::Streaming | Status::Idle, .. }
            | Event::ListChanged { .. } => return false,
            Event::Delta { .. } | Event::Status { .. } | Event::Message { .. } => {
                self.events.push(envelope);
            }
            Event::Usage { usage, .. } => self.usage = Some(usage),
            Event::Complete { state, message, text, .. } => {
                self.finish(End { state, message, text });
            }
        }
        true
    }

    /// An event of a kind that this version does not know: only its place counts.
    pub fn skip(&mut self, id: EventId) {
        self.position = self.position.max(id);
    }

    /// Forgets what was seen: too little is kept to go on from there.
    pub fn reset(&mut self) {
        self.position = EventId::START;
        self.events.clear();
    }

    /// The turn is over, as learned from its events or by asking.
    pub fn finish(&mut self, end: End) {
        self.end = Some(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::VERSION;
    use crate::ids::ConversationId;
    use jiff::Timestamp;
    use uuid::Uuid;

    const TURN: TurnId = TurnId(Uuid::from_u128(1));
    const OTHER: TurnId = TurnId(Uuid::from_u128(2));

    fn id(fence: i64, number: i64) -> EventId {
        EventId { fence, number }
    }

    fn at(id: EventId, event: Event) -> Envelope {
        let conversation = ConversationId(Uuid::from_u128(9));
        Envelope { v: VERSION, id, conversation, at: Timestamp::UNIX_EPOCH, event }
    }

    fn delta(turn: TurnId, text: &str) -> Event {
        Event::Delta { turn, kind: DeltaKind::Text, text: text.to_owned() }
    }

    fn resumed(last: EventId) -> Event {
        Event::Resumed { turn: TURN, last }
    }

    fn complete(text: &str) -> Event {
        let (turn, state) = (TURN, TurnState::Complete);
        Event::Complete { turn, state, message: None, text: text.to_owned() }
    }

    #[test]
    fn what_holds_is_what_was_not_taken_back() {
        let check = |events: &[(EventId, Event)], expected: &str| {
            let mut replay = Replay::new(TURN, id(1, 1));
            for (id, event) in events {
                replay.apply(at(*id, event.clone()));
            }
            assert_eq!(replay.written(DeltaKind::Text), expected, "{events:?}");
            assert_eq!(replay.position(), events.last().unwrap().0, "{events:?}");
        };
        let (one, two, three) = (id(5, 1), id(5, 2), id(5, 3));
        let said = [(one, delta(TURN, "a")), (two, delta(TURN, "b")), (three, delta(TURN, "c"))];
        let and = |more: &[(EventId, Event)]| [&said[..], more].concat();
        check(&said, "abc");
        check(&and(&said[2..]), "abc");
        check(&and(&[(id(6, 1), resumed(two)), (id(6, 2), delta(TURN, "d"))]), "abd");
        check(&and(&[(id(6, 1), resumed(id(1, 1)))]), "");
        check(&and(&[(id(6, 1), resumed(three)), (id(7, 1), resumed(one))]), "a");
        check(&and(&[(id(5, 4), delta(OTHER, "x"))]), "abc");
        check(&and(&[(id(5, 4), complete("abc")), (id(5, 5), delta(TURN, "x"))]), "abc");
    }

    #[test]
    fn what_is_known_already_does_not_count() {
        let mut replay = Replay::new(TURN, id(5, 1));
        assert!(!replay.apply(at(id(5, 1), delta(TURN, "a"))));
        assert!(!replay.apply(at(id(5, 2), delta(OTHER, "b"))));
        assert!(replay.apply(at(id(5, 3), complete("c"))));
        let end = End { state: TurnState::Complete, message: None, text: "c".to_owned() };
        assert_eq!(replay.end(), Some(&end));
        assert!(replay.events().is_empty());
    }
}
