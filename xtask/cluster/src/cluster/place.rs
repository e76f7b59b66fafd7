//! Where a cluster keeps its files and which addresses it has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xtask_shell::digest;
use xtask_shell::workspace::cache;

/// The node's name in Kubernetes.
pub(super) const NODE: &str = "node";

/// The node's address. Every cluster has the same ones: each has a network of its own.
pub(super) const NODE_ADDRESS: &str = "172.30.0.2";
pub(super) const NODE_GATEWAY: &str = "172.30.0.1";
/// The bridge that bears the node's address.
pub(super) const NODE_INTERFACE: &str = "node0";
pub(super) const PODS: &str = "10.244.0.0/16";
/// The node's part of [`PODS`].
pub(super) const NODE_PODS: &str = "10.244.0.0/24";
pub(super) const SERVICES: &str = "10.96.0.0/16";
/// The first address of [`SERVICES`].
pub(super) const API_SERVICE: &str = "10.96.0.1";
/// Where Pods ask for names.
pub(super) const DNS_SERVICE: &str = "10.96.0.10";
/// What the names of Services end with.
pub(super) const DOMAIN: &str = "cluster.local";

/// A path of a Unix socket is cut at 108 bytes; the longest of ours adds this much to the folder.
const LONGEST_SOCKET: usize = 48;
const SOCKET_PATH: usize = 107;

/// Folders that a cluster sees empty, so its own cannot be there.
pub(super) const HIDDEN: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// A cluster's name and its work folder.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

impl Place {
    pub(super) fn new(name: &str) -> Result<Self> {
        Self::below(&cache().join("clusters"), name)
    }

    fn below(clusters: &Path, name: &str) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 20 || !name.chars().all(is_plain) {
            bail!("{name:?} is no name for a cluster: 1 to 20 of a-z, 0-9 and `-`");
        }
        let folder = clusters.join(name);
        let shown = folder.display();
        if folder.as_os_str().len() + LONGEST_SOCKET > SOCKET_PATH {
            bail!("{shown} is too long for the sockets in it; set FAMULUS_CACHE to another folder");
        }
        if HIDDEN.iter().any(|hidden| folder.starts_with(hidden)) {
            bail!("a cluster cannot lie in {shown}; set FAMULUS_CACHE to another folder");
        }
        Ok(Self { name: name.to_owned(), folder })
    }

    /// A path in the work folder.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// The same as text, for arguments and configuration.
    pub(super) fn text(&self, path: &str) -> String {
        self.at(path).to_string_lossy().into_owned()
    }

    /// The file that is locked while the cluster is changed. It stays.
    pub(super) fn lock(&self) -> PathBuf {
        self.folder.with_extension("lock")
    }

    /// Writes a file of the work folder, with the folders above it.
    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let file = self.at(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// Makes a folder in the work folder.
    pub(super) fn make_folder(&self, path: &str) -> Result<PathBuf> {
        let folder = self.at(path);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// The control group of the Pods; its name is the folder's, so that two caches do not meet.
    pub(super) fn cgroup(&self) -> String {
        let of_folder = digest::sha256(self.folder.as_os_str().as_encoded_bytes());
        format!("cluster-{}-{}", self.name, &of_folder[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_plain_name_and_short_paths() {
        let check = |clusters: &str, name: &str, ok: bool| {
            assert_eq!(Place::below(Path::new(clusters), name).is_ok(), ok, "{clusters} {name}");
        };
        check("/var/cache/famulus/clusters", "famulus", true);
        check("/var/cache/famulus/clusters", "a-1", true);
        check("/var/cache/famulus/clusters", "", false);
        check("/var/cache/famulus/clusters", "../up", false);
        check("/var/cache/famulus/clusters", "Name", false);
        check("/var/cache/famulus/clusters", "a-name-that-is-far-too-long", false);
        check("/run/clusters", "famulus", false);
        check("/var/lib/clusters", "famulus", false);
        check("/var/cache/a-folder-with-a-name-that-nobody-would-choose/famulus", "famulus", false);
    }

    #[test]
    fn two_caches_have_two_control_groups() {
        let of = |clusters: &str| Place::below(Path::new(clusters), "famulus").unwrap().cgroup();
        assert!(of("/a").starts_with("cluster-famulus-"));
        assert_ne!(of("/a"), of("/b"));
    }
}
