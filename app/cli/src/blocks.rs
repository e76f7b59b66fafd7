//! The events of a turn, gathered into what stands together on a screen.
//!
//! A step's text belongs to the message that is stored when the step is over. Text which a crash
//! cut short is stored as a message of its own; it stays before the text that follows it, with a
//! mark between the two.

use famulus_core::event::{DeltaKind, Envelope, Event, Status};
use famulus_core::ids::MessageId;
use famulus_core::message::MessageRole;
use famulus_core::replay::End;
use jiff::Timestamp;

use crate::clean::{clean, one_line};

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

/// Events that stand together.
#[derive(Debug)]
pub(crate) enum Block {
    Text { text: String, of: MessageRef },
    Reasoning(String),
    Tool { tool: String, began: Timestamp, ended: Option<Timestamp> },
    Note(String),
}

/// The message that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageRef {
    /// It is being written.
    Writing,
    /// It was cut short in the step that is being written.
    Interrupted,
    /// An earlier step's, of which no id was seen.
    Earlier,
    Stored(MessageId),
}

pub(crate) fn gather(events: &[Envelope], end: Option<&End>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for Envelope { event, at, .. } in events {
        match event {
            Event::Delta { kind: DeltaKind::Text, text: more, .. } => match blocks.last_mut() {
                Some(Block::Text { text, of: MessageRef::Writing }) => text.push_str(more),
                _ => blocks.push(Block::Text { text: more.clone(), of: MessageRef::Writing }),
            },
            Event::Delta { kind: DeltaKind::Reasoning, text: more, .. } => {
                match blocks.last_mut() {
                    Some(Block::Reasoning(text)) => text.push_str(more),
                    _ => blocks.push(Block::Reasoning(more.clone())),
                }
            }
            Event::Status { status, .. } => match status {
                Status::ToolRunning { tool, .. } => {
                    // Calls run only once the message that asks for them is stored.
                    close_step(&mut blocks, MessageRef::Earlier);
                    blocks.push(Block::Tool { tool: tool.clone(), began: *at, ended: None });
                }
                // The question itself is put by whoever follows the turn, once.
                Status::WaitingForInput { .. } => close_step(&mut blocks, MessageRef::Earlier),
                Status::Error { message, retrying } => {
                    blocks.push(Block::Note(trouble_line(message, *retrying)));
                }
                Status::Streaming | Status::Idle => {}
            },
            Event::Message { message, role, .. } => match role {
                MessageRole::Assistant => close_step(&mut blocks, MessageRef::Stored(*message)),
                MessageRole::Tool => end_tools(&mut blocks, *at),
                MessageRole::User => {}
            },
            Event::Resumed { .. } => interrupt(&mut blocks),
            Event::Usage { .. } | Event::Complete { .. } | Event::ListChanged { .. } => {}
        }
    }
    if let Some(end) = end {
        reconcile(&mut blocks, end);
    }
    blocks
}

/// The reply of the turn: the stored one where it was seen as such, else all of the last step.
pub(crate) fn reply(blocks: &[Block], end: Option<&End>) -> String {
    let stored = end.map(|end| end.text.as_str()).filter(|text| !text.trim().is_empty());
    let Some(stored) = stored else { return texts(blocks).join("\n") };
    let seen = join(blocks, |block| block.is_of_last(end));
    // What a crash left of the reply goes before the rest of it, which alone is stored as such.
    if letters(&seen).len() > letters(stored).len() { seen } else { stored.to_owned() }
}

