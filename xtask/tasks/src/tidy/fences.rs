//! Which crate of ours may know which foreign crate, where that is a permission too.
//!
//! Only ordinary dependencies count; a test may know more. What the built-in tools may not do comes
//! with every crate, so for them the sources count, tests included.

use super::Complaint;
use super::code::{Word, words};
use super::files::Source;
use super::manifests::Member;

/// What the foreign crate lets its user do, and who may.
struct Fence {
    foreign: &'static str,
    means: &'static str,
    allowed: &'static [&'static str],
}

const FENCES: [Fence; 16] = [
    Fence {
        foreign: "sqlx",
        means: "queries live in the queue and the store",
        // The last makes databases for tests.
        allowed: &["famulus-queue", "famulus-store", "famulus-test-database"],
    },
    Fence {
        foreign: "sqlx-core",
        means: "queries live in the queue and the store",
        allowed: &["famulus-queue", "famulus-store"],
    },
    Fence {
        foreign: "age",
        means: "backups are what is encrypted to the owner's key",
        allowed: &["famulus-backup"],
    },
    Fence {
        foreign: "object_store",
        means: "backups are what is kept in a bucket",
        allowed: &["famulus-backup"],
    },
    Fence {
        foreign: "axum",
        means: "HTTP is served by the api, by runners to the app, to backups, and by scripted peers",
        allowed: &[
            "famulus-api",
            "famulus-held",
            "famulus-runner-harness",
            "famulus-scripted-signal",
            "famulus-scripted-telegram",
            "famulus-server",
        ],
    },
    Fence {
        foreign: "utoipa",
        means: "the HTTP contract is described where it is served",
        allowed: &["famulus-api"],
    },
    Fence {
        foreign: "reqwest",
        means: "HTTP is spoken to models, channels, runners, daemons and by the command line, and by the \
                tests of an installation",
        allowed: &[
            "famulus-channels",
            "famulus-cli",
            "famulus-cluster",
            "famulus-cluster-tests",
            "famulus-held",
            "famulus-models",
            "famulus-sandbox",
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
        foreign: "smoltcp",
        means: "packets of a sandbox are taken outside of it by one program",
        allowed: &["famulus-network"],
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
        allowed: &["famulus-cli", "famulus-server", "xtask", "xtask-bench", "xtask-cluster"],
    },
    Fence {
        foreign: "anyhow",
        means: "libraries have typed errors",
        allowed: &[
            "famulus-cli",
            "famulus-server",
            "xtask",
            "xtask-bench",
            "xtask-cluster",
            "xtask-postgres",
            "xtask-shell",
        ],
    },
];

/// The built-in tools.
const TOOLS: &str = "app/tools/";

/// Files, processes and the network: what a tool reaches, it reaches through a port.
const CLOSED_TO_TOOLS: [(&str, &[&str]); 2] =
    [("std", &["fs", "net", "os", "process", "*"]), ("tokio", &["fs", "net", "process", "*"])];

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

pub(super) fn check_tools(sources: &[Source]) -> Vec<Complaint> {
    let tools = || sources.iter().filter(|source| source.path.starts_with(TOOLS));
    if tools().next().is_none() {
        return vec![format!("{TOOLS}: holds no source; say in tidy where the built-in tools are")];
    }
    tools().flat_map(closed_to_tools).collect()
}

fn closed_to_tools(source: &Source) -> Vec<Complaint> {
    let words = words(&source.text);
    let mut complaints = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let closed = CLOSED_TO_TOOLS.iter().find(|(name, _)| *name == word.text);
        let Some((name, closed)) = closed else { continue };
        for part in named(&words[at + 1..]).into_iter().filter(|part| closed.contains(&part.text)) {
            complaints.push(format!(
                "{}:{}: a built-in tool must not use {name}::{}; put a port into famulus-core, or \
                 make the tool a plugin",
                source.path, part.line, part.text
            ));
        }
    }
    complaints
}

/// The names right after a `::`: one, or those of a group.
fn named<'a>(rest: &'a [Word<'a>]) -> Vec<&'a Word<'a>> {
    let [Word { text: ":", .. }, Word { text: ":", .. }, rest @ ..] = rest else {
        return Vec::new();
    };
    let (mut found, mut depth, mut begins) = (Vec::new(), 0_usize, true);
    for word in rest {
        match word.text {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ if begins => found.push(word),
            _ => {}
        }
        begins = depth == 1 && ["{", ","].contains(&word.text);
        if depth == 0 {
            break;
        }
    }
    found
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

    #[test]
    fn a_tool_that_reaches_past_its_ports_is_a_complaint() {
        let check = |path: &str, text: &str| {
            check_tools(&[Source { path: path.to_owned(), text: text.to_owned() }])
        };
        let refused: [(&str, &[&str]); 9] = [
            ("use std::fs;", &["1: std::fs"]),
            ("use std::{collections::BTreeMap, fs};", &["1: std::fs"]),
            (
                "use std::{\n    fs::{self, File},\n    net::IpAddr,\n};",
                &["2: std::fs", "3: std::net"],
            ),
            ("use {std::process, tokio::net};", &["1: std::process", "1: tokio::net"]),
            ("fn a() {\n    ::std::process::Command::new(\"sh\");\n}", &["2: std::process"]),
            ("use std::os::unix::net::UnixStream;", &["1: std::os"]),
            ("type A = tokio::process::Command;", &["1: tokio::process"]),
            ("#[cfg(test)]\nmod tests { use tokio::{fs as files, time}; }", &["2: tokio::fs"]),
            ("use tokio::*;", &["1: tokio::*"]),
        ];
        for (text, expected) in refused {
            let expected: Vec<Complaint> = expected
                .iter()
                .filter_map(|place| place.split_once(": "))
                .map(|(line, what)| {
                    format!(
                        "app/tools/src/a.rs:{line}: a built-in tool must not use {what}; put a port \
                         into famulus-core, or make the tool a plugin"
                    )
                })
                .collect();
            assert_eq!(check("app/tools/src/a.rs", text), expected, "{text}");
        }
        let passed = [
            "// std::fs\nconst A: &str = \"std::process\";",
            "use std::{fmt, io::{self, Read}, time};\nfn a(fs: u8, net: u8) -> u8 { fs + net }",
            "use std::{sync::{process, fs}, fmt};",
            "use tokio::sync::Mutex;\nuse crate::net;",
        ];
        for text in passed {
            assert_eq!(check("app/tools/src/a.rs", text), Vec::<Complaint>::new(), "{text}");
        }
        let elsewhere = check("app/local/src/a.rs", "use std::fs;");
        assert_eq!(elsewhere.len(), 1);
        assert!(elsewhere[0].starts_with("app/tools/: holds no source"));
    }
}
