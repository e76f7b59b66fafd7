//! Plugins of different make, and the life that each of them leads: installed, permitted, configured, called,
//! updated, rolled back, removed. One of which this is said in a conversation. And one that tries to get out.
//!
//! ```text
//! docs/PLUGINS.md ─► written ─► guide ─┐
//! plugins/NAME ─────────────► plugin ──┴─► life ── Home ─► famulus up, or a cluster
//!                                 talk ─────┤               │ fetches
//!                                           └─► outside: repositories, packages
//! ```
//!
//! Whatever home a plugin has, it is asked the same things and has to answer the same. Refuses to know what a home
//! is made of: what differs is behind [`Home`].

#![expect(clippy::unwrap_used, reason = "what a test reads is there, or the test fails")]

pub mod escape;
mod guide;
mod home;
mod life;
mod outcome;
mod outside;
mod plugin;
mod source;
mod talk;
pub mod written;

pub use home::{Home, Method};
pub use life::{LifeError, all_live, lives, some_live};
pub use outside::{Outside, Served, ToldBy};
pub use plugin::{Answer, Call, File, Plugin, Step, Uses, all};
pub use source::SourceKind;
pub use talk::is_talked_through;
