//! Where the kernel has no Landlock: a root of its own, which holds what the tool may use and
//! nothing else. gVisor is such a kernel. Others let no container do this, and then nothing does.
//!
//! ```text
//! user and mount namespace ─► empty root ─► what may be read, read-only ─► what may be written
//!                                                                   pivot, the old root is gone
//! ```
//!
//! The tool has no right in the namespace once it is executed. It may make one inside of it, and
//! finds there the same mounts, which the kernel keeps locked together.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{DumpableBehavior, chdir, getgid, getuid, pivot_root, set_dumpable_behavior};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::Confinement;

/// Folders of every system that no plugin has anything in; the new root is made in one of them.
const PLACES: [&str; 4] = ["/mnt", "/media", "/srv", "/home"];

/// Shuts this process in. The folder that it is in is left: it must enter one anew.
pub(super) fn build(confinement: &Confinement) -> io::Result<()> {
    let place = PLACES.iter().map(Path::new).find(|place| place.is_dir());
    let root = place.ok_or_else(|| io::Error::other("there is no folder for a new root"))?;
    enter_namespaces()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("none", root, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=64k")?;
    for path in &confinement.read {
        show(path, root)?;
    }
    for Mounted { point, flags } in mounted_beneath(root)? {
        mount_remount(&point, MountFlags::BIND | MountFlags::RDONLY | flags, "")?;
    }
    for path in &confinement.write {
        show(path, root)?;
    }
    let own = MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(root, MountFlags::BIND | MountFlags::RDONLY | own, "")?;
    chdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    Ok(())
}

#[expect(unsafe_code, reason = "the wrapper covers flags that would share descriptors")]
fn enter_namespaces() -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // SAFETY: descriptors are not unshared, and this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
    // Its own files in /proc are root's while it is not dumpable.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Shows what is at a path at the same path beneath the new root.
fn show(path: &Path, root: &Path) -> io::Result<()> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    let Ok(inside) = path.strip_prefix("/") else { return Ok(()) };
    let to = root.join(inside);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if metadata.is_symlink() {
        return if to.is_symlink() { Ok(()) } else { symlink(fs::read_link(path)?, to) };
    }
    if metadata.is_dir() {
        fs::create_dir_all(&to)?;
    } else if !to.exists() {
        fs::write(&to, "")?;
    }
    Ok(mount_bind_recursive(path, &to)?)
}

/// Something that is mounted, and what it forbids already: that cannot be taken back here.
#[derive(Debug, PartialEq)]
struct Mounted {
    point: PathBuf,
    flags: MountFlags,
}

/// What is mounted beneath the new root, which is left out.
fn mounted_beneath(root: &Path) -> io::Result<Vec<Mounted>> {
    let all = fs::read_to_string("/proc/self/mountinfo")?;
    let mounted = all.lines().filter_map(parse);
    Ok(mounted.filter(|one| one.point.starts_with(root) && one.point != root).collect())
}

/// Reads a line of `mountinfo`: the fifth field is where, the sixth how.
fn parse(line: &str) -> Option<Mounted> {
    let mut fields = line.split(' ').skip(4);
    let point = PathBuf::from(fields.next()?);
    let flags = fields.next()?.split(',').map(|option| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    });
    Some(Mounted { point, flags: flags.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mount_forbids_is_kept() {
        let line =
            "36 35 98:0 /mnt1 /mnt/dev/pts rw,nosuid,noexec,noatime master:1 - ext3 /dev/root rw";
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NOATIME;
        assert_eq!(parse(line), Some(Mounted { point: "/mnt/dev/pts".into(), flags }));
        assert_eq!(parse("36 35"), None);
    }
}
