//! What a runner does to itself before it serves.

use std::io;

use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};

/// The kernel refused to guard the runner.
#[derive(Debug, thiserror::Error)]
#[error(
    "the runner cannot be hidden from its tools; see whether the kernel or a profile forbids prctl"
)]
pub struct HardenError(#[source] io::Error);

/// Hides the memory of this process from others of the same user, and makes it the parent of what
/// a supervisor leaves behind should it die.
pub fn harden() -> Result<(), HardenError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .and_then(|()| set_child_subreaper(Some(getpid())))
        .map_err(|error| HardenError(error.into()))
}
