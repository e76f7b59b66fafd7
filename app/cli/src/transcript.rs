//! What a viewer of one turn is shown.
//!
//! ```text
//! envelope ──apply──► events that hold ──► lines, notes, reply
//! ```
//!
//! Knows nothing of streams, terminals or time, and leaves to [`Replay`] which events hold.
//! Invariant: once the turn has ended, the reply is what the server says that it is.

use famulus_core::event::{DeltaKind, Envelope, Event, EventId, Status};
use famulus_core::ids::{ApprovalId, TurnId};
use famulus_core::message::MessageRole;
use famulus_core::model::Usage;
use famulus_core::replay::{End, Replay};
use jiff::Timestamp;

use crate::blocks::{self, Block, Line, View, tool_line, trouble_line};
use crate::clean::one_line;

/// One turn, seen from outside.
#[derive(Debug)]
pub(crate) struct Transcript(Replay);

/// What an event changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that is shown.
    Nothing,
    /// What is shown grew, or was cut back.
    Shown,
    /// The turn waits for an answer.
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

impl Transcript {
    /// A turn of which nothing has been seen; events up to and with `position` are known already.
    pub(crate) fn new(turn: TurnId, position: EventId) -> Self {
        Self(Replay::new(turn, position))
    }

    pub(crate) fn turn(&self) -> TurnId {
        self.0.turn()
    }

    /// The id of the last event: what to ask the server to go on from.
    pub(crate) fn position(&self) -> EventId {
        self.0.position()
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        self.0.usage()
    }

    pub(crate) fn end(&self) -> Option<&End> {
        self.0.end()
    }

    /// Takes in one event of the conversation.
    pub(crate) fn apply(&mut self, envelope: &Envelope) -> Change {
        if self.0.apply(envelope.clone()) { Change::of(&envelope.event) } else { Change::Nothing }
    }

    /// An event of a kind that this version does not know: only its place counts.
    pub(crate) fn skip(&mut self, id: EventId) {
        self.0.skip(id);
    }

    /// Forgets everything: the server keeps too little to go on from where this viewer was.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }

    /// The turn is over, as learned from the stream or by asking.
    pub(crate) fn finish(&mut self, end: End) {
        self.0.finish(end);
    }

    /// What a program wants of the turn: the reply and nothing else.
    pub(crate) fn reply(&self) -> String {
        blocks::reply(&self.blocks(), self.end())
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
        for envelope in self.0.events() {
            if let Event::Delta { kind: DeltaKind::Reasoning, text, .. } = &envelope.event {
                thought.push_str(text);
                continue;
            }
            if view.reasoning && !thought.trim().is_empty() {
                notes.extend(thought.trim().lines().map(one_line));
            }
            thought.clear();
            match &envelope.event {
                Event::Status { status: Status::ToolRunning { tool, .. }, .. } => {
                    running.push((tool, envelope.at));
                    notes.push(tool_line(tool, envelope.at, None));
                }
                Event::Message { role: MessageRole::Tool, .. } => {
                    let ended = Some(envelope.at);
                    notes.extend(
                        running.drain(..).map(|(tool, began)| tool_line(tool, began, ended)),
                    );
                }
                Event::Status { status: Status::Error { message, retrying }, .. } => {
                    notes.push(trouble_line(message, *retrying));
                }
                Event::Delta { .. }
                // Whoever follows the turn is asked by itself, once.
                | Event::Status {
                    status: Status::Streaming | Status::Idle | Status::WaitingForInput { .. },
                    ..
                }
                | Event::Usage { .. }
                | Event::Resumed { .. }
                | Event::Message { role: MessageRole::User | MessageRole::Assistant, .. }
                | Event::Complete { .. }
                | Event::ListChanged { .. } => {}
            }
        }
        notes
    }

    fn blocks(&self) -> Vec<Block> {
        blocks::gather(self.0.events(), self.end())
    }
}

impl Change {
    fn of(event: &Event) -> Self {
        match event {
            Event::Delta { .. } | Event::Resumed { .. } | Event::Message { .. } => Self::Shown,
            Event::Status { status, .. } => match status {
                Status::Streaming | Status::Idle => Self::Nothing,
                Status::ToolRunning { .. } | Status::Error { .. } => Self::Shown,
                Status::WaitingForInput { approval, code, summary } => {
                    let (code, summary) = (code.clone(), summary.clone());
                    Self::Asked(Question { approval: *approval, code, summary })
                }
            },
            Event::Complete { .. } => Self::Ended,
            Event::Usage { .. } | Event::ListChanged { .. } => Self::Nothing,
        }
    }
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
