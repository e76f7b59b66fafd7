//! Where the kernel has no Landlock: a root of its own, which holds what the tool may use and
//! nothing else. gVisor is such a kernel. Others let no container do this, and then nothing does.
//!
//! ```text
//! user and mount namespace ─► empty root ─► all that may be used ─► what may not be written, read-only
//!                                                                       pivot, the old root is gone
//! ```
//!
//! The tool has no right in the namespace once it is executed, and the filter lets it make none inside.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{DumpableBehavior, chdir, getgid, getuid, pivot_root, set_dumpable_behavior};
use rustix::thread::UnshareFlags;

use super::Confinement;
use crate::mounts::{self, Mounted};
use crate::namespaces;

/// Folders of every system that no plugin has anything in; the new root is made in one of them.
const PLACES: [&str; 4] = ["/mnt", "/media", "/srv", "/home"];

/// Shuts this process in. The folder that it is in is left: it must enter one anew.
pub(super) fn build(confinement: &Confinement) -> io::Result<()> {
    let place = PLACES.iter().map(Path::new).find(|place| place.is_dir());
    let root = place.ok_or_else(|| io::Error::other("there is no folder for a new root"))?;
    enter_namespaces()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("none", root, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=64k")?;
    let view = View::of(confinement);
    view.show(root)?;
    for Mounted { point, flags } in mounted_beneath(root)? {
        if !view.is_written(point.strip_prefix(root).unwrap_or(&point)) {
            mount_remount(&point, MountFlags::BIND | MountFlags::RDONLY | flags, "")?;
        }
    }
    let own = MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(root, MountFlags::BIND | MountFlags::RDONLY | own, "")?;
    chdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    Ok(())
}

fn enter_namespaces() -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    namespaces::leave(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // Its own files in /proc are root's while it is not dumpable.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// What the new root holds of the old one, by the paths of both.
#[derive(Debug, Default, PartialEq)]
struct View {
    /// Links, and where each leads in the end.
    links: BTreeMap<PathBuf, PathBuf>,
    /// Files and folders with all beneath them, and whether they may be written.
    places: BTreeMap<PathBuf, bool>,
}

impl View {
    fn of(confinement: &Confinement) -> Self {
        let mut view = Self::default();
        confinement.read.iter().for_each(|path| view.add(path, false));
        confinement.write.iter().for_each(|path| view.add(path, true));
        let (places, links) = (view.places.clone(), view.links.clone());
        // What another place holds already, in the same way, is there with it.
        view.places.retain(|path, written| above(&places, path) != Some(*written));
        let is_there = |path: &Path| path.ancestors().skip(1).any(|one| links.contains_key(one));
        view.links.retain(|path, _| above(&places, path).is_none() && !is_there(path));
        view
    }

    /// Adds what is at a path: of a link, what it leads to as well.
    fn add(&mut self, path: &Path, written: bool) {
        // Nothing is there, or a link to nothing.
        let Ok(real) = path.canonicalize() else { return };
        *self.places.entry(real.clone()).or_default() |= written;
        if real != path {
            self.links.insert(path.to_owned(), real);
        }
    }

    /// Puts all of it beneath the new root, what lies around before what lies within it.
    fn show(&self, root: &Path) -> io::Result<()> {
        let beneath = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        for (path, real) in &self.links {
            let to = beneath(path);
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            symlink(real, to)?;
        }
        for path in self.places.keys() {
            let to = beneath(path);
            if path.is_dir() {
                fs::create_dir_all(&to)?;
            } else if !to.exists() {
                to.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(&to, "")?;
            }
            mount_bind_recursive(path, &to)?;
        }
        Ok(())
    }

    /// Whether what lies at this path, told from the root, may be written.
    fn is_written(&self, path: &Path) -> bool {
        let path = Path::new("/").join(path);
        self.places.get(&path).copied().or_else(|| above(&self.places, &path)).unwrap_or(false)
    }
}

/// Whether the nearest place above this path may be written, if there is one.
fn above(places: &BTreeMap<PathBuf, bool>, path: &Path) -> Option<bool> {
    path.ancestors().skip(1).find_map(|folder| places.get(folder).copied())
}

/// What is mounted beneath the new root, which is left out.
fn mounted_beneath(root: &Path) -> io::Result<Vec<Mounted>> {
    let mounted = mounts::read()?.into_iter();
    Ok(mounted.filter(|one| one.point.starts_with(root) && one.point != root).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_what_is_shown_and_each_place_is_shown_once() {
        let base = tempfile::tempdir().unwrap();
        let at = |path: &str| base.path().join(path);
        for folder in ["usr/bin", "state/revisions/one", "state/cache", "plugins"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        let links = [
            ("bin", "usr/bin"),
            ("state/active", "revisions/one"),
            ("plugins/p", "../state/active"),
        ];
        for (link, target) in links {
            symlink(target, at(link)).unwrap();
        }
        symlink("loop", at("loop")).unwrap();
        let paths = |all: &[&str]| all.iter().map(|path| at(path)).collect::<Vec<_>>();
        let view = View::of(&Confinement {
            read: paths(&["usr", "bin", "plugins/p", "state/revisions/one", "gone", "loop"]),
            write: paths(&["plugins/p", "state/cache"]),
        });
        let places = [("state/cache", true), ("state/revisions/one", true), ("usr", false)];
        assert_eq!(view.places, places.map(|(path, written)| (at(path), written)).into());
        let links = [("bin", "usr/bin"), ("plugins/p", "state/revisions/one")];
        assert_eq!(view.links, links.map(|(path, real)| (at(path), at(real))).into());
        assert!(view.is_written(&at("state/cache/below")));
        assert!(!view.is_written(&at("usr/bin")) && !view.is_written(&at("state")));
    }

    #[test]
    fn what_is_written_within_what_is_read_is_a_place_of_its_own() {
        let base = tempfile::tempdir().unwrap();
        let inner = base.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let confinement =
            Confinement { read: vec![base.path().into()], write: vec![inner.clone()] };
        let view = View::of(&confinement);
        assert_eq!(view.places, [(base.path().to_owned(), false), (inner.clone(), true)].into());
        assert!(view.is_written(&inner) && !view.is_written(base.path()));
    }
}
