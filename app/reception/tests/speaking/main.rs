//! Who may speak, in whose name, and what becomes of what they write: cell by cell.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it fails")]

mod configure;
mod desk;
mod managed;
mod messages;
mod presses;
mod table;
