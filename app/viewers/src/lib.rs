//! Viewers: who watches what, and how events reach them.
//!
//! ```text
//! a turn here ── publish ──► window ──► viewers of the conversation
//! a turn elsewhere ─► table ── follow ──┘        (one task each: their connection)
//! ```
//!
//! Events of this process are shown before they are stored; those of others are read from the table
//! on a hint, by one query for everything that is watched. Where nobody watches, nothing is asked.
//! A viewer that falls behind reads the table from its own place: it is never sent less, and holds
//! no more.
//!
//! Refuses to know: HTTP, sockets, Postgres. Whoever shows events to somebody takes a [`Viewer`]: the
//! API writes what it gives to a socket.

mod follow;
mod frame;
mod hub;
mod people;
#[cfg(test)]
mod tests;
mod viewer;
mod waiter;
mod window;

pub use frame::Frame;
pub use hub::{Hub, ViewerSlot};
pub use people::PersonViewer;
pub use viewer::Viewer;
pub use waiter::{Progress, Waiter};
