//! What a viewer of one turn knows, as a pure function of the events that reached it.
//!
//! ```text
//! envelope ──apply──► pieces (with the id that each came under) ──► lines, notes, reply
//! ```
//!
//! Knows nothing of streams, terminals or time. Invariants: an event counts once, however often
//! it is delivered; after `resumed` nothing is left that lies beyond the id which it names; once
//! the turn has ended, the reply is what the server says that it is.

use famulus_core::event::{DeltaKind, Envelope, Event, EventId, Status};
use famulus_core::ids::{ApprovalId, MessageId, TurnId};
use famulus_core::message::MessageRole;
use famulus_core::model::Usage;
use famulus_core::turn::TurnState;
use jiff::Timestamp;

use crate::blocks::{self, Block, Piece, asked_line, tool_line, trouble_line};
use crate::clean::one_line;

/// One turn, seen from outside.
#[derive(Debug)]
pub(crate) struct Transcript {
    turn: TurnId,
    position: EventId,
    pieces: Vec<(EventId, Piece)>,
    usage: Option<Usage>,
    end: Option<End>,
}

/// How the turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) state: TurnState,
    /// The message that the text belongs to.
    pub(crate) message: Option<MessageId>,
    /// The reply, whole.
    pub(crate) text: String,
}

/// What an event changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that is shown.
    Nothing,
    /// What is shown grew, or was cut back.
    Shown,
    /// The turn waits for the owner.
    Asked(Question),
    /// The turn is over.
    Ended,
}

/// An approval that the turn waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) approval: ApprovalId,
    pub(crate) code: String,
    pub(crate) summary: String,
}

/// What of a turn is shown besides the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) notes: bool,
    pub(crate) reasoning: bool,
}

/// One line of the screen, safe to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) dim: bool,
    pub(crate) text: String,
}

impl Transcript {
    /// A turn of which nothing has been seen; events up to and with `position` are known already.
    pub(crate) fn new(turn: TurnId, position: EventId) -> Self {
        Self { turn, position, pieces: Vec::new(), usage: None, end: None }
    }

    pub(crate) fn turn(&self) -> TurnId {
        self.turn
    }

    /// The id of the last event: what to ask the server to go on from.
    pub(crate) fn position(&self) -> EventId {
        self.position
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Takes in one event of the conversation.
    pub(crate) fn apply(&mut self, envelope: &Envelope) -> Change {
        if envelope.id <= self.position {
            return Change::Nothing;
        }
        self.position = envelope.id;
        if self.end.is_some() {
            return Change::Nothing;
        }
        match &envelope.event {
            Event::Delta { turn, kind, text } if *turn == self.turn => {
                self.push(envelope, Piece::Delta(*kind, text.clone()))
            }
            Event::Status { turn, status } if *turn == self.turn => {
                self.apply_status(envelope, status)
            }
            Event::Usage { turn, usage } if *turn == self.turn => {
                self.usage = Some(*usage);
                Change::Nothing
            }
            Event::Resumed { turn, last } if *turn == self.turn => {
                self.pieces.retain(|(id, _)| id <= last);
                self.push(envelope, Piece::Resumed)
            }
            Event::Message { turn, message, role } if *turn == self.turn => self
                .push(envelope, Piece::Stored { message: *message, role: *role, at: envelope.at }),
            Event::Complete { turn, state, message, text } if *turn == self.turn => {
                self.finish(End { state: *state, message: *message, text: text.clone() });
                Change::Ended
            }
            Event::Delta { .. }
            | Event::Status { .. }
            | Event::Usage { .. }
            | Event::Resumed { .. }
            | Event::Message { .. }
            | Event::Complete { .. }
            | Event::ListChanged { .. } => Change::Nothing,
        }
    }

    /// An event of a kind that this version does not know: only its place counts.
    pub(crate) fn skip(&mut self, id: EventId) {
        self.position = self.position.max(id);
    }

    /// Forgets everything: the server keeps too little to go on from where this viewer was.
    pub(crate) fn reset(&mut self) {
        self.position = EventId::START;
        self.pieces.clear();
    }

    /// The turn is over, as learned from the stream or by asking.
    pub(crate) fn finish(&mut self, end: End) {
        self.end = Some(end);
    }

    /// What a program wants of the turn: the reply and nothing else.
    pub(crate) fn reply(&self) -> String {
        blocks::reply(&self.blocks(), self.end.as_ref())
    }

    /// The visible text, in one piece for each message of the model.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        blocks::texts(&self.blocks())
    }

    /// The whole turn as it stands on a screen.
    pub(crate) fn lines(&self, view: View) -> Vec<Line> {
        blocks::lines(&self.blocks(), view)
    }

    /// What happened besides the reply, in the order in which it happened: for a log.
    pub(crate) fn notes(&self, view: View) -> Vec<String> {
        let mut notes = Vec::new();
        let mut running: Vec<(&str, Timestamp)> = Vec::new();
        let mut thought = String::new();
        for (_, piece) in &self.pieces {
            if let Piece::Delta(DeltaKind::Reasoning, text) = piece {
                thought.push_str(text);
                continue;
            }
            if view.reasoning && !thought.trim().is_empty() {
                notes.extend(thought.trim().lines().map(one_line));
            }
            thought.clear();
            match piece {
                Piece::ToolRunning { tool, at } => {
                    running.push((tool, *at));
                    notes.push(tool_line(tool, *at, None));
                }
                Piece::Stored { role: MessageRole::Tool, at, .. } => {
                    notes.extend(
                        running.drain(..).map(|(tool, began)| tool_line(tool, began, Some(*at))),
                    );
                }
                Piece::Delta(..)
                | Piece::Resumed
                | Piece::Stored { role: MessageRole::User | MessageRole::Assistant, .. } => {}
                Piece::Asked { code, summary } => notes.push(asked_line(code, summary)),
                Piece::Trouble { message, retrying } => {
                    notes.push(trouble_line(message, *retrying));
                }
            }
        }
        notes
    }

    fn apply_status(&mut self, envelope: &Envelope, status: &Status) -> Change {
        match status {
            Status::Streaming | Status::Idle => Change::Nothing,
            Status::ToolRunning { tool, .. } => {
                self.push(envelope, Piece::ToolRunning { tool: tool.clone(), at: envelope.at })
            }
            Status::WaitingForInput { approval, code, summary } => {
                let (code, summary) = (code.clone(), summary.clone());
                self.push(envelope, Piece::Asked { code: code.clone(), summary: summary.clone() });
                Change::Asked(Question { approval: *approval, code, summary })
            }
            Status::Error { message, retrying } => self
                .push(envelope, Piece::Trouble { message: message.clone(), retrying: *retrying }),
        }
    }

    fn push(&mut self, envelope: &Envelope, piece: Piece) -> Change {
        self.pieces.push((envelope.id, piece));
        Change::Shown
    }

    fn blocks(&self) -> Vec<Block> {
        blocks::gather(&self.pieces, self.end.as_ref())
    }
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
