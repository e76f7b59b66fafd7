//! The definition of Plugin, as a cluster sees it: its schema, its rules, its samples.
//!
//! The rules are tried out here without a cluster, in `judge.rs`. Whether an API server takes them,
//! and what it estimates them to cost, is for the tests that have one.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod fresh;
mod judge;
mod rules;
mod samples;
mod schema;
