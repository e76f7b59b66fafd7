//! The list of escapes, tried from inside: by a tool, and by the init script of a build.

use std::fs;

use serde_json::{Value, json};

use famulus_cluster_tests::kubectl::{address, object, objects};
use famulus_cluster_tests::release::{Release, name};
use famulus_plugin_life::File;
use famulus_plugin_life::escape::{Outcomes, POD, Tried, judged, of_init, of_part};

use crate::kinds::{Kind, classes, is_what_it_is, plugin, pod, run, with_init};

/// Attempts that may work, where, and why that lets nobody out.
const HARMLESS: [(&[Kind], &str, &str); 8] = [
    (
        &[Kind::Host, Kind::User],
        "files: watches the bearer",
        "Landlock knows no watches: it hears that the runner opened the file, and cannot open it",
    ),
    (OWN, "files: opens /dev/fuse", "emulated; without the right to mount it serves nobody"),
    (OWN, "files: opens /dev/net/tun", "emulated; without the right to the network it is dead"),
    (OWN, "kernel: makes a namespace: time", "a clock of its own is seen by itself"),
    (OWN, "kernel: takes the processor first", "a number that gVisor keeps and does not use"),
    (OWN, "runner: asks for locks of the runner", "an address in a memory that it cannot read"),
    (OWN, "runner: lists descriptors of the runner", "numbers; none of them can be opened"),
    (OWN, "runner: lists descriptors of the supervisor", "numbers; none of them can be opened"),
];

/// What an init script may do, wherever it runs: nobody listens there, and nobody is let in.
const PORTS: &str = "pod: takes the port of ";

/// What it may do besides where it has the internet, for packages.
const PUBLIC: [&str; 3] = [
    "network: connects to public canary",
    "network: asks the public for names",
    "network: sends echo requests to public canary",
];

/// gVisor: the kernel that is asked is the sandbox's own.
const OWN: &[Kind] = &[Kind::Gvisor];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Tool,
    Init,
    /// An init script that reaches what the tools reach, which is nothing.
    ShutInit,
}

/// Who tries the list day by day: tools in each kind of Pod, init scripts in the kind that is preferred.
const DAILY: &[(Place, Kind)] = &[
    (Place::Tool, Kind::Host),
    (Place::Tool, Kind::User),
    (Place::Tool, Kind::Gvisor),
    (Place::Init, Kind::User),
    (Place::ShutInit, Kind::User),
];

impl Place {
    fn of(self, kind: Kind) -> String {
        match self {
            Self::Tool => format!("escape-{}", kind.name()),
            Self::Init => format!("escape-init-{}", kind.name()),
            Self::ShutInit => format!("escape-shut-{}", kind.name()),
        }
    }

    fn spec(self) -> Value {
        match self {
            Self::Tool | Self::Init => json!({}),
            Self::ShutInit => json!({"egress": {"init": "AsTools"}}),
        }
    }
}

#[tokio::test]
async fn no_way_out_of_a_plugins_pod_is_found_in_any_kind_of_it() {
    tried_by(DAILY).await;
}

mod soak {
    use super::*;

    #[tokio::test]
    async fn no_way_out_of_the_pod_of_a_build_is_found_in_any_kind_of_it() {
        tried_by(&[(Place::Init, Kind::Host), (Place::Init, Kind::Gvisor)]).await;
    }
}

