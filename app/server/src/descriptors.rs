//! Open files and sockets: as many as the system lets this process have.
//!
//! A shell's default is often 1,024, which would be the number of viewers, whatever
//! `api.connection_limit` says.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process to what it may raise it to.
pub fn allow_all() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(?current, ?maximum, "the limit of open files was raised"),
        Err(error) => {
            tracing::warn!(%error, ?current, "the limit of open files could not be raised");
        }
    }
}
