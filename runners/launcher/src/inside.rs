//! The first process inside: makes the sandbox around itself, looks at it, and becomes the program.

use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use famulus_protocol::launch::{Launch, LaunchLimits, LaunchNetwork};
use famulus_runner_harness::namespaces::leave;
use famulus_runner_harness::supervisor::close_on_exec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, chdir, set_parent_process_death_signal, setsid, umask};
use rustix::system::sethostname;
use rustix::thread::UnshareFlags;

use crate::error::LaunchError;
use crate::{groups, interface, links, privileges, proof, root};

/// The name of every sandbox's machine.
const HOST: &[u8] = b"sandbox";

/// Becomes the program. `outside` are the namespaces that must be left.
pub(crate) fn enter(
    order: &Launch,
    limits: &LaunchLimits,
    outside: &str,
) -> Result<Infallible, LaunchError> {
    end_with_the_launcher()?;
    groups::enter(limits)?;
    // Behind the groups: from within such a namespace nobody enters what lies outside of it.
    leave(UnshareFlags::NEWCGROUP).map_err(LaunchError::Namespaces)?;
    // Nothing of the terminal is left to a sandbox.
    setsid().map_err(LaunchError::privileges("a session of its own"))?;
    let outward = match order.network {
        LaunchNetwork::None => None,
        LaunchNetwork::Internet { .. } => Some(interface::open()?),
    };
    root::build(order, limits)?;
    sethostname(HOST).map_err(LaunchError::privileges("a name of its own"))?;
    links::loopback().map_err(LaunchError::Network)?;
    if let Some(outward) = outward {
        // Who serves it holds the other end.
        interface::join(outward, io::stdin())?;
    }
    close_on_exec()
        .map_err(|source| LaunchError::Privileges { what: "open descriptors", source })?;
    privileges::give_up(order.user)?;
    // The kernel forgets it when somebody becomes another.
    end_with_the_launcher()?;
    proof::look(order, outside)?;
    umask(rustix::fs::Mode::from_raw_mode(0o077));
    Err(become_program(order))
}

/// The kernel kills this process, and with it all in the sandbox, when the launcher is gone.
pub(crate) fn end_with_the_launcher() -> Result<(), LaunchError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(LaunchError::privileges("an end with the launcher"))?;
    // It may have gone before: then nobody holds the other end.
    let stdin = io::stdin();
    let mut held = [PollFd::new(&stdin, PollFlags::IN)];
    let polled = poll(&mut held, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.map_err(|error| LaunchError::Process(error.into()))?;
    if held[0].revents().contains(PollFlags::HUP) { Err(LaunchError::Alone) } else { Ok(()) }
}

fn become_program(order: &Launch) -> LaunchError {
    let Some((program, arguments)) = order.command.split_first() else {
        return LaunchError::Wrong("it names no program".to_owned());
    };
    let failed = |source| LaunchError::Program { program: program.clone(), source };
    if let Err(error) = chdir("/") {
        return failed(error.into());
    }
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&order.variables).stdin(Stdio::null());
    failed(command.exec())
}
