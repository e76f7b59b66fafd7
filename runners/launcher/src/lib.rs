//! Sandboxes of one machine: a process in namespaces of its own, with a root that holds the system's
//! programs and what it was given, and nothing else.
//!
//! ```text
//! launch (outside) ─► user namespace, if it is no root ─► control groups ─► mount, pid, network, ipc, uts
//!      │ ends with who started it, and with it all                      │
//!      ├─► network (outside, without files or rights) ◄─────────────────┼─ an interface, if it has one
//!      └─► enter (inside, the first process) ─► control groups ─► new root ─► links ─► user, no capabilities
//!                                                                ─► looked at ─► the program
//! ```
//!
//! Refuses to know what the program is and what it is for.
//!
//! Invariants: nothing is executed in a sandbox of which a part is missing: whatever cannot be made, or is
//! not found as it was to be, ends it and is named, with the remedy where the machine refuses namespaces. No process of a sandbox outlives
//! who started it. What it was not given it cannot name: no socket, no file and no process of the host.

mod error;
mod etc;
mod groups;
mod inside;
mod interface;
mod links;
mod network;
mod outside;
mod privileges;
mod proof;
mod root;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use famulus_protocol::launch::{LAUNCH, Launch, LaunchLimits, NOT_LAUNCHED};

pub use error::LaunchError;

/// The first words of the process inside, and of the one that serves its network.
const ENTER: &str = "enter";
const NETWORK: &str = "network";

/// What the launcher is asked by its arguments.
pub struct Asked {
    order: OsString,
    /// [`LaunchLimits`], as JSON.
    limits: OsString,
    to: To,
}

/// No limits, as JSON.
const UNLIMITED: &str = "{}";

enum To {
    Launch,
    /// With the namespaces that the process inside must not be in.
    Enter(OsString),
    Network,
}

impl Asked {
    /// `None`: the arguments are for somebody else.
    pub fn of(arguments: &[OsString]) -> Option<Self> {
        let [word, order, rest @ ..] = arguments else { return None };
        let (limits, to) = match rest {
            [] if word == LAUNCH => (UNLIMITED.into(), To::Launch),
            [limits] if word == LAUNCH => (limits.clone(), To::Launch),
            [limits] if word == NETWORK => (limits.clone(), To::Network),
            [limits, outside] if word == ENTER => (limits.clone(), To::Enter(outside.clone())),
            _ => return None,
        };
        Some(Self { order: order.clone(), limits, to })
    }

    /// Launches, in a process that has one thread. Returns when the sandbox has ended, with the code of its
    /// program, or when there was none.
    pub fn run(self) -> ExitCode {
        let done = self.read().and_then(|(order, limits)| match &self.to {
            To::Enter(outside) => {
                let outside = outside.to_str().unwrap_or_default();
                inside::enter(&order, &limits, outside).map(|never| match never {})
            }
            To::Network => network::serve(&order, &limits).map(|()| ExitCode::SUCCESS),
            To::Launch => outside::launch(&order, &limits, [&self.order, &self.limits]),
        });
        match done {
            Ok(code) => code,
            Err(error) => {
                // Nobody is left to tell when standard error is gone.
                let _gone = writeln!(io::stderr(), "famulus-runner: {error}");
                ExitCode::from(NOT_LAUNCHED)
            }
        }
    }

    fn read(&self) -> Result<(Launch, LaunchLimits), LaunchError> {
        let order = self.order.to_str().unwrap_or_default();
        let limits = self.limits.to_str().unwrap_or_default();
        let order = serde_json::from_str(order).map_err(LaunchError::Order)?;
        Ok((order, serde_json::from_str(limits).map_err(LaunchError::Order)?))
    }
}
