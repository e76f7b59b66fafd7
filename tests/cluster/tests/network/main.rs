//! What Pods of the sandbox reach, and what comes of it when policies change, fail or are gone. It needs
//! the node, for it listens there and in the internet beside it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(clippy::print_stdout, reason = "how long things take is told, too")]
#![expect(clippy::disallowed_methods, reason = "what a test starts beside itself ends with it")]

mod bearer;
mod changes;
mod crowd;
mod egress;
mod fresh;
mod names;
mod opened;
mod outside;
mod places;
mod rows;
mod table;
