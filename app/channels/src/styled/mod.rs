//! Styled text: what chat platforms can show of Markdown, before it is written in a platform's own way.
//!
//! ```text
//! Markdown ─► read ─► runs of one style each ─► split at seams ─► a platform's rendering
//! ```
//!
//! A message is cut here, where every place is between two characters of what is shown, and never in
//! its rendering: so no piece has half an entity, and each opens again what it goes on with.

mod marks;
mod read;
mod split;

pub(crate) use marks::{Mark, Range, marked};
pub(crate) use read::read;
pub(crate) use split::split;

use std::sync::Arc;

/// How some text is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) bold: bool,
    pub(crate) italic: bool,
    pub(crate) strike: bool,
    /// In a line.
    pub(crate) code: bool,
    /// A block of code, in this language, which may be empty.
    pub(crate) block: Option<Arc<str>>,
    pub(crate) quote: bool,
    pub(crate) link: Option<Arc<str>>,
}

/// Text of one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// A text with its styles; no two runs beside each other have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Styled {
    pub(crate) runs: Vec<Run>,
}

impl Styled {
    /// What is shown, without its styles.
    pub(crate) fn text(&self) -> String {
        self.runs.iter().map(|run| run.text.as_str()).collect()
    }

    pub(crate) fn push(&mut self, text: &str, style: &Style) {
        if text.is_empty() {
            return;
        }
        match self.runs.last_mut() {
            Some(last) if last.style == *style => last.text.push_str(text),
            Some(_) | None => {
                self.runs.push(Run { text: text.to_owned(), style: style.clone() });
            }
        }
    }
}
