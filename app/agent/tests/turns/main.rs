//! Whole turns under a clock that the tests hold.
#![expect(clippy::expect_used, reason = "a test's helpers fail the test")]

mod desk;
mod listening;
mod outage;
mod peer;
mod record;
mod side_by_side;
mod silence;
mod taken_back;
mod title;
