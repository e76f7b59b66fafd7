//! What a cluster is made of, and how each part is built.
//!
//! Every part comes by name from the Go registry: a module of ours in `xtask/cluster/programs` pins it and
//! all that it needs, with checksums. Versions stand there; what stands here is the recipe.

use std::path::PathBuf;

use xtask_shell::workspace::root;

/// A module of ours and the programs that are built from it.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: &'static str,
    /// The folder in `xtask/cluster/programs` that pins it. Those of one folder share what they are made
    /// of, so that the libraries of Kubernetes are compiled once.
    pub(super) pins: &'static str,
    /// What is built, and from which package; `./` is one of ours, beside the pins.
    pub(super) programs: &'static [(&'static str, &'static str)],
    /// Further arguments of `go build`.
    pub(super) flags: &'static [&'static str],
    /// Further arguments for the linker, behind those that leave out debug data.
    pub(super) linker: &'static str,
    pub(super) c: Language,
    /// Changes to the sources.
    pub(super) patches: &'static [Patch],
    /// Folders of a module that its programs need beside them.
    pub(super) folders: &'static [Folder],
}

/// Whether a part is written in Go alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Language {
    Go,
    GoAndC,
}

/// A text that stands once in a file and is replaced.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) file: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) module: &'static str,
    pub(super) path: &'static str,
    pub(super) name: &'static str,
}

impl Module {
    pub(super) fn source(&self) -> PathBuf {
        root().join("xtask/cluster/programs").join(self.pins)
    }
}

const PLAIN: Module = Module {
    name: "",
    pins: "",
    programs: &[],
    flags: &[],
    linker: "",
    c: Language::Go,
    patches: &[],
    folders: &[],
};

/// What is compiled with the libraries of the Kubernetes that is tested.
const WITH_KUBERNETES: Module = Module { pins: "kubernetes", ..PLAIN };

pub(super) const ETCD: Module =
    Module { name: "etcd", programs: &[("etcd", "go.etcd.io/etcd/server/v3")], ..WITH_KUBERNETES };

pub(super) const KUBERNETES: Module = Module {
    name: "kubernetes",
    programs: &[
        ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
        ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ],
    // Without it the programs say that they are 0.0.0, and charts refuse them.
    linker: "-X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 \
             -X k8s.io/component-base/version.gitMinor=36 \
             -X k8s.io/client-go/pkg/version.gitVersion=v1.36.3",
    ..WITH_KUBERNETES
};

pub(super) const CONTAINERD: Module = Module {
    name: "containerd",
    programs: &[
        ("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
        (
            "containerd-shim-runc-v2",
            "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        ),
        ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
    ],
    ..WITH_KUBERNETES
};

pub(super) const RUNC: Module = Module {
    name: "runc",
    pins: "runc",
    programs: &[("runc", "github.com/opencontainers/runc")],
    flags: &["-tags", "seccomp"],
    c: Language::GoAndC,
    ..PLAIN
};

pub(super) const GVISOR: Module = Module {
    name: "gvisor",
    pins: "gvisor",
    programs: &[
        ("runsc", "gvisor.dev/gvisor/runsc"),
        ("containerd-shim-runsc-v1", "gvisor.dev/gvisor/shim"),
    ],
    // Lowering the score needs a capability that root does not have everywhere.
    patches: &[Patch {
        file: "gvisor.dev/gvisor/pkg/shim/v1/manager.go",
        from: "oomScoreMax = -999",
        to: "oomScoreMax = 0",
    }],
    ..PLAIN
};

/// The plugins that connect Pods without a policy enforcer.
pub(super) const CNI: Module = Module {
    name: "cni",
    pins: "cni",
    programs: &[
        ("ptp", "github.com/containernetworking/plugins/plugins/main/ptp"),
        ("loopback", "github.com/containernetworking/plugins/plugins/main/loopback"),
        ("host-local", "github.com/containernetworking/plugins/plugins/ipam/host-local"),
    ],
    ..PLAIN
};

/// The network with a policy enforcer.
pub(super) const CILIUM: Module = Module {
    name: "cilium",
    pins: "cilium",
    programs: &[
        ("cilium-agent", "github.com/cilium/cilium/daemon"),
        ("cilium-cni", "github.com/cilium/cilium/plugins/cilium-cni"),
    ],
    // Its dependencies reach into the runtime in a way that the linker refuses by default.
    linker: "-checklinkname=0 -X github.com/cilium/cilium/pkg/version.ciliumVersion=1.15.19",
    // A kernel with everything built in has no list of modules, and the agent would not start.
    patches: &[Patch {
        file: "github.com/cilium/cilium/pkg/datapath/linux/modules/modules_linux.go",
        from: "\"/proc/modules\"",
        to: "\"/dev/null\"",
    }],
    folders: &[
        Folder { module: "github.com/cilium/cilium", path: "bpf", name: "bpf" },
        Folder {
            module: "github.com/cilium/cilium",
            path: "pkg/k8s/apis/cilium.io/client/crds",
            name: "crds",
        },
    ],
    ..PLAIN
};

/// Answers for the names of Services, and for those that tests invent.
pub(super) const COREDNS: Module = Module {
    name: "coredns",
    // A program of ours: CoreDNS with what is asked of it here.
    programs: &[("coredns", "./dns")],
    ..WITH_KUBERNETES
};

/// Installs charts; no part of a node.
pub(super) const HELM: Module =
    Module { name: "helm", programs: &[("helm", "helm.sh/helm/v4/cmd/helm")], ..WITH_KUBERNETES };

/// A store that speaks S3, for tests of backups.
pub(super) const VERSITYGW: Module = Module {
    name: "versitygw",
    pins: "versitygw",
    programs: &[("versitygw", "github.com/versity/versitygw/cmd/versitygw")],
    ..PLAIN
};

/// What takes longest comes first, and behind it what is made of the same.
pub(super) const ALL: [&Module; 10] =
    [&KUBERNETES, &CILIUM, &GVISOR, &VERSITYGW, &RUNC, &CNI, &ETCD, &CONTAINERD, &COREDNS, &HELM];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(module: &Module, name: &str) -> String {
        let path = module.source().join(name);
        fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is missing", path.display()))
    }

    #[test]
    fn every_program_is_named_in_the_pinned_module() {
        for module in ALL {
            let tools = file(module, "tools.go");
            assert!(file(module, "go.sum").len() > 100, "{}", module.name);
            for (program, package) in module.programs {
                let named = match package.strip_prefix("./") {
                    Some(ours) => module.source().join(ours).join("main.go").exists(),
                    None => tools.contains(&format!("_ \"{package}\"")),
                };
                assert!(named, "{program} in {tools}");
            }
        }
    }

    #[test]
    fn a_stamped_version_is_the_pinned_one() {
        let check = |module: &Module, pinned: &str, stamped: &str| {
            assert!(file(module, "go.mod").contains(pinned), "{}", module.name);
            assert!(module.linker.contains(stamped), "{}", module.name);
        };
        check(&KUBERNETES, "k8s.io/kubernetes v1.36.3\n", "version.gitVersion=v1.36.3");
        check(&CILIUM, "github.com/cilium/cilium v1.15.19\n", "ciliumVersion=1.15.19");
    }
}
