//! What a plugin is before anything of it runs: its files, its manifests, and what they say.
//!
//! [`archive`] makes a reproducible tar of files, and files of a tar; [`manifest`] checks what stands in
//! `manifest.json`; [`describe`] says what a tree is, or all that is wrong with it.
//!
//! Refuses to know where files come from, who runs them and what for.
//!
//! Invariants: nothing that a plugin wrote is trusted, neither names nor links nor sizes, and nothing
//! outside its folder is read or written; the same files have the same digest on every machine; a
//! message about a manifest names file, key and remedy.

pub mod archive;
mod contents;
mod describe;
pub mod manifest;
mod tree;

pub use contents::BLOCK;
pub use describe::{DescribeError, describe};
pub use tree::{Tree, executable};
