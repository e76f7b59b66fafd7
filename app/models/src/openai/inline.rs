//! Tool calls that a model wrote into its text, taken out of the stream.
//!
//! Two forms are known, and both may be mixed:
//!
//! ```text
//! <tool_call>{"name": "get_time", "arguments": {"zone": "UTC"}}</tool_call>
//! <tool_call><function=get_time><parameter=zone>UTC</parameter></function></tool_call>
//! ```
//!
//! Models forget the outer tags of the second form, in front, behind, or both.
//!
//! Invariant: what comes out does not depend on how the text was cut. A decision is taken only
//! when no longer text could change it; until then the text is held back. Whatever turns out to
//! be no call is text, tags included.

use super::inline_call::{self, InlineCall, Reading};
use famulus_core::tool::ToolSpec;
use std::sync::Arc;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inline {
    Text(String),
    Call(InlineCall),
}

/// Whose calls are obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptedCalls {
    /// Calls of offered tools; others stay text, so that an answer may show an example.
    Offered,
    /// Every call: the model has no other way to ask, and should learn of its mistakes.
    All,
}

#[derive(Debug)]
pub(crate) struct Extractor {
    tools: Arc<[ToolSpec]>,
    obey: AcceptedCalls,
    held: String,
    /// Bytes at the front of `held` that are known to be text although they look like a tag.
    literal: usize,
    /// Bytes at the front of `held` already searched in vain for the end of the call.
    searched: usize,
    /// A function form has just ended: its closing tag may follow.
    after_function: bool,
}

/// What the front of the held text is.
enum Front {
    /// Text, as many bytes.
    Text(usize),
    /// A call that takes as many bytes.
    Call(InlineCall, usize),
    /// A tag that is only text: as many bytes, to be looked past.
    Literal(usize),
    /// Nothing to show, as many bytes.
    Skip(usize),
    /// More must arrive first.
    Wait,
}

impl Extractor {
    pub(crate) fn new(tools: Arc<[ToolSpec]>, obey: AcceptedCalls) -> Self {
        Self { tools, obey, held: String::new(), literal: 0, searched: 0, after_function: false }
    }

    pub(crate) fn push(&mut self, text: &str) -> Vec<Inline> {
        self.held.push_str(text);
        self.drain(false)
    }

    /// The text has ended: what is held is decided as it stands.
    pub(crate) fn finish(&mut self) -> Vec<Inline> {
        self.drain(true)
    }

    fn drain(&mut self, at_end: bool) -> Vec<Inline> {
        let mut out = Vec::new();
        while !self.held.is_empty() {
            match self.front(at_end) {
                Front::Text(length) => {
                    let text: String = self.held.drain(..length).collect();
                    self.literal = self.literal.saturating_sub(length);
                    match out.last_mut() {
                        Some(Inline::Text(before)) => before.push_str(&text),
                        Some(Inline::Call(_)) | None => out.push(Inline::Text(text)),
                    }
                }
                Front::Call(call, length) => {
                    self.after_function = self.held[..length].ends_with(FUNCTION_END);
                    self.held.drain(..length);
                    self.searched = 0;
                    out.push(Inline::Call(call));
                }
                Front::Literal(length) => {
                    self.literal = length;
                    self.searched = 0;
                }
                Front::Skip(length) => {
                    self.held.drain(..length);
                }
                Front::Wait => break,
            }
        }
        out
    }

    fn front(&mut self, at_end: bool) -> Front {
        if self.after_function {
            match closing(&self.held) {
                Closing::Partly if !at_end => return Front::Wait,
                Closing::Yes(length) => {
                    self.after_function = false;
                    return Front::Skip(length);
                }
                Closing::Partly | Closing::No => self.after_function = false,
            }
        }
        if self.literal > 0 {
            return Front::Text(self.literal);
        }
        if self.held.starts_with(OPEN) {
            return self.call_form(at_end);
        }
        if self.held.starts_with(FUNCTION) {
            return self.function_form(0, at_end);
        }
        let tag = [OPEN, FUNCTION].iter().filter_map(|tag| self.held.find(tag)).min();
        match tag {
            Some(start) => Front::Text(start),
            None if at_end => Front::Text(self.held.len()),
            None => match self.held.len() - tail_that_may_open(&self.held) {
                0 => Front::Wait,
                length => Front::Text(length),
            },
        }
    }

