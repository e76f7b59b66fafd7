//! The channel against a scripted Telegram that speaks the real wire, bad days included.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it fails")]

mod answers;
mod bench;
mod hearing;
mod rendering;
mod sending;
