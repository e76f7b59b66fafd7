//! What the daemon of a channel keeps in a folder beside it, for backups: given whole, and taken back where there
//! is no account.
//!
//! ```text
//! backup  ─► GET ─► everybody beside stands still ─► copied ─► they go on ─► the copy, as a tar
//! restore ─► PUT ─► everybody beside stands still ─► no account? ─► written ─► they are killed, to begin anew
//! ```
//!
//! It runs in the Pod of the daemon, and sees its processes. A database that was copied while nobody wrote is as
//! after a loss of power, and daemons outlive that.

mod client;
mod copy;
mod layout;
mod serve;
mod still;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientError, Pieces, Taken};
pub use layout::{LAYOUTS, Layout};
pub use serve::{Holder, Others};
pub use still::of_the_pod;

/// The one thing there is to ask for.
const PATH: &str = "/v1/files";
/// Names what is given back, so that who asks again is not told of an account that came from there.
const ONCE: &str = "idempotency-key";
