//! Chat channels: one folder per channel, between its wire format and core's words.
//!
//! A channel's wire format never leaves its folder. Refuses to know: Postgres, the queue, models,
//! and who may do what; a caller arrives authenticated.

pub mod http;
mod styled;
pub mod telegram;

/// What a reader sees of Markdown on a channel that has no styles.
pub fn shown(markdown: &str) -> String {
    styled::read(markdown).text()
}
