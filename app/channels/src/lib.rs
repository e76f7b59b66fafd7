//! Chat channels: one folder per channel, between its wire format and core's words.
//!
//! A channel's wire format never leaves its folder. Refuses to know: Postgres, the queue, models,
//! and who may do what; a caller arrives authenticated.

pub mod http;
mod pieces;
mod redact;
mod rules;
pub mod signal;
mod styled;
pub mod telegram;

pub use rules::{OwnerActs, Rules};

// What the document of the architecture shows is a channel that works: this one, which no program has.
#[cfg(test)]
#[expect(unreachable_pub, reason = "it stands as it would in a program")]
mod lines;

/// What a reader sees of Markdown on a channel that has no styles.
pub fn shown(markdown: &str) -> String {
    styled::read(markdown).text()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_channel_of_the_document_is_one() {
        let shown = include_str!("lines/mod.rs");
        let document = include_str!("../../../docs/ARCHITECTURE.md");
        assert!(document.contains(&format!("```rust\n{shown}```\n")), "show this:\n{shown}");
    }
}
