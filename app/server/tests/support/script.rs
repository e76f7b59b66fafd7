//! Messages as the scripted model understands them, and what each of them makes happen.

use std::fmt::Write as _;
use uuid::Uuid;

/// A call that a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Counts; may be repeated under its key.
    A,
    /// Counts; never repeated.
    B,
    /// Counts; never repeated, and only after a yes.
    C,
    /// A tool of a plugin: counts; never repeated, and asked after.
    P,
    /// Stores a memory.
    Note,
}

impl Word {
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::A => "effect_a",
            Self::B => "effect_b",
            Self::C => "effect_c",
            Self::P => "run_plugin_tool",
            Self::Note => "manage_knowledge",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::P => "p",
            Self::Note => "note",
        }
    }
}

/// What a message asks for, step by step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Vec<Word>>,
    /// Each reply streams for longer.
    pub(crate) long: bool,
    /// The reply is longer than any platform takes in one message.
    pub(crate) book: bool,
    /// The first stream breaks off in the middle.
    pub(crate) cut: bool,
    /// The provider refuses to answer, and the turn fails.
    pub(crate) fails: bool,
    /// What the owner answers when asked. The model does not read it.
    pub(crate) denied: bool,
    /// The owner does not answer.
    pub(crate) ignored: bool,
    /// It comes with this file.
    pub(crate) file: Option<Uuid>,
}

impl Script {
    pub(crate) fn new(steps: &[&[Word]]) -> Self {
        Self { steps: steps.iter().map(|step| step.to_vec()).collect(), ..Self::default() }
    }

    pub(crate) fn long(self) -> Self {
        Self { long: true, ..self }
    }

    /// The message as it is sent.
    pub(crate) fn text(&self, number: u64) -> String {
        let mut text = format!("msg {number}:");
        for (place, step) in self.steps.iter().enumerate() {
            text.push_str(if place == 0 { "" } else { ";" });
            for word in step {
                // Writing to a String cannot fail.
                let _infallible = write!(text, " {}", word.text());
            }
        }
        let words =
            [(self.long, " long"), (self.book, " book"), (self.cut, " cut"), (self.fails, " fail")];
        for (is, word) in words {
            text.push_str(if is { word } else { "" });
        }
        text
    }

    /// Every call with its position, by which it is known everywhere.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (usize, Word)> {
        self.steps.iter().flatten().copied().enumerate()
    }

    pub(crate) fn asks(&self) -> bool {
        self.calls().any(|(_, word)| word == Word::C)
    }
}
