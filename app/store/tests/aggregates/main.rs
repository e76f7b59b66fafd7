//! What the store keeps of people, conversations, knowledge, schedules, files and deliveries,
//! against a real Postgres.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it fails")]

#[path = "../support/mod.rs"]
mod support;

mod accept;
mod blobs;
mod delivery;
mod hints;
mod isolation;
mod knowledge;
mod lock_order;
mod people;
mod retention;
mod schedules;
mod sweep;
mod talk;
mod views;
mod worker;
