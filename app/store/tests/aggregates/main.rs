//! What the store keeps of people, conversations, knowledge, schedules, files and deliveries,
//! against a real Postgres; and that one which is too old is refused.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it fails")]

#[path = "../support/mod.rs"]
mod support;

mod accept;
mod blobs;
mod change;
mod channels;
mod delivery;
mod expiry;
mod forgotten;
mod heard;
mod hints;
mod isolation;
mod knowledge;
mod late_events;
mod letters;
mod lock_order;
mod long_turn;
mod old_server;
mod people;
mod plans;
mod plugin_rows;
mod plugins;
mod retention;
mod schedules;
mod sound;
mod starts;
mod stream_start;
mod sweep;
mod talk;
mod together;
mod unread;
mod vanishing;
mod views;
mod worker;
