//! The root of a sandbox: an empty one, the system's programs, and what the order names.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Component, Path, PathBuf};

use famulus_protocol::launch::{Launch, LaunchLimits, Place};
use famulus_runner_harness::mounts;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, getgid, getuid, pivot_root};

use crate::error::LaunchError;
use crate::{etc, privileges};

/// Folders of the system's programs, or the links that lead into the first of them.
const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Folders that the sandbox makes of its own.
const OWN: [&str; 3] = ["dev", "etc", "proc"];

/// Devices that programs use everywhere.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// A folder in memory, as large as that of a Pod, with as many names as there are pages in it four times.
const MEMORY: &str = "size=64m,nr_inodes=64k";

/// Lists by the kernel of what is not the sandbox's: the keys of the session that all this was started in.
const HIDDEN: [&str; 1] = ["proc/keys"];

const LINKS: [(&str, &str); 4] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
];

/// Nothing of the machine is left but what is named here. What may not be written is read-only, what is not
/// a device is none, and no file gives its owner's rights to who executes it.
pub(crate) fn build(order: &Launch, limits: &LaunchLimits) -> Result<(), LaunchError> {
    order.places.iter().try_for_each(|place| check(order, place))?;
    let root = Root { path: &order.root };
    own_mounts()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("sandbox", root.path, "tmpfs", flags, c"mode=755,size=8m").map_err(failed("its root"))?;
    for name in SYSTEM {
        root.show_system(name)?;
    }
    etc::fill(&root, order)?;
    root.devices()?;
    for place in &order.places {
        root.show(order, place)?;
    }
    for file in &limits.files {
        root.write(&file.path, &file.text)?;
    }
    root.folder(Path::new("/proc"))?;
    let flags = flags | MountFlags::NOEXEC;
    mount("proc", root.at("proc"), "proc", flags, None).map_err(failed("its processes"))?;
    HIDDEN.iter().try_for_each(|path| root.hide(path))?;
    enter(root.path).map_err(LaunchError::root("its root"))?;
    restrict(order)
}

/// A root in which there is nothing, and nothing can be made.
pub(crate) fn nothing(path: &Path) -> Result<(), LaunchError> {
    own_mounts()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("nothing", path, "tmpfs", flags, c"mode=555,size=4k").map_err(failed("an empty root"))?;
    enter(path).map_err(LaunchError::root("an empty root"))
}

/// What is mounted from now on is nobody else's.
fn own_mounts() -> Result<(), LaunchError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(failed("mounts of its own"))
}

/// The new root, while it is not the root yet.
pub(crate) struct Root<'a> {
    path: &'a Path,
}

impl Root<'_> {
    /// Where something of the sandbox is now.
    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.path.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Makes a folder that everybody may enter, with those above it.
    pub(crate) fn folder(&self, path: &Path) -> Result<PathBuf, LaunchError> {
        let at = self.at(path);
        let made = DirBuilder::new().recursive(true).mode(0o755).create(&at);
        made.map_err(place(path))?;
        Ok(at)
    }

    /// Shows what is outside at one path at another.
    pub(crate) fn bind(&self, from: &Path, to: &Path) -> Result<(), LaunchError> {
        let at = self.at(to);
        if fs::metadata(from).map_err(place(from))?.is_dir() {
            self.folder(to)?;
        } else if !at.exists() {
            to.parent().map_or(Ok(()), |above| self.folder(above).map(drop))?;
            fs::write(&at, "").map_err(place(to))?;
        }
        mount_bind_recursive(from, &at).map_err(|error| place(from)(error.into()))
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), LaunchError> {
        path.parent().map_or(Ok(()), |above| self.folder(above).map(drop))?;
        fs::write(self.at(path), text).map_err(place(path))
    }

    pub(crate) fn link(&self, path: &str, target: impl AsRef<Path>) -> Result<(), LaunchError> {
        symlink(target, self.at(path)).map_err(place(Path::new(path)))
    }

    fn show_system(&self, name: &str) -> Result<(), LaunchError> {
        let path = Path::new("/").join(name);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                self.link(name, fs::read_link(&path).map_err(place(&path))?)
            }
            Ok(_) => self.bind(&path, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(place(&path)(error)),
        }
    }

    fn devices(&self) -> Result<(), LaunchError> {
        for name in DEVICES {
            let device = Path::new("/dev").join(name);
            self.bind(&device, &device)?;
        }
        LINKS.iter().try_for_each(|(path, target)| self.link(path, target))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let shared = self.folder(Path::new("/dev/shm"))?;
        mount("shm", shared, "tmpfs", flags, c"mode=1777,size=64m")
            .map_err(failed("its shared memory"))
    }

    /// Puts what is no device here, and cannot be opened, over a file that a kernel may have.
    fn hide(&self, path: &str) -> Result<(), LaunchError> {
        let path = Path::new(path);
        if self.at(path).exists() { self.bind(Path::new("/dev/null"), path) } else { Ok(()) }
    }

    fn show(&self, order: &Launch, place: &Place) -> Result<(), LaunchError> {
        if let Some(from) = &place.from {
            return self.bind(from, &place.to);
        }
        let (user, group) = privileges::owner(order).unwrap_or_else(|| (getuid(), getgid()));
        let options = format!("mode=700,{MEMORY},uid={},gid={}", user.as_raw(), group.as_raw());
        let at = self.folder(&place.to)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let options =
            CString::new(options).map_err(|error| LaunchError::root("its memory")(error.into()))?;
        mount("memory", at, "tmpfs", flags, options.as_c_str()).map_err(failed("its memory"))
    }
}

