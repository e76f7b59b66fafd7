//! The part of the file system that is left, signals to nobody outside, no new privileges, and a
//! filter of system calls.

use std::io;
use std::path::PathBuf;

use famulus_protocol::{Isolation, Landlock};
use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};
use rustix::io::Errno;
use rustix::process::getppid;

use super::Confinement;
use super::filter::filter;
use super::walls;

/// The newest rules that are asked for. An older kernel enforces what it knows of them.
const WANTED: ABI = ABI::V6;

/// Device files that programs write to everywhere.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What could not be had of that without which no tool runs.
#[derive(Debug, thiserror::Error)]
pub(super) enum Loose {
    #[error("the kernel has no Landlock, and a root of its own could not be made: {0}")]
    Files(io::Error),
    #[error("new privileges could not be forbidden: {0}")]
    Privileges(Errno),
    #[error("system calls could not be filtered: {0}")]
    Calls(io::Error),
}

/// Confines this process and all that come of it, and says how. Set-user-ID programs lose their
/// meaning.
pub(super) fn confine(confinement: &Confinement) -> Result<Isolation, Loose> {
    let landlock = match restrict(confinement) {
        Ok(RulesetStatus::FullyEnforced) => Landlock::Full,
        Ok(RulesetStatus::PartiallyEnforced) => Landlock::Partial,
        Ok(RulesetStatus::NotEnforced) | Err(_) => {
            walls::build(confinement).map_err(Loose::Files)?;
            Landlock::Replaced
        }
    };
    rustix::thread::set_no_new_privs(true).map_err(Loose::Privileges)?;
    let beside = match landlock {
        Landlock::Full | Landlock::Partial => None,
        Landlock::Replaced | Landlock::None => getppid(),
    };
    filter(beside).map_err(Loose::Calls)?;
    Ok(Isolation { landlock, no_new_privileges: true, filtered: true })
}

fn restrict(confinement: &Confinement) -> Result<RulesetStatus, RulesetError> {
    let devices: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(&confinement.read, AccessFs::from_read(WANTED)))?
        .add_rules(path_beneath_rules(&confinement.write, AccessFs::from_all(WANTED)))?
        .add_rules(path_beneath_rules(
            &devices,
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
        ))?
        .restrict_self()?;
    Ok(restricted.ruleset)
}