pub(crate) fn texts(blocks: &[Block]) -> Vec<String> {
    let mut texts: Vec<(MessageRef, String)> = Vec::new();
    for block in blocks {
        let Block::Text { text, of } = block else { continue };
        match texts.last_mut() {
            Some((last, joined)) if last == of => joined.push_str(text),
            _ => texts.push((*of, text.clone())),
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

pub(crate) fn lines(blocks: &[Block], view: View) -> Vec<Line> {
    let mut lines = Vec::new();
    for block in blocks {
        match block {
            Block::Text { text, .. } => extend(&mut lines, false, text),
            Block::Reasoning(text) if view.reasoning => extend(&mut lines, true, text),
            Block::Tool { tool, began, ended } if view.notes => {
                extend(&mut lines, true, &tool_line(tool, *began, *ended));
            }
            Block::Note(note) if view.notes => extend(&mut lines, true, note),
            Block::Reasoning(_) | Block::Tool { .. } | Block::Note(_) => {}
        }
    }
    lines
}

pub(crate) fn tool_line(tool: &str, began: Timestamp, ended: Option<Timestamp>) -> String {
    let tool = one_line(tool);
    match ended {
        None => format!("· {tool} …"),
        Some(ended) => {
            let seconds = ended.duration_since(began).as_secs_f64().max(0.0);
            format!("· {tool} done, {seconds:.1} s")
        }
    }
}

pub(crate) fn trouble_line(message: &str, retrying: bool) -> String {
    let message = one_line(message);
    if retrying { format!("· {message}; trying again") } else { format!("· {message}") }
}

/// The text of the step that is over belongs to that message.
fn close_step(blocks: &mut [Block], owner: MessageRef) {
    for block in blocks {
        if let Block::Text { of: of @ (MessageRef::Writing | MessageRef::Interrupted), .. } = block
        {
            *of = owner;
        }
    }
}

fn end_tools(blocks: &mut [Block], at: Timestamp) {
    for block in blocks {
        if let Block::Tool { ended: ended @ None, .. } = block {
            *ended = Some(at);
        }
    }
}

fn interrupt(blocks: &mut Vec<Block>) {
    let mut cut = false;
    for block in blocks.iter_mut() {
        if let Block::Text { of: of @ MessageRef::Writing, .. } = block {
            *of = MessageRef::Interrupted;
            cut = true;
        }
    }
    if cut {
        blocks.push(Block::Note("· interrupted; it goes on".to_owned()));
    }
}

/// Where the end of what was seen is not the reply that the server stored, the stored one takes
/// the place of the last message: some of the stream may never have reached this viewer.
fn reconcile(blocks: &mut Vec<Block>, end: &End) {
    let wanted = letters(&end.text);
    let seen = join(blocks, |block| block.is_of_last(Some(end)));
    let all = join(blocks, |_| true);
    if letters(&seen).ends_with(&wanted) || letters(&all) == wanted {
        return;
    }
    blocks.retain(|block| !block.is_of_last(Some(end)) || block.is_interrupted());
    let of = end.message.map_or(MessageRef::Writing, MessageRef::Stored);
    blocks.push(Block::Text { text: end.text.clone(), of });
}

fn join(blocks: &[Block], which: impl Fn(&Block) -> bool) -> String {
    let text = |block: &Block| match block {
        Block::Text { text, .. } => Some(text.clone()),
        Block::Reasoning(_) | Block::Tool { .. } | Block::Note(_) => None,
    };
    blocks.iter().filter(|block| which(block)).filter_map(text).collect()
}

impl Block {
    /// Text of the last step: of the message that ended the turn, or of none that was stored.
    fn is_of_last(&self, end: Option<&End>) -> bool {
        match self {
            Self::Text { of: MessageRef::Writing | MessageRef::Interrupted, .. } => true,
            Self::Text { of: MessageRef::Stored(message), .. } => {
                end.is_some_and(|end| end.message == Some(*message))
            }
            Self::Text { of: MessageRef::Earlier, .. }
            | Self::Reasoning(_)
            | Self::Tool { .. }
            | Self::Note(_) => false,
        }
    }

    fn is_interrupted(&self) -> bool {
        matches!(self, Self::Text { of: MessageRef::Interrupted, .. })
    }
}

/// The text without its white space, which stores and providers trim differently.
fn letters(text: &str) -> String {
    text.split_whitespace().collect()
}

fn extend(lines: &mut Vec<Line>, dim: bool, text: &str) {
    let safe = clean(text);
    let body = safe.trim_start_matches('\n').trim_end();
    if !body.trim().is_empty() {
        lines.extend(body.split('\n').map(|line| Line { dim, text: line.to_owned() }));
    }
}
