//! Which crate of ours may know which: a crate is a permission, and this is the list of them.
//!
//! Only ordinary dependencies count; a test may know more.

use std::collections::BTreeSet;

use super::Complaint;
use super::manifests::Member;

/// Whoever handles an error may say it with its causes.
const ERRORS: &str = "famulus-errors";

/// Whoever goes to an address that somebody else named asks where that is.
const NETGUARD: &str = "famulus-netguard";

/// Programs of a cluster are told what to do by their environment.
const SETTINGS: &str = "famulus-settings";

/// Streams of events are read as the standard says, whatever they mean.
const SSE: &str = "famulus-sse";

/// Tasks may be spawned by everybody but `core`, which has none; and what others await is boxed.
const LIFECYCLE: &str = "famulus-lifecycle";

/// What the programs of `xtask` share. They know nothing of each other: one would build the others.
const SHELL: &str = "xtask-shell";

const EDGES: &[(&str, &[&str])] = &[
    ("famulus-core", &[]),
    ("famulus-crds", &[]),
    ("famulus-errors", &[]),
    ("famulus-lifecycle", &[]),
    ("famulus-netguard", &[]),
    (SETTINGS, &[]),
    (SSE, &[]),
    ("famulus-telemetry", &[]),
    ("famulus-backup", &["famulus-core", ERRORS, LIFECYCLE]),
    ("famulus-channels", &["famulus-core", LIFECYCLE, SSE]),
    ("famulus-models", &["famulus-core", LIFECYCLE, NETGUARD, SSE]),
    ("famulus-queue", &["famulus-core", LIFECYCLE]),
    ("famulus-agent", &["famulus-core", LIFECYCLE]),
    ("famulus-store", &["famulus-core", "famulus-queue", LIFECYCLE]),
    ("famulus-tools", &["famulus-core", LIFECYCLE]),
    ("famulus-reception", &["famulus-core", LIFECYCLE]),
    ("famulus-viewers", &["famulus-core", ERRORS]),
    ("famulus-held", &[ERRORS]),
    ("famulus-local", &[LIFECYCLE]),
    ("famulus-machine", &["famulus-core", "famulus-protocol", "famulus-sandbox", LIFECYCLE]),
    (
        "famulus-plugins",
        &[
            "famulus-core",
            "famulus-machine",
            "famulus-protocol",
            "famulus-sandbox",
            ERRORS,
            LIFECYCLE,
        ],
    ),
    (
        "famulus-api",
        &[
            "famulus-core",
            "famulus-channels",
            "famulus-reception",
            "famulus-store",
            "famulus-viewers",
            ERRORS,
            LIFECYCLE,
        ],
    ),
    ("famulus-cli", &["famulus-core", ERRORS, NETGUARD, SSE]),
    ("famulus-cluster-tests", &["famulus-scripted-telegram"]),
    ("famulus-plugin-life", &[]),
    ("famulus-scripted-signal", &[LIFECYCLE]),
    ("famulus-scripted-telegram", &[LIFECYCLE]),
    ("famulus-test-database", &["famulus-store"]),
    ("famulus-sandbox", &["famulus-core", "famulus-protocol", ERRORS, LIFECYCLE]),
    (
        "famulus-cluster",
        &["famulus-core", "famulus-crds", "famulus-protocol", "famulus-sandbox", ERRORS, LIFECYCLE],
    ),
    (
        "famulus-server",
        &[
            "famulus-agent",
            "famulus-api",
            "famulus-backup",
            "famulus-channels",
            "famulus-cli",
            "famulus-cluster",
            "famulus-core",
            ERRORS,
            "famulus-held",
            LIFECYCLE,
            "famulus-local",
            "famulus-machine",
            "famulus-models",
            "famulus-plugins",
            "famulus-queue",
            "famulus-reception",
            "famulus-sandbox",
            "famulus-store",
            "famulus-telemetry",
            "famulus-tools",
            "famulus-viewers",
        ],
    ),
    ("famulus-protocol", &[]),
    ("famulus-bundle", &["famulus-protocol"]),
    ("famulus-runner-harness", &["famulus-protocol", LIFECYCLE, SETTINGS]),
    ("famulus-launcher", &["famulus-network", "famulus-protocol", "famulus-runner-harness"]),
    ("famulus-network", &["famulus-netguard"]),
    (
        "famulus-runner",
        &[
            "famulus-bundle",
            "famulus-launcher",
            "famulus-protocol",
            "famulus-runner-harness",
            ERRORS,
            LIFECYCLE,
            NETGUARD,
            SETTINGS,
            "famulus-telemetry",
        ],
    ),
    // What a build is told and reports is said in runners/protocol; calls are the app's alone.
    (
        "famulus-operator",
        &["famulus-crds", ERRORS, LIFECYCLE, "famulus-protocol", SETTINGS, "famulus-telemetry"],
    ),
    ("xtask", &["xtask-postgres", SHELL]),
    ("xtask-bench", &["xtask-postgres", SHELL]),
    ("xtask-cluster", &[SHELL]),
    ("xtask-postgres", &["famulus-local", LIFECYCLE, SHELL]),
    (SHELL, &["famulus-local", LIFECYCLE]),
];

pub(super) fn check(members: &[Member]) -> Vec<Complaint> {
    let ours: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut complaints = Vec::new();
    for member in members {
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == member.name) else {
            complaints.push(format!(
                "{}: has no line in the table of edges; say there what it may know",
                member.name
            ));
            continue;
        };
        for known in member.normal.iter().filter(|name| ours.contains(name.as_str())) {
            if !allowed.contains(&known.as_str()) {
                complaints.push(format!(
                    "{}: must not know {known}; put a port into famulus-core, or argue a new edge",
                    member.name
                ));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlisted_edge_and_an_unlisted_crate_are_complaints() {
        let member = |name: &str, normal: &[&str]| Member {
            name: name.to_owned(),
            normal: normal.iter().map(ToString::to_string).collect(),
            ..Member::default()
        };
        let members = [
            member("famulus-core", &["serde"]),
            member("famulus-queue", &["famulus-core", "famulus-store"]),
            member("famulus-store", &["famulus-core", "famulus-queue", "sqlx"]),
            member("famulus-new", &[]),
        ];
        let complaints = check(&members);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].contains("famulus-queue: must not know famulus-store"));
        assert!(complaints[1].contains("famulus-new: has no line"));
    }
}
