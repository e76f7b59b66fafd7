//! Postgres for the tasks and the benchmarks: fetched where the machine has none, and started on data that
//! may be thrown away.

pub mod scratch;
pub mod tree;