    /// `<tool_call>` stands in front.
    fn call_form(&mut self, at_end: bool) -> Front {
        let body = &self.held[OPEN.len()..];
        let inner = body.trim_start();
        let start = self.held.len() - inner.len();
        if inner.is_empty() || (FUNCTION.starts_with(inner) && inner.len() < FUNCTION.len()) {
            return wait_or(at_end, Front::Literal(OPEN.len()));
        }
        if inner.starts_with(FUNCTION) {
            let front = self.function_form(start, at_end);
            // What stands behind the tag is looked at again for itself.
            let literal = matches!(front, Front::Literal(_));
            return if literal { Front::Literal(OPEN.len()) } else { front };
        }
        if !inner.starts_with('{') {
            return Front::Literal(OPEN.len());
        }
        self.json_form(start, at_end)
    }

    /// JSON begins at `start`. A closing tag may also stand inside one of its strings.
    fn json_form(&mut self, start: usize, at_end: bool) -> Front {
        let mut from = self.searched.max(start);
        while let Some(found) = self.held[from..].find(CLOSE) {
            let end = from + found;
            match inline_call::read_json(&self.held[start..end]) {
                Reading::Whole(call, length) => return self.judge(call, start + length),
                Reading::Unfinished => from = end + CLOSE.len(),
                Reading::Broken(call) => {
                    let length = end + CLOSE.len();
                    return match call {
                        Some(call) if self.obeys(&call.name) => Front::Call(call, length),
                        Some(_) | None => Front::Literal(OPEN.len()),
                    };
                }
            }
        }
        if !at_end {
            self.searched =
                from.max(floor(&self.held, self.held.len().saturating_sub(CLOSE.len())));
            return Front::Wait;
        }
        match inline_call::read_json(&self.held[start..]) {
            Reading::Whole(call, length) => self.judge(call, start + length),
            Reading::Unfinished | Reading::Broken(_) => Front::Literal(OPEN.len()),
        }
    }

    /// `<function=` stands at `start`.
    fn function_form(&mut self, start: usize, at_end: bool) -> Front {
        let literal = Front::Literal(start + FUNCTION.len());
        let head = &self.held[start + FUNCTION.len()..];
        let Some(name) = inline_call::function_name(head) else {
            return literal;
        };
        let Some(name) = name else {
            return wait_or(at_end, literal);
        };
        if !self.obeys(name) {
            return literal;
        }
        let from = self.searched.max(start);
        let Some(found) = self.held[from..].find(FUNCTION_END) else {
            self.searched =
                from.max(floor(&self.held, self.held.len().saturating_sub(FUNCTION_END.len())));
            return wait_or(at_end, literal);
        };
        let end = from + found;
        let call = inline_call::read_function(&self.held[start + FUNCTION.len()..end], &self.tools);
        Front::Call(call, end + FUNCTION_END.len())
    }

    /// A call whose JSON ends at `length`; its closing tag may follow.
    fn judge(&self, call: InlineCall, length: usize) -> Front {
        if !self.obeys(&call.name) {
            return Front::Literal(OPEN.len());
        }
        let rest = &self.held[length..];
        match closing(rest) {
            Closing::Yes(tag) => Front::Call(call, length + tag),
            Closing::Partly | Closing::No => Front::Call(call, length),
        }
    }

    fn obeys(&self, name: &str) -> bool {
        self.obey == AcceptedCalls::All || self.tools.iter().any(|tool| tool.name == name)
    }
}

fn wait_or(at_end: bool, front: Front) -> Front {
    if at_end { front } else { Front::Wait }
}

enum Closing {
    Yes(usize),
    Partly,
    No,
}

/// Whether white space and a closing tag stand in front.
fn closing(text: &str) -> Closing {
    let rest = text.trim_start();
    if rest.starts_with(CLOSE) {
        Closing::Yes(text.len() - rest.len() + CLOSE.len())
    } else if CLOSE.starts_with(rest) {
        Closing::Partly
    } else {
        Closing::No
    }
}

/// Length of the longest end of the text with which a tag may begin.
fn tail_that_may_open(text: &str) -> usize {
    let may_open = |tail: &str| OPEN.starts_with(tail) || FUNCTION.starts_with(tail);
    text.rmatch_indices('<')
        .map(|(at, _)| &text[at..])
        .take_while(|tail| tail.len() < OPEN.len())
        .find(|tail| may_open(tail))
        .map_or(0, str::len)
}

/// The nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}