/// A place lies beside all others: within one of the sandbox's own or of somebody's who may put a link there,
/// what is made for it could be made elsewhere.
fn check(order: &Launch, place: &Place) -> Result<(), LaunchError> {
    let wrong = |why: &str| Err(LaunchError::Wrong(format!("{} {why}", place.to.display())));
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    let Some(first) = top(&place.to).filter(|_| place.to.components().all(plain)) else {
        return wrong("is no path of a sandbox");
    };
    if SYSTEM.iter().chain(&OWN).any(|name| first == Path::new(name)) {
        return wrong("belongs to the sandbox itself");
    }
    let around = order.places.iter().filter(|other| place.to.starts_with(&other.to));
    if around.count() > 1 {
        return wrong("lies in another place");
    }
    Ok(())
}

/// The first name of an absolute path.
fn top(path: &Path) -> Option<&Path> {
    path.strip_prefix("/").ok()?.iter().next().map(Path::new)
}

/// Whether something of this name is to be in the root.
pub(crate) fn is_in_root(order: &Launch, name: &Path) -> bool {
    SYSTEM.iter().chain(&OWN).any(|own| name == Path::new(own))
        || order.places.iter().any(|place| top(&place.to) == Some(name))
}

/// The new root is the root, and the old one is nowhere.
fn enter(root: &Path) -> io::Result<()> {
    chdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

/// Takes from all that is mounted what it need not allow.
fn restrict(order: &Launch) -> Result<(), LaunchError> {
    let mounted = mounts::read().map_err(LaunchError::root("what is mounted"))?;
    for mounts::Mounted { point, flags } in mounted {
        let Some(less) = taken(order, &point) else { continue };
        mount_remount(&point, MountFlags::BIND | less | flags, "")
            .map_err(|error| place(&point)(error.into()))?;
    }
    Ok(())
}

/// What is taken from a mount; `None` for what was mounted as it is to be.
pub(crate) fn taken(order: &Launch, point: &Path) -> Option<MountFlags> {
    if point == Path::new("/proc") || point == Path::new("/dev/shm") {
        return None;
    }
    if point.starts_with("/dev") {
        return Some(MountFlags::NOSUID | MountFlags::NOEXEC);
    }
    let mut written = order.places.iter().filter(|place| place.writable);
    let common = MountFlags::NOSUID | MountFlags::NODEV;
    let is_written = written.any(|place| point.starts_with(&place.to));
    Some(if is_written { common } else { common | MountFlags::RDONLY })
}

fn failed(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> LaunchError {
    move |error| LaunchError::root(what)(error.into())
}

pub(crate) fn place(path: &Path) -> impl FnOnce(io::Error) -> LaunchError {
    let path = path.to_owned();
    move |source| LaunchError::Place { path, source }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use famulus_protocol::launch::LaunchNetwork;

    use super::*;

    #[test]
    fn what_is_not_named_to_be_written_is_not() {
        let place = |to: &str, writable| Place { from: None, to: to.into(), writable };
        let order = Launch {
            root: "/r".into(),
            user: None,
            places: vec![place("/given", false), place("/own", true), place("/state", true)],
            network: LaunchNetwork::None,
            variables: BTreeMap::new(),
            command: Vec::new(),
        };
        let check = |point: &str, written: Option<bool>| {
            let taken = taken(&order, Path::new(point));
            let is_written = taken.map(|flags| !flags.contains(MountFlags::RDONLY));
            assert_eq!(is_written, written, "{point}");
            assert!(taken.is_none_or(|flags| flags.contains(MountFlags::NOSUID)), "{point}");
        };
        check("/", Some(false));
        check("/usr", Some(false));
        check("/usr/share/a place", Some(false));
        check("/given", Some(false));
        check("/own", Some(true));
        check("/owner", Some(false));
        check("/state/beneath", Some(true));
        check("/dev/null", Some(true));
        check("/proc", None);
        check("/proc/keys", Some(false));
    }
}
