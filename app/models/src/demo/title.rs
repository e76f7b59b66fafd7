//! Titles of conversations.

use super::{ask, words};
use famulus_core::message::Message;
use std::sync::Arc;

/// Words of a title.
const LENGTH: usize = 4;

/// Whether the system prompt asks for a title instead of an answer.
pub(crate) fn is_asked_for(system: &str) -> bool {
    system.trim_start().to_lowercase().starts_with("make a title")
}

/// The four words of the message that tell most about it, in their order.
pub(crate) fn of(messages: &[Arc<Message>]) -> String {
    let text = ask::last_text(messages);
    let all: Vec<&str> = text
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .collect();
    // The words that lead up to the matter are not the matter.
    let begin = all.iter().position(|word| words::is_telling(word)).unwrap_or(0);
    let matter = all.get(begin..).unwrap_or_default();
    let telling: Vec<&str> =
        matter.iter().copied().filter(|word| words::is_telling(word)).collect();
    let chosen = if telling.len() < LENGTH { matter } else { &telling };
    let title = chosen.iter().copied().take(LENGTH).collect::<Vec<_>>().join(" ");
    let mut chars = title.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => "New conversation".to_owned(),
    }
}
