//! Parts of an installation die under load on a node of `cargo xtask cluster`, and come back: what was
//! asked is answered once, what ran ran once, and what came late came once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test's tasks end with it, and it tells what it counted"
)]

mod chats;
mod deaths;
mod ledger;
mod load;
mod managed;
mod order;