async fn tried_by(who: &[(Place, Kind)]) {
    classes().await;
    let release = Release::open().await;
    let tool = POD.tool();
    let files = listed(&tool);
    let neighbour = "escape-neighbour";
    release.apply(&plugin(neighbour, Kind::Host, &files, &json!({}))).await;
    let (tools, inits): (Vec<_>, Vec<_>) =
        who.iter().copied().partition(|(place, _)| *place == Place::Tool);
    for (place, kind) in tools.iter().copied() {
        release.apply(&plugin(&place.of(kind), kind, &files, &place.spec())).await;
    }
    release.condition(neighbour, "Ready=True").await;
    is_what_it_is(&release, Kind::Host, neighbour).await;
    run(&release, neighbour, "escape", &json!({"part": "runner"})).await;
    let around = around(&release, neighbour).await;

    let init = POD.init(&around);
    let files = listed(&init);
    for (place, kind) in inits.iter().copied() {
        release.apply(&with_init(&place.of(kind), kind, &files, &place.spec())).await;
    }
    let mut wrong = Vec::new();
    for (place, kind) in tools.iter().copied() {
        let name = place.of(kind);
        release.condition(&name, "Ready=True").await;
        is_what_it_is(&release, kind, &name).await;
        let said = run(&release, &name, "escape", &json!({"part": "version"})).await;
        has_such_a_kernel(kind, &name, said["output"]["text"].as_str().unwrap());
        wrong.extend(went_wrong(kind, place, &of_tool(&release, &name, &around.to_string()).await));
    }
    for (place, kind) in inits.iter().copied() {
        let name = place.of(kind);
        release.condition(&name, "Ready=True").await;
        is_what_it_is(&release, kind, &name).await;
        wrong.extend(went_wrong(kind, place, &init_of(&release, kind, &name).await));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all: Vec<String> = who.iter().map(|(place, kind)| place.of(*kind)).collect();
    let all = [neighbour].into_iter().chain(all.iter().map(String::as_str));
    release.delete(&all.collect::<Vec<_>>()).await;
}

fn listed(files: &[File]) -> Vec<(&str, &str)> {
    files.iter().map(|file| (file.path.as_str(), file.content.as_str())).collect()
}

async fn of_tool(release: &Release, name: &str, around: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for part in POD.parts {
        let run = run(release, name, "escape", &json!({"part": part, "around": around})).await;
        let text = run["output"]["text"].as_str().unwrap();
        let of_part = of_part(part, text);
        let of_part = of_part.unwrap_or_else(|error| panic!("{name}, {part}: {error}: {run}"));
        println!("{name}, {part}: {} attempts in {} ms", of_part.len(), run["millis"]);
        outcomes.extend(of_part);
    }
    outcomes
}

/// The Pod of a build is gone when its outcomes are read, so they say of what kind it was.
async fn init_of(release: &Release, kind: Kind, name: &str) -> Outcomes {
    let run = run(release, name, "seen", &json!({})).await;
    let text = run["output"]["text"].as_str().unwrap();
    let tried = of_init(text).unwrap_or_else(|error| panic!("{name}: {error}: {run}"));
    let Tried { place, outcomes } = tried;
    has_such_a_kernel(kind, name, &place["version"]);
    has_such_users(kind, name, &place["self/uid_map"]);
    outcomes
}

/// What went otherwise than it must.
fn went_wrong(kind: Kind, place: Place, outcomes: &Outcomes) -> Vec<String> {
    let who = format!("{kind:?}, {place:?}");
    let judgement = judged(&who, outcomes, |attempt| is_harmless(kind, place, attempt));
    println!("{who}: {} attempts, {} blocked", judgement.attempts, judgement.blocked);
    judgement.wrong
}

fn is_harmless(kind: Kind, place: Place, attempt: &str) -> bool {
    let anywhere =
        HARMLESS.iter().any(|(kinds, name, _why)| kinds.contains(&kind) && attempt == *name);
    let in_a_build = match place {
        Place::Tool => false,
        Place::Init => attempt.starts_with(PORTS) || PUBLIC.contains(&attempt),
        Place::ShutInit => attempt.starts_with(PORTS),
    };
    anywhere || in_a_build
}

/// Where others are.
async fn around(release: &Release, neighbour: &str) -> Value {
    let of =
        async |part: &str| address(&name(), &format!("app.kubernetes.io/component={part}")).await;
    let (app, database, operator) = (of("app").await, of("postgres").await, of("operator").await);
    let neighbour = pod(release, neighbour).await;
    let neighbour = neighbour["status"]["podIP"].as_str().unwrap();
    let cluster_address = async |namespace: &str, service: &str| {
        let service = object(namespace, "service", service).await;
        service.map(|one| one["spec"]["clusterIP"].as_str().unwrap().to_owned())
    };
    let api = cluster_address("default", "kubernetes").await.unwrap();
    let names = cluster_address("kube-system", "kube-dns").await.unwrap_or_else(|| api.clone());
    let nodes = objects("", "nodes", "").await;
    let node = nodes[0]["status"]["addresses"][0]["address"].as_str().unwrap();
    json!({
        "callback": format!("{app}:3002"),
        "app": format!("{app}:3000"),
        "sandbox canary": format!("{app}:3003"),
        "database": format!("{database}:5432"),
        "operator": format!("{operator}:8080"),
        "neighbour": format!("{neighbour}:8090"),
        "api server": format!("{node}:6443"),
        "api service": format!("{api}:443"),
        "kubelet": format!("{node}:10250"),
        "runner's node": format!("{node}:22"),
        "metadata": "169.254.169.254:80",
        "name server": format!("{names}:53"),
        "public names": "198.51.100.53:53",
        "public canary": "198.51.100.10:80",
    })
}

/// A tool and an init script run under the kernel of the node, or under one of their own.
fn has_such_a_kernel(kind: Kind, name: &str, version: &str) {
    let is_of_the_node = version.trim() == fs::read_to_string("/proc/version").unwrap().trim();
    assert!(version.starts_with("Linux version"), "{name}: {version}");
    assert_eq!(is_of_the_node, kind != Kind::Gvisor, "{name}: a kernel of its own? {version}");
}

/// Its users are those around it, or others that a namespace maps. In gVisor the runner walls it in with its own
/// user alone.
fn has_such_users(kind: Kind, name: &str, map: &str) {
    let words: Vec<&str> = map.split_whitespace().collect();
    let [inside, outside, _count] = words[..] else { panic!("{name}: {map:?}") };
    assert_eq!(inside == outside, kind != Kind::User, "{name}: {map}");
}
