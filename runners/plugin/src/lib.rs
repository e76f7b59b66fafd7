//! The runner of one plugin: a tree on disk in the format of the plugin guide.
//!
//! ```text
//! RunCall ─► manifests (checked, named) ─► parameters (checked) ─► scratch, files in
//!                                                                      │
//! Run ◄── outcome ◄── files out ◄── report ◄── supervisor ◄── entrypoint, in the tool's folder
//! ```
//!
//! Before calls there are the steps that make a tree: the harness looks at the network, [`bundle`] makes
//! a revision of a source, [`build`] makes a tree of it; and in a cluster [`follow`] keeps the runner
//! with what the operator wants.
//!
//! Refuses to know who may call what, and why a revision is wanted.
//!
//! Invariants: nothing that a plugin wrote is trusted, neither names nor links nor sizes; a message
//! about a manifest names file, key and remedy; no call sees files of another; in a cluster no code
//! of a plugin runs before the network was found closed, unless its owner accepted an open one.

mod beneath;
mod budget;
pub mod build;
pub mod bundle;
mod carry;
pub mod check;
mod config;
pub mod copying;
mod fetch_revision;
pub mod follow;
mod keeping;
mod listen;
mod outcome;
mod own_files;
mod parameters;
mod plugin;
mod readiness;
mod run;
mod self_test;
pub mod settings;
mod switch;
mod volume;

pub use build::lead;
pub use keeping::Keeping;
pub use listen::{is_listened_to, listen};
pub use plugin::Plugin;
