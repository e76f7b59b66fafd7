//! Plugins on one machine: each in a sandbox that `famulus-runner launch` makes.
//!
//! ```text
//! PluginRecord ─► Machine ── Home ──► app/sandbox: calls
//!                    ├─ folders ─► state, kept results, what is mounted, sockets: one set for each plugin
//!                    ├─ steps ───► a sandbox that bundles, one that builds
//!                    ├─ copies ──► what plugins keep, for backups: read in a sandbox, and put back in one
//!                    ├─ cgroups ─► what a sandbox may take of the machine
//!                    ├─ programs ► what its entrypoints begin with is there, or is said to be missing
//!                    └─ runner ──► a sandbox that serves; its end is seen, and told
//! ```
//!
//! Refuses to know where records come from, and what a plugin is about.
//!
//! What holds: nothing of a plugin is executed outside of a sandbox, and nothing at all where none can be
//! made; no sandbox sees a folder or a socket of another plugin; what runs ends with this process, however
//! that ends.

mod cgroups;
mod config;
mod copies;
mod error;
mod folders;
mod home;
mod launcher;
mod lent;
mod machine;
mod mounted;
mod order;
mod packages;
mod plugin;
mod programs;
mod record;
mod runner;
mod steps;
mod table;

pub use copies::{Copies, GivenFiles};
pub use error::{MachineError, StepError};
pub use machine::{Machine, Settings};
pub use packages::Packages;
pub use plugin::LocalPlugin;
pub use programs::Uv;
pub use record::PluginRecord;
pub use runner::LocalRunner;
