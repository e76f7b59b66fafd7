//! Rights are given up for good: those of the user, of root, and of what will be executed.

use famulus_protocol::launch::Launch;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::error::LaunchError;

/// Capabilities that a kernel may know.
const MOST: u32 = 64;

/// What the process inside does before it gives everything up: mounts, an interface, and the giving up.
const LENT: [CapabilitySet; 3] =
    [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN, CapabilitySet::SETPCAP];

/// Who is no root has the rights of its user namespace until it executes something; these go along.
pub(crate) fn lend() -> Result<(), Errno> {
    let sets = capabilities(None)?;
    let inheritable = LENT.into_iter().collect();
    set_capabilities(None, CapabilitySets { inheritable, ..sets })?;
    LENT.iter().try_for_each(|one| configure_capability_in_ambient_set(*one, true))
}

/// Becomes the user, if there is one, without any capability. This process has one thread.
pub(crate) fn give_up(user: Option<u32>) -> Result<(), LaunchError> {
    bound()?;
    if let Some(id) = user {
        let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
        set_thread_groups(&[]).map_err(LaunchError::privileges("its groups"))?;
        set_thread_res_gid(group, group, group).map_err(LaunchError::privileges("its group"))?;
        set_thread_res_uid(user, user, user).map_err(LaunchError::privileges("its user"))?;
    }
    clear_ambient_capability_set().map_err(LaunchError::privileges("capabilities"))?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(LaunchError::privileges("capabilities"))?;
    set_no_new_privs(true).map_err(LaunchError::privileges("new privileges"))
}

/// No program that is executed from now on has a capability, whatever its file says.
fn bound() -> Result<(), LaunchError> {
    for number in 0..MOST {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // The kernel knows no more.
            Err(Errno::INVAL) if number > 0 => break,
            Err(error) => return Err(LaunchError::privileges("capabilities")(error)),
        }
    }
    Ok(())
}

/// The id that files of the sandbox's own are given to.
pub(crate) fn owner(order: &Launch) -> Option<(Uid, Gid)> {
    order.user.map(|id| (Uid::from_raw(id), Gid::from_raw(id)))
}
