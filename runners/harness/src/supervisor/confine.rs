//! The part of the file system that is left, signals to nobody outside, no new privileges, and a
//! filter of system calls.

use std::path::PathBuf;

use famulus_protocol::{Isolation, Landlock};
use landlock::{
    ABI, Access, AccessFs, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::getppid;

use super::Confinement;
use super::filter::filter;
use super::walls;

/// The newest rules that are asked for. An older kernel enforces what it knows of them.
const WANTED: ABI = ABI::V6;

/// Device files that programs write to everywhere.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Confines this process and all that come of it, as far as the kernel can, and says how far that
/// is. Set-user-ID programs lose their meaning in any case.
pub(super) fn confine(confinement: &Confinement) -> Isolation {
    let landlock = match restrict(confinement) {
        Ok(status) => match status.ruleset {
            RulesetStatus::FullyEnforced => Landlock::Full,
            RulesetStatus::PartiallyEnforced => Landlock::Partial,
            RulesetStatus::NotEnforced => without(confinement),
        },
        Err(_refused) => without(confinement),
    };
    let no_new_privileges = rustix::thread::set_no_new_privs(true).is_ok();
    let beside = match landlock {
        Landlock::Full | Landlock::Partial => None,
        Landlock::Replaced | Landlock::None => getppid(),
    };
    let filtered = no_new_privileges && filter(beside).is_ok();
    Isolation { landlock, no_new_privileges, filtered }
}

/// What stands for it where the kernel has none.
fn without(confinement: &Confinement) -> Landlock {
    match walls::build(confinement) {
        Ok(()) => Landlock::Replaced,
        Err(_refused) => Landlock::None,
    }
}

fn restrict(confinement: &Confinement) -> Result<RestrictionStatus, RulesetError> {
    let devices: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    Ruleset::default()
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(&confinement.read, AccessFs::from_read(WANTED)))?
        .add_rules(path_beneath_rules(&confinement.write, AccessFs::from_all(WANTED)))?
        .add_rules(path_beneath_rules(
            &devices,
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
        ))?
        .restrict_self()
}
