//! Sandboxes of one machine: a process in namespaces of its own, with a root that holds the system's
//! programs and what it was given, and nothing else.
//!
//! ```text
//! launch (outside) ─► user namespace, if it is no root ─► mount, pid, network, ipc, uts, cgroup
//!      │ ends with who started it, and with it all                      │
//!      ├─► network (outside, without files or rights) ◄─────────────────┼─ an interface, if it has one
//!      └─► enter (inside, the first process) ─► new root ─► links ─► user, no capabilities
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

use famulus_protocol::launch::{LAUNCH, Launch, NOT_LAUNCHED};

pub use error::LaunchError;

/// The first words of the process inside, and of the one that serves its network.
const ENTER: &str = "enter";
const NETWORK: &str = "network";

/// What the launcher is asked by its arguments.
pub struct Asked {
    order: OsString,
    to: To,
}

enum To {
    Launch,
    /// With the namespaces that the process inside must not be in.
    Enter(OsString),
    Network,
}

impl Asked {
    /// `None`: the arguments are for somebody else.
    pub fn of(arguments: &[OsString]) -> Option<Self> {
        match arguments {
            [word, order] if word == LAUNCH => Some(Self { order: order.clone(), to: To::Launch }),
            [word, order] if word == NETWORK => {
                Some(Self { order: order.clone(), to: To::Network })
            }
            [word, order, outside] if word == ENTER => {
                Some(Self { order: order.clone(), to: To::Enter(outside.clone()) })
            }
            _ => None,
        }
    }

    /// Launches, in a process that has one thread. Returns when the sandbox has ended, with the code of its
    /// program, or when there was none.
    pub fn run(self) -> ExitCode {
        let done = self.order().and_then(|order| match &self.to {
            To::Enter(outside) => {
                let outside = outside.to_str().unwrap_or_default();
                inside::enter(&order, outside).map(|never| match never {})
            }
            To::Network => network::serve(&order).map(|()| ExitCode::SUCCESS),
            To::Launch => outside::launch(&order, &self.order),
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

    fn order(&self) -> Result<Launch, LaunchError> {
        let text = self.order.to_str().unwrap_or_default();
        serde_json::from_str(text).map_err(LaunchError::Order)
    }
}
