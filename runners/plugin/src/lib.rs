//! The runner of one plugin: a tree on disk in the format of the plugin guide.
//!
//! ```text
//! RunCall ─► manifests (checked, named) ─► parameters (checked) ─► scratch, files in
//!                                                                      │
//! Run ◄── outcome ◄── files out ◄── report ◄── supervisor ◄── entrypoint, in the tool's folder
//! ```
//!
//! Refuses to know who may call what, where the plugin came from, and which revision it is: the tree
//! at its path is the plugin, read anew for each call.
//!
//! Invariants: nothing that a plugin wrote is trusted, neither names nor links nor sizes; a message
//! about a manifest names file, key and remedy; no call sees files of another.

mod environment;
mod manifest;
mod outcome;
mod outputs;
mod parameters;
mod plugin;
mod run;
mod scratch;
mod self_test;
pub mod settings;
mod tree;

pub use plugin::Plugin;
