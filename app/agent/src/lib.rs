//! The turn loop: a pure machine that decides, and a driver that carries out.
//!
//! [`step::step`] knows what a turn has done and says what comes next; it does no IO and holds no
//! clock. [`driver::Driver`] executes its actions through core's ports and feeds back what happened.
//! Neither knows Postgres, HTTP, a provider's wire format or a channel.
//!
//! ```text
//!   record ─► Begin ─► step ─► Ask ─────► model ───► Replied ─┐
//!                       ▲      Record ──► record              │
//!                       │      Run ─────► tools ───► Results ─┤
//!                       │      Park ────► (gives up the worker)
//!                       │      Finish ──► record, reply       │
//!                       └─────────────────────────────────────┘
//! ```
//!
//! Invariants: a reply's calls are recorded before the first of them is sent; a call that may not
//! be repeated is marked as sent before it is; what viewers saw is stored before the record moves
//! past it; a worker that lost its lease stops without writing.

mod ask;
mod calls;
mod drive;
pub mod driver;
mod finish;
mod hear;
pub mod live;
pub mod normalise;
mod patience;
pub mod prompt;
pub mod repeats;
mod resume;
mod run;
pub mod step;
mod stream;
mod title;

pub use ask::Timeouts;
pub use driver::{Channels, DriveError, Driven, Driver, Limits};
pub use live::LiveTurns;
pub use prompt::Budget;
