//! Sandboxes of one machine: what is in them, what is not, and how they end. Each is tried as root makes it
//! and, where the tests are root's, as an ordinary user does.

#![expect(clippy::unwrap_used, reason = "a test that goes wrong may end at once")]

mod bench;
mod ends;
mod internet;
mod lacking;
mod reach;
mod serves;
mod view;
#[path = "../world/mod.rs"]
mod world;
