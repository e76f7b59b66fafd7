//! The programs of the machine that a cluster needs, and the Debian packages that bring them.

use anyhow::{Result, bail};
use xtask_shell::Shell;
use xtask_shell::programs::{self, Program};

use super::network::Network;

/// Building and running a node.
const NODE: [Program; 14] = [
    Program { name: "a C compiler", probe: &["cc", "--version"], packages: &["build-essential"] },
    Program { name: "pkg-config", probe: &["pkg-config", "--version"], packages: &["pkg-config"] },
    Program {
        name: "libseccomp's headers",
        probe: &["sh", "-c", "pkg-config --exists libseccomp"],
        packages: &["libseccomp-dev"],
    },
    Program { name: "openssl", probe: &["openssl", "version"], packages: &["openssl"] },
    Program { name: "ip", probe: &["ip", "-V"], packages: &["iproute2"] },
    Program { name: "nft", probe: &["nft", "--version"], packages: &["nftables"] },
    Program { name: "iptables", probe: &["iptables", "--version"], packages: &["iptables"] },
    Program {
        name: "nsenter",
        probe: &["nsenter", "--version"],
        packages: &["util-linux", "mount"],
    },
    Program { name: "mkfs.ext4", probe: &["mkfs.ext4", "-V"], packages: &["e2fsprogs"] },
    Program { name: "git", probe: &["git", "--version"], packages: &["git"] },
    Program { name: "python3", probe: &["python3", "--version"], packages: &["python3"] },
    Program { name: "busybox", probe: &["busybox", "true"], packages: &["busybox-static"] },
    programs::SSH,
    programs::SSH_SERVER,
];

/// The policy enforcer compiles its programs for the kernel on the node.
const CILIUM: [Program; 4] = [
    Program { name: "clang 19", probe: &["clang-19", "--version"], packages: &["clang-19"] },
    Program { name: "llc 19", probe: &["llc-19", "--version"], packages: &["llvm-19"] },
    Program { name: "ipset", probe: &["ipset", "--version"], packages: &["ipset"] },
    Program { name: "bpftool", probe: &["bpftool", "version"], packages: &["bpftool"] },
];

/// Makes sure that the machine has what a cluster with this network needs.
pub(super) async fn ensure(shell: &mut Shell, network: Network) -> Result<()> {
    root()?;
    programs::ensure(shell, &NODE).await?;
    match network {
        Network::Cilium => programs::ensure(shell, &CILIUM).await,
        Network::None => Ok(()),
    }
}

/// Namespaces, mounts and control groups belong to root.
pub(super) fn root() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("a cluster needs root; run it as root, or in a virtual machine");
    }
    Ok(())
}
