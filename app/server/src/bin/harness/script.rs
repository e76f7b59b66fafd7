//! What the scripted model says, decided by the messages of the turn alone.
//!
//! ```text
//! msg 17: a b; note; long
//!     │   │    │     └ words that are no tool change how the reply arrives
//!     │   │    └────── the second step
//!     │   └─────────── the calls of the first step
//!     └─────────────── the number by which the tests know the message
//! ```
//!
//! Pure: a model that is asked again after a crash says the same, and a call that is asked for
//! again is recognised by (message, position), whatever key the product gives it.

use famulus_core::message::{Message, MessageRole, Part, PartBody, Sentinel, ToolCall};
use serde_json::json;
use std::{fmt::Write as _, sync::Arc};

/// Pieces of a reply, and of a `long` one.
const PIECES: usize = 8;
const LONG: usize = 60;
/// Characters of each piece of a `book`, which no platform takes in one message.
const PAGE: usize = 120;

/// One reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) pieces: Vec<String>,
    pub(crate) calls: Vec<ToolCall>,
    /// After so many pieces the stream breaks off.
    pub(crate) cut: Option<usize>,
    /// The provider takes a while, and refuses.
    pub(crate) refused: bool,
}

/// A message's script.
#[derive(Debug, PartialEq, Eq)]
struct Script {
    number: u64,
    /// Each call with its position in the script.
    steps: Vec<Vec<(usize, Tool)>>,
    long: bool,
    book: bool,
    cut: bool,
    fails: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    /// Counts; safe to repeat.
    A,
    /// Counts; never repeated.
    B,
    /// Counts; never repeated, and the owner is asked first.
    C,
    /// A tool of a plugin: counts, and is asked after.
    P,
    /// Stores a memory.
    Note,
}

/// What to say next in the latest turn of these messages.
pub(crate) fn reply(messages: &[Arc<Message>]) -> Reply {
    let turn = messages.iter().rev().find_map(|message| message.turn);
    let of_turn = || messages.iter().filter(move |message| message.turn == turn);
    let scripts: Vec<Script> = of_turn()
        .filter(|message| message.role == MessageRole::User)
        .filter_map(|message| Script::parse(&message.text()))
        .collect();
    let done = of_turn().filter(|message| message.calls().next().is_some()).count();
    let steps: Vec<(u64, &Vec<(usize, Tool)>)> = scripts
        .iter()
        .flat_map(|script| script.steps.iter().map(|step| (script.number, step)))
        .collect();
    let long = scripts.iter().any(|script| script.long);
    let cut = scripts.iter().any(|script| script.cut) && !of_turn().any(|m| is_interrupted(m));
    // Each piece of a book names its message.
    let book = scripts.iter().find(|script| script.book).map(|script| script.number);
    let pieces = |heading: &str| {
        let count = if long || book.is_some() { LONG } else { PIECES };
        let mut pieces = vec![format!("{heading}:")];
        pieces.extend((0..count).map(|place| match book {
            Some(number) => format!(" {number}x{place:0>PAGE$}"),
            None => format!(" {place}"),
        }));
        pieces
    };
    let mut numbers = String::new();
    for script in &scripts {
        // Writing to a String cannot fail.
        let _infallible = write!(numbers, " [{}]", script.number);
    }
    let (pieces, calls) = match steps.get(done) {
        Some((number, step)) => (
            pieces(&format!("step {done} of{numbers}")),
            step.iter().map(|(place, tool)| call(*number, *place, *tool)).collect(),
        ),
        None => (pieces(&format!("done{numbers}")), Vec::new()),
    };
    let cut = cut.then_some(pieces.len() / 2);
    let refused = scripts.iter().any(|script| script.fails);
    Reply { pieces, calls, cut, refused }
}

impl Reply {
    /// The reply as it is recorded.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::assistant_text(self.pieces.concat())];
        parts.extend(self.calls.iter().cloned().map(Part::call));
        parts
    }
}

