//! Which tests run on which cluster, and what each of them needs.

use crate::cluster::variant::Variant;

/// Tests of `tests/cluster` that share what they do to a cluster, in the order in which they run.
pub(super) struct Target {
    pub(super) name: &'static str,
    /// How many tests run at once; what breaks the node or measures others runs alone.
    pub(super) threads: &'static str,
    /// Whether it has tests in a module `soak`, which are for `cargo xtask soak` alone.
    pub(super) soaks: bool,
    /// Whether from here on the processors idle for half of the time, beside another cluster.
    pub(super) waits: bool,
    pub(super) needs: Needs,
}

/// What a target needs beside a release.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing: any cluster will do.
    Nothing,
    /// A cluster that ignores policies and makes no volumes. Whether another one is so nobody knows but who
    /// named it, so there it runs only if it is asked for by its name.
    OpenNetwork,
    /// The machine below a node of ours, or what stands beside it.
    Node,
}

impl Target {
    const fn new(name: &'static str, threads: &'static str) -> Self {
        Self { name, threads, soaks: false, waits: false, needs: Needs::Node }
    }

    const fn that_needs(needs: Needs, name: &'static str, threads: &'static str) -> Self {
        Self { needs, ..Self::new(name, threads) }
    }

    const fn that_soaks(name: &'static str, threads: &'static str) -> Self {
        Self { soaks: true, ..Self::new(name, threads) }
    }
}

/// A cluster, the release on it, and the tests that want it so.
pub(super) struct Home {
    pub(super) name: &'static str,
    pub(super) variant: Variant,
    /// Whether it begins when the first cluster has come to what mostly waits.
    pub(super) is_late: bool,
    /// Further words of `helm install`; nothing is installed without.
    pub(super) values: Option<&'static [&'static str]>,
    pub(super) targets: &'static [Target],
}

/// It leaves nothing, so the chart's own tests come before it.
pub(super) const UNINSTALL: Target = Target::new("uninstall", "1");

/// What takes longest is first.
pub(super) const HOMES: [Home; 4] = [
    Home {
        name: "whole",
        variant: Variant::WHOLE,
        is_late: false,
        values: Some(&[]),
        targets: &[
            Target { soaks: true, ..Target::that_needs(Needs::Nothing, "cluster", "3") },
            Target::new("node", "3"),
            Target { waits: true, ..Target::that_soaks("hostile", "2") },
            // It reads what the others had app and operator do.
            Target::new("rights", "1"),
            UNINSTALL,
        ],
    },
    // What changes policies and kills parts of the node wants a cluster of its own.
    Home {
        name: "network",
        variant: Variant::WHOLE,
        is_late: false,
        values: Some(&[]),
        targets: &[
            Target::that_soaks("network", "1"),
            // As above, of what is done here.
            Target::new("refused", "1"),
            Target::that_needs(Needs::Nothing, "upgrade", "1"),
            Target::that_soaks("chaos", "1"),
        ],
    },
    // Nothing enforces policies there, and nothing makes volumes.
    Home {
        name: "open",
        variant: Variant::PLAIN,
        is_late: true,
        values: Some(&["--set", "postgres.persistence.enabled=false,backup.enabled=false"]),
        targets: &[
            Target::that_needs(Needs::OpenNetwork, "open", "1"),
            Target::that_needs(Needs::Nothing, "granted", "1"),
        ],
    },
    // It installs for itself, where nothing is.
    Home {
        name: "backup",
        variant: Variant::WHOLE,
        is_late: true,
        values: None,
        targets: &[Target::new("backup", "1")],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use xtask_shell::workspace::root;

    use super::*;

    /// Words by which tests ask for a node of ours, and what is there elsewhere.
    const OF_A_NODE: [&str; 7] = [
        "audit::",
        "beside::",
        "host::",
        "node()",
        "198.51.",
        "FAMULUS_TEST_NODE",
        "FAMULUS_TEST_XTASK",
    ];

    /// The files of a target, with those of others that it takes in.
    fn files(target: &str) -> Vec<PathBuf> {
        let folders = ["tests/cluster/tests", "app/cluster/tests"];
        let mut folders = folders.iter().map(|folder| root().join(folder).join(target));
        let mut left = vec![folders.find(|folder| folder.is_dir()).unwrap()];
        let mut files = Vec::new();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let others = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
            left.extend(others.map(|other| path.parent().unwrap().join(other)));
            files.push(path);
        }
        files
    }

    #[test]
    fn what_needs_no_node_of_ours_asks_for_nothing_of_one() {
        let targets = || HOMES.iter().flat_map(|home| home.targets);
        let mut asked = BTreeSet::new();
        for target in targets().filter(|target| target.needs != Needs::Node) {
            for file in files(target.name) {
                let text = fs::read_to_string(&file).unwrap();
                for word in OF_A_NODE.iter().filter(|word| text.contains(**word)) {
                    asked.insert(format!("{}: {}: {word}", target.name, file.display()));
                }
            }
        }
        assert_eq!(asked, BTreeSet::new());
        // What does ask is found.
        for target in targets().filter(|target| target.needs == Needs::Node) {
            let asks = |file: &PathBuf| {
                let text = fs::read_to_string(file).unwrap();
                OF_A_NODE.iter().any(|word| text.contains(word))
            };
            assert!(files(target.name).iter().any(asks), "{} needs no node", target.name);
        }
    }
}
