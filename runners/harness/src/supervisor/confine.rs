//! The part of the file system that is left, signals to nobody outside, no new privileges, and a
//! filter of system calls.

use std::io;
use std::path::PathBuf;

use famulus_protocol::{Isolation, Landlock};
use landlock::{
    ABI, Access, AccessFs, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::io::Errno;
use rustix::process::getppid;

use super::Confinement;
use super::filter::{LandlockGaps, filter};
use super::walls;

/// The newest rules that are asked for. An older kernel enforces what it knows of them; the filter
/// of system calls does what it does not know.
const WANTED: ABI = ABI::V6;

/// Device files that programs write to everywhere.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What could not be had of that without which no tool runs.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfineError {
    #[error("the kernel has no Landlock, and a root of its own could not be made: {0}")]
    Files(io::Error),
    #[error("new privileges could not be forbidden: {0}")]
    Privileges(Errno),
    #[error("system calls could not be filtered: {0}")]
    Calls(io::Error),
}

/// Confines this process and all that come of it, and says how. Set-user-ID programs lose their
/// meaning.
pub(super) fn confine(confinement: &Confinement) -> Result<Isolation, ConfineError> {
    let (landlock, lacks) = match restrict(confinement) {
        Ok(status) if status.ruleset == RulesetStatus::FullyEnforced => {
            (Landlock::Full, LandlockGaps::default())
        }
        Ok(status) if status.ruleset == RulesetStatus::PartiallyEnforced => {
            (Landlock::Partial, lacking(status.landlock))
        }
        Ok(_) | Err(_) => {
            walls::build(confinement).map_err(ConfineError::Files)?;
            // Files that are not the tool's are not there to be truncated.
            (Landlock::Replaced, LandlockGaps { signals: true, truncation: false })
        }
    };
    rustix::thread::set_no_new_privs(true).map_err(ConfineError::Privileges)?;
    filter(lacks, getppid()).map_err(ConfineError::Calls)?;
    Ok(Isolation { landlock, no_new_privileges: true, filtered: true })
}

/// What a kernel's Landlock does not keep to itself: signals before Linux 6.12, files that are
/// truncated without being written before 6.2.
fn lacking(landlock: LandlockStatus) -> LandlockGaps {
    let known = match landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => ABI::Unsupported,
    };
    LandlockGaps { signals: known < ABI::V6, truncation: known < ABI::V3 }
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

#[cfg(test)]
mod tests {
    use super::super::filter::refuse;
    use super::*;

    #[test]
    fn an_older_landlock_leaves_signals_and_truncation_to_the_filter() {
        let check = |effective_abi, signals, truncation| {
            let status = LandlockStatus::Available { effective_abi, kernel_abi: None };
            assert_eq!(lacking(status), LandlockGaps { signals, truncation }, "{effective_abi:?}");
        };
        check(ABI::V1, true, true);
        check(ABI::V2, true, true);
        check(ABI::V3, true, false);
        check(ABI::V5, true, false);
        check(ABI::V6, false, false);
    }

    /// By the kernel, in a thread of its own that has neither Landlock nor namespaces.
    #[test]
    fn where_nothing_confines_it_no_tool_is_begun() {
        let tried = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            refuse(&[libc::SYS_landlock_create_ruleset, libc::SYS_unshare]).unwrap();
            confine(&Confinement::default())
        });
        let loose = tried.join().unwrap().unwrap_err();
        assert!(matches!(loose, ConfineError::Files(_)), "{loose}");
    }
}
