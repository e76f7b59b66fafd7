//! Tools: what the model may call, what policy says of each call, and the one door through which
//! calls run.
//!
//! Refuses to know: the turn loop, models, Postgres. A tool reaches the world through the ports of
//! `famulus_core` alone.
//!
//! ```text
//!              ┌ arguments (JSON, schema) ┐
//! ToolCall ──► │ grants                   │ ──► plan: allow | ask | refuse      (pure)
//!              └ policy line              ┘ ──► call: time limit, cancel, panic ──► tool ──► cap
//! ```
//!
//! Invariants:
//! - What an agent's filtered catalogue does not show, dispatch does not run: both read the same
//!   grants, and a tool that is not granted is unknown.
//! - `plan` depends on the call and the grants alone, so that a resumed turn plans alike.
//! - A call always ends in an output: a panic, a time limit or a cancelled turn is one too, and
//!   what may have happened nonetheless is said to be unknown.
//! - Every tool has a policy line for every action; the catalogue refuses one that has not.
//!
//! # Adding a tool
//!
//! 1. One new file, `builtin/<name>.rs`, with a type that implements [`Tool`].
//! 2. One line in the list of `builtin/mod.rs`.
//!
//! The tests over the whole catalogue (policy, schema, size) cover it from then on.

mod arguments;
mod builtin;
mod catalogue;
mod dispatch;
mod earlier;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
#[cfg(test)]
mod fixture;
mod moment;
mod output;
mod paging;
mod plugins;
mod schema;
mod strict_json;
mod tool;

pub use builtin::Ports;
pub use catalogue::{Catalogue, CatalogueError};
pub use output::LONGEST_OUTPUT;
pub use plugins::PluginPorts;
pub use schema::schema_of;
pub use tool::{DEFAULT_TIMEOUT, Policy, Tool, ToolError, json, typed};