fn is_interrupted(message: &Message) -> bool {
    let mark = PartBody::Sentinel { reason: Sentinel::Interrupted };
    message.parts.iter().any(|part| part.body == mark)
}

fn call(number: u64, place: usize, tool: Tool) -> ToolCall {
    let counted = json!({"n": number, "at": place});
    let (name, arguments) = match tool {
        Tool::A => ("effect_a", counted),
        Tool::B => ("effect_b", counted),
        Tool::C => ("effect_c", counted),
        Tool::P => (
            "run_plugin_tool",
            json!({
                "plugin": "counter",
                "tool": if place.is_multiple_of(2) { "count" } else { "later" },
                "parameters": counted,
            }),
        ),
        Tool::Note => (
            "manage_knowledge",
            json!({
                "action": "upsert",
                "store": "memory",
                "content": format!("note {number}.{place}"),
            }),
        ),
    };
    ToolCall {
        id: format!("call-{number}-{place}"),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    }
}

impl Script {
    /// Finds the script in a message as the model reads it, headings included.
    fn parse(text: &str) -> Option<Self> {
        let (number, rest) = text.lines().find_map(|line| {
            let script = &line[line.find("msg ")? + "msg ".len()..];
            let (number, rest) = script.split_once(':')?;
            Some((number.trim().parse().ok()?, rest))
        })?;
        let mut script =
            Self { number, steps: Vec::new(), long: false, book: false, cut: false, fails: false };
        let mut place = 0;
        for step in rest.split(';') {
            let mut calls = Vec::new();
            for word in step.split_whitespace() {
                let tool = match word {
                    "a" => Tool::A,
                    "b" => Tool::B,
                    "c" => Tool::C,
                    "p" => Tool::P,
                    "note" => Tool::Note,
                    "long" => {
                        script.long = true;
                        continue;
                    }
                    "book" => {
                        script.book = true;
                        continue;
                    }
                    "cut" => {
                        script.cut = true;
                        continue;
                    }
                    "fail" => {
                        script.fails = true;
                        continue;
                    }
                    _ => continue,
                };
                calls.push((place, tool));
                place += 1;
            }
            if !calls.is_empty() {
                script.steps.push(calls);
            }
        }
        Some(script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::ids::{MessageId, TurnId};
    use jiff::Timestamp;

    fn message(turn: TurnId, role: MessageRole, parts: Vec<Part>) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId::new(),
            seq: 1,
            role,
            person: None,
            turn: Some(turn),
            parts,
            blocks: None,
            created_at: Timestamp::UNIX_EPOCH,
        })
    }

    fn user(turn: TurnId, text: &str) -> Arc<Message> {
        message(turn, MessageRole::User, vec![Part::system_text(text)])
    }

    #[test]
    fn a_script_is_found_below_the_heading() {
        let script =
            Script::parse("Time: now\nSource: http\n\nmsg 7: a b; ; note; long cut").unwrap();
        assert_eq!(
            script,
            Script {
                number: 7,
                steps: vec![vec![(0, Tool::A), (1, Tool::B)], vec![(2, Tool::Note)]],
                long: true,
                book: false,
                cut: true,
                fails: false,
            }
        );
        assert_eq!(Script::parse("no script"), None);
    }

    #[test]
    fn the_same_messages_get_the_same_reply() {
        let turn = TurnId::new();
        let mut history = vec![user(turn, "msg 1: a"), user(turn, "msg 2: cut")];
        let first = reply(&history);
        assert_eq!(first, reply(&history));
        assert_eq!(first.calls.len(), 1);
        assert_eq!(first.cut, Some(4));
        let broken = vec![Part::assistant_text("step"), Part::sentinel(Sentinel::Interrupted)];
        history.push(message(turn, MessageRole::Assistant, broken));
        let again = reply(&history);
        assert_eq!(again, Reply { cut: None, ..first });
        history.push(message(turn, MessageRole::Assistant, again.parts()));
        let last = reply(&history);
        assert!(last.calls.is_empty());
        assert!(last.pieces.concat().starts_with("done [1] [2]: 0 1"), "{last:?}");
    }
}
