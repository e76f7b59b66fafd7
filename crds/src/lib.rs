//! The custom resources of Famulus: what an owner writes into a cluster, and what the operator
//! reports there. App and operator meet here and nowhere else.
//!
//! This crate holds words and pure functions. It knows nothing of ours, talks to no cluster and
//! decides nothing that needs one.
//!
//! What holds:
//!
//! - The cluster refuses what the types cannot mean. The schema bounds every text, list and map,
//!   and its rules name the field, the cause and the remedy.
//! - Reading is tolerant where a newer program may have written: fields that are not known here are
//!   passed over, and conditions are read as texts. Writing is closed: the operator says nothing
//!   that is not in [`plugin::Reason`].
//! - A definition only grows within a version. What an older program wrote stays readable.
//!
//! The comments on fields are documentation for owners: they become the schema, and so what
//! `kubectl explain plugin.spec` prints.
//!
//! A program that uses this crate chooses the version of Kubernetes that it is built for, by a
//! feature of `k8s-openapi`. Tests and examples here choose one for themselves.

pub mod bearer;
mod build_key;
mod definition;
pub mod labels;
pub mod names;
pub mod plugin;

pub use build_key::BuildKey;
pub use definition::definitions;
