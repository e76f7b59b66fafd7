//! The list of escapes, tried from inside.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use famulus_cluster_tests::kubectl::{LONG, address, object, objects, until};
use famulus_cluster_tests::release::{Release, name};

use crate::kinds::{Kind, classes, long, plugin, pod, run, tool};

const FILES: [(&str, &str); 5] = [
    ("escape/run.py", include_str!("escape/run.py")),
    ("escape/kernel.py", include_str!("escape/kernel.py")),
    ("escape/runner.py", include_str!("escape/runner.py")),
    ("escape/files.py", include_str!("escape/files.py")),
    ("escape/network.py", include_str!("escape/network.py")),
];

const PARTS: [&str; 4] = ["kernel", "runner", "files", "network"];

/// At least so many are on the list.
const ATTEMPTS: usize = 350;

/// Attempts that may work, where, and why that lets nobody out.
const HARMLESS: [(&[Kind], &str, &str); 13] = [
    (
        &[Kind::Host, Kind::User],
        "files: watches the bearer",
        "Landlock knows no watches: it hears that the runner opened the file, and cannot open it",
    ),
    (OWN, "files: opens /dev/fuse", "emulated; without the right to mount it serves nobody"),
    (OWN, "files: opens /dev/net/tun", "emulated; without the right to the network it is dead"),
    (OWN, "kernel: joins a ring of keys", "the ring is empty, and of this kernel"),
    (OWN, "kernel: makes a namespace: time", "a clock of its own is seen by itself"),
    (OWN, "kernel: makes a namespace: user", "what it holds there is what it held before"),
    (OWN, "kernel: starts a process in a namespace", "as above"),
    (OWN, "kernel: starts a process in a namespace (3)", "as above"),
    (OWN, "kernel: reads the kernel's log", "made up by gVisor, and nothing of the node's"),
    (OWN, "kernel: takes the processor first", "a number that gVisor keeps and does not use"),
    (OWN, "runner: asks for locks of the runner", "an address in a memory that it cannot read"),
    (OWN, "runner: lists descriptors of the runner", "numbers; none of them can be opened"),
    (OWN, "runner: lists descriptors of the supervisor", "numbers; none of them can be opened"),
];

/// gVisor: the kernel that is asked is the sandbox's own.
const OWN: &[Kind] = &[Kind::Gvisor];

#[tokio::test]
async fn no_way_out_of_a_plugins_pod_is_found_in_any_kind_of_it() {
    classes().await;
    let release = Release::open().await;
    let manifest = long(&tool("escape", "run.py", &["part", "around"]));
    let mut files = vec![("escape/manifest.json", manifest.as_str())];
    files.extend(FILES);
    let neighbour = "escape-neighbour";
    release.apply(&plugin(neighbour, Kind::Host, &files, &json!({}))).await;
    for kind in Kind::ALL {
        let name = format!("escape-{}", kind.name());
        release.apply(&plugin(&name, kind, &files, &json!({}))).await;
    }
    release.condition(neighbour, "Ready=True").await;
    run(&release, neighbour, "escape", &json!({"part": "runner"})).await;
    let around = around(&release, neighbour).await;

    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let name = format!("escape-{}", kind.name());
        release.condition(&name, "Ready=True").await;
        let mut outcomes = BTreeMap::new();
        for part in PARTS {
            let given = json!({"part": part, "around": around.to_string()});
            let run = run(&release, &name, "escape", &given).await;
            let text = run["output"]["text"].as_str().unwrap();
            let of_part: BTreeMap<String, String> = serde_json::from_str(text)
                .unwrap_or_else(|error| panic!("{name}, {part}: {error}: {run}"));
            println!("{name}, {part}: {} attempts in {} ms", of_part.len(), run["millis"]);
            outcomes.extend(
                of_part.into_iter().map(|(name, outcome)| (format!("{part}: {name}"), outcome)),
            );
        }
        is_of_this_kind(&release, kind, &name).await;
        wrong.extend(judged(kind, &outcomes));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    release.delete(&[neighbour, "escape-host", "escape-user", "escape-gvisor"]).await;
}

/// What went otherwise than it must.
fn judged(kind: Kind, outcomes: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut blocked = 0;
    for (attempt, outcome) in outcomes {
        let succeeded = outcome.starts_with("SUCCEEDED");
        let is_control = attempt.contains(": control: ");
        let is_harmless =
            HARMLESS.iter().any(|(kinds, name, _why)| kinds.contains(&kind) && attempt == name);
        blocked += usize::from(outcome.starts_with("blocked"));
        if outcome.starts_with("broken") || succeeded != is_control && !(succeeded && is_harmless) {
            wrong.push(format!("{kind:?}, {attempt}: {outcome}"));
        }
    }
    println!("{kind:?}: {} attempts, {blocked} blocked", outcomes.len());
    if outcomes.len() < ATTEMPTS {
        wrong.push(format!("{kind:?}: {} attempts of {ATTEMPTS}", outcomes.len()));
    }
    wrong
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

/// Whether the Pod is what it is taken for; otherwise the list proves nothing.
async fn is_of_this_kind(release: &Release, kind: Kind, name: &str) {
    let pod = pod(release, name).await;
    let host_users = pod["spec"]["hostUsers"].as_bool().unwrap_or(true);
    assert_eq!(host_users, kind != Kind::User, "{name}: {}", pod["spec"]);
    let plugin = until("the kind is known", LONG, async || {
        let plugin = object(&release.sandbox, "plugin", name).await.unwrap();
        let known = plugin["status"]["isolation"]["userNamespace"].is_boolean();
        if known { Ok(plugin) } else { Err(plugin["status"].to_string()) }
    })
    .await;
    assert_eq!(plugin["status"]["isolation"]["userNamespace"], json!(kind == Kind::User));
    let said = run(release, name, "escape", &json!({"part": "version"})).await;
    let version = said["output"]["text"].as_str().unwrap().trim();
    let is_of_the_node = version == fs::read_to_string("/proc/version").unwrap().trim();
    assert!(version.starts_with("Linux version"), "{name}: {said}");
    assert_eq!(is_of_the_node, kind != Kind::Gvisor, "{name}: a kernel of its own? {version}");
}
