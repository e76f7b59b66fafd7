//! Reception: what receiving a message means, whatever door it comes through.
//!
//! ```text
//! HTTP, a channel ─► receive: a command? obeyed ─► files become blobs ─► accepted, once ─► viewers told
//! ```
//!
//! A door reads its wire, knows who is asking, and words the answers. Everything between stands here, so
//! that every door does the same. Refuses to know: HTTP, channels, Postgres, models.

mod arrive;
mod commands;
mod configure;
mod error;
mod fetch;
mod files;
mod receive;
mod words;

pub use arrive::{Arrivals, ArriveError, Arrived, Door};
pub use commands::Outcome;
pub use error::ReceiveError;
pub use files::{File, media_type};
pub use receive::{Desk, Received, Reception, STEERED};
