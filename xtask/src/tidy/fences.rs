//! Which crate of ours may know which foreign crate, where that is a permission too.
//!
//! Only ordinary dependencies count; a test may know more.

use super::Complaint;
use super::manifests::Member;

/// What the foreign crate lets its user do, and who may.
struct Fence {
    foreign: &'static str,
    means: &'static str,
    allowed: &'static [&'static str],
}

const FENCES: [Fence; 12] = [
    Fence {
        foreign: "sqlx",
        means: "queries live in the queue and the store",
        allowed: &["famulus-queue", "famulus-store"],
    },
    Fence {
        foreign: "axum",
        means: "HTTP is served by the api, and by runners to the app",
        allowed: &["famulus-api", "famulus-runner-harness", "famulus-server"],
    },
    Fence {
        foreign: "utoipa",
        means: "the HTTP contract is described where it is served",
        allowed: &["famulus-api"],
    },
    Fence {
        foreign: "reqwest",
        means: "HTTP is spoken to models, channels, tools, runners and by the command line, and by \
                the tests of an installation",
        allowed: &[
            "famulus-channels",
            "famulus-cli",
            "famulus-cluster",
            "famulus-cluster-tests",
            "famulus-local",
            "famulus-models",
            "famulus-tools",
        ],
    },
    Fence {
        foreign: "kube",
        means: "a cluster is described by the custom resources, changed by the operator, and asked by \
                the app's adapter",
        allowed: &["famulus-cluster", "famulus-crds", "famulus-operator"],
    },
    Fence {
        foreign: "k8s-openapi",
        means: "a cluster is described by the custom resources, changed by the operator, and asked by \
                the app's adapter",
        allowed: &["famulus-cluster", "famulus-crds", "famulus-operator"],
    },
    Fence {
        foreign: "landlock",
        means: "untrusted code is confined by the harness of the runners",
        allowed: &["famulus-runner-harness"],
    },
    Fence {
        foreign: "opentelemetry",
        means: "traces leave through telemetry",
        allowed: &["famulus-telemetry"],
    },
    Fence {
        foreign: "tracing-subscriber",
        means: "logs leave through telemetry, behind its redactor",
        allowed: &["famulus-telemetry"],
    },
    Fence {
        foreign: "figment",
        means: "the configuration is read in one place",
        allowed: &["famulus-server"],
    },
    Fence {
        foreign: "clap",
        means: "arguments belong to programs",
        allowed: &["famulus-cli", "famulus-server", "xtask"],
    },
    Fence {
        foreign: "anyhow",
        means: "libraries have typed errors",
        allowed: &["famulus-cli", "famulus-server", "xtask"],
    },
];

pub(super) fn check(members: &[Member]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for Fence { foreign, means, allowed } in &FENCES {
        for member in members.iter().filter(|member| member.normal.contains(*foreign)) {
            if !allowed.contains(&member.name.as_str()) {
                complaints.push(format!("{}: must not use {foreign}: {means}", member.name));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listed_crates_pass_a_fence() {
        let member = |name: &str| Member {
            name: name.to_owned(),
            normal: ["sqlx".to_owned()].into(),
            ..Member::default()
        };
        let complaints = check(&[member("famulus-store"), member("famulus-agent")]);
        assert_eq!(
            complaints,
            ["famulus-agent: must not use sqlx: queries live in the queue and the store"]
        );
    }
}
