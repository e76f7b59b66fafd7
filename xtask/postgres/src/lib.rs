//! Postgres for the tasks and the benchmarks: fetched where the machine has none, and started on data that
//! may be thrown away.

#![expect(clippy::print_stderr, reason = "a command line tool talks to its terminal")]

pub mod scratch;
pub mod tree;
