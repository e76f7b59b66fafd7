//! Named, supervised background tasks and an orderly end.
//!
//! Every task of the program is started through [`Tasks`] with a name and an [`OnExit`]: what its
//! death means for the rest. The end has two parts: [`Tasks::shutdown`] tells everybody through
//! one token, and [`Tasks::drain`] waits under a deadline, then aborts whoever is left and names
//! them.
//!
//! ```text
//! signal ──► shutdown() ──► token cancelled ──► tasks finish ──► drain() ──► Drained
//!                 ▲                                   │
//!                 └── a ShutDown task ended early     └─ deadline: abort, name the stragglers
//! ```
//!
//! What a process took in a burst of work it gives back once it is quiet: [`memory`].
//!
//! The crate refuses to know what the tasks do, what a deadline should be, or how a process
//! reports its exit.
//!
//! Invariants: no task without a name; no panic is swallowed; a task that may not end early takes
//! the process down in order when it does; nothing is restarted once the shutdown has begun.

mod end;
pub mod memory;
mod restart;
mod signals;
mod tasks;

/// Boxes the future of an `async fn` that other crates await.
///
/// What an `async fn` does is compiled where its future is polled: in each crate that awaits it, with all
/// that it awaits itself, down to the database. Boxed, it is compiled once, in its own crate. That costs an
/// allocation a call, so it is not for what is awaited per event or byte.
pub use async_recursion::async_recursion as boxed;
pub use signals::{Signal, Signals};
pub use tasks::{Drained, OnExit, Tasks};
