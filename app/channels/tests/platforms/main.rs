//! The channels against scripted platforms that speak the real wire, bad days included.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it fails")]

mod signal;
mod support;
mod telegram;
