//! An installation on a node of `cargo xtask cluster`, with the internet that stands beside it.

mod git;
