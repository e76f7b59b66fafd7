//! What must hold of the manifests, whatever the values.
//!
//! Each case is a set of values; each rule is a file, and runs over every case.

mod base;
mod isolation;
mod names;
mod refusals;
mod restricted;
mod rights;
mod secrets;
mod wiring;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;
use xtask_shell::workspace::cache;

use super::helm::Helm;

/// A release with the values that it is rendered with.
struct Case {
    name: &'static str,
    args: &'static [&'static str],
}

const CASES: [Case; 8] = [
    Case { name: "defaults", args: &[] },
    Case {
        name: "a Postgres of one's own",
        args: &["--set", "database.existingSecret=mine,database.key=dsn,database.port=6432"],
    },
    Case { name: "without definitions", args: &["--set", "crds.enabled=false"] },
    Case { name: "for kubectl", args: &["--set", "hooks.enabled=false"] },
    Case { name: "everything by other names", args: EXISTING },
    Case { name: "everything on", args: EVERYTHING },
    Case { name: "restored from a bucket", args: RESTORED },
    Case {
        name: "backups of a Postgres of one's own",
        args: &[
            "--set",
            "database.existingSecret=mine,database.port=6432,backup.database.existingSecret=reader",
        ],
    },
];

const EXISTING: &[&str] = &[
    "--set",
    "secrets.rootKey.existingSecret=root,secrets.token.existingSecret=token,secrets.keeperKey.existingSecret=keeper",
    "--set",
    "postgres.existingSecret=pg,sandbox.namespace=cage,sandbox.create=false",
];

const EVERYTHING: &[&str] = &[
    "--set",
    "app.ingress.enabled=true,app.ingress.host=famulus.example,app.ingress.tlsSecret=tls",
    "--set",
    "serviceMonitor.enabled=true,priorityClass.create=true,app.replicas=3,operator.replicas=2",
    "--set",
    "app.model.baseUrl=http://192.168.1.9:11434/v1,app.model.name=m,app.model.existingSecret=model",
    "--set",
    "app.telegram.existingSecret=bot,app.telegram.baseUrl=http://bots:8081",
    "--set-string",
    "signal.image=registry.example/signal-cli:1,app.signal.account=+491701234567",
    "--set",
    "app.signal.servesEverybody=true",
    "--set",
    "app.transcription.baseUrl=http://whisper:9000/v1,app.transcription.name=large,app.speech.baseUrl=https://api.example.org/v1,app.speech.name=tts,app.speech.existingSecret=speech",
    "--set",
    "app.config=x=1,postgres.settings.work_mem=8MB,postgres.persistence.enabled=false",
    "--set",
    "network.buildHosts[0].host=git.home.example,network.buildHosts[0].cidr=192.168.1.20/32",
    "--set",
    "network.buildHosts[0].port=443,telemetry.otlpEndpoint=http://collector:4318",
    "--set",
    "network.clusterRanges={203.0.113.9/32},resolver.forwardTo={192.168.1.1@5353,9.9.9.9}",
    "--set",
    "network.appFrom[0].podSelector.matchLabels.app=proxy",
    "--set",
    "network.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
    "--set",
    "sandbox.breakGlass.users={ada},sandbox.breakGlass.groups={admins}",
    "--set",
    "plugins.packages.python=https://pypi.home.example/simple/,plugins.packages.npm=http://npm/",
    "--set",
    "plugins.packages.existingSecret=mirror",
    "--set",
    "image.pullSecrets={pull},plugins.runtimeClassName=gvisor,plugins.nodeSelector.disk=ssd",
    "--set",
    "backup.s3.bucket=b,backup.s3.existingSecret=s3,backup.s3.ca.existingSecret=ca",
    "--set",
    "backup.s3.prefix=home/,backup.s3.endpoint=https://s3.home.example:9000,backup.keep.yearly=9",
    "--set",
    "backup.recipient=age1abc,backup.identity.existingSecret=identity",
];

const RESTORED: &[&str] = &[
    "--set",
    "backup.s3.bucket=b,backup.s3.existingSecret=s3",
    "--set",
    "restore.from=latest,restore.at=2026-11-24T18:00:00Z",
];

/// The objects of a case, for the release `home` in the namespace `assistant`.
fn objects(case: &Case) -> Vec<Value> {
    /// Most rules look at all cases, and a rendering takes Helm a third of a second.
    static RENDERED: LazyLock<BTreeMap<&str, Vec<Value>>> = LazyLock::new(|| {
        CASES.iter().map(|case| (case.name, release("home", "assistant", case.args))).collect()
    });
    RENDERED[case.name].clone()
}

fn release(name: &str, namespace: &str, args: &[&str]) -> Vec<Value> {
    parse(&helm().render(name, namespace, args).unwrap())
}

/// The program that `HELM` names, or the one that was built for the test cluster.
fn helm() -> Helm {
    let named = std::env::var_os("HELM").map(PathBuf::from);
    let program = named.or_else(|| built(&cache().join("cluster-programs")));
    let program = program.expect("helm is missing: run `cargo xtask cluster build`, or set HELM");
    Helm { program }
}

/// The last one that was built.
fn built(programs: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(programs).ok()?.flatten().map(|entry| entry.path());
    let is_helm = |folder: &PathBuf| {
        folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("helm-"))
    };
    let age = |program: &PathBuf| fs::metadata(program).and_then(|meta| meta.modified()).ok();
    let helms = folders.filter(is_helm).map(|folder| folder.join("helm"));
    helms.filter(|program| program.exists()).max_by_key(age)
}

fn parse(manifests: &str) -> Vec<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
    let objects: Vec<Value> = objects.into_iter().filter(|object| !object.is_null()).collect();
    assert!(objects.len() > 20, "only {} objects", objects.len());
    objects
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// How a complaint calls it.
fn called(case: &Case, object: &Value) -> String {
    format!("{}: {} {}/{}", case.name, kind(object), namespace(object), name(object))
}

/// The one object of this kind and name.
fn one<'a>(objects: &'a [Value], wanted: &str, called: &str) -> &'a Value {
    let found: Vec<&Value> =
        objects.iter().filter(|object| kind(object) == wanted && name(object) == called).collect();
    assert_eq!(found.len(), 1, "{wanted} {called}");
    found[0]
}

/// The Pods that an object makes, or is.
fn pod(object: &Value) -> Option<&Value> {
    template(object)?.get("spec")
}

/// The labels of those Pods.
fn pod_labels(object: &Value) -> Option<&Value> {
    template(object)?.pointer("/metadata/labels")
}

fn template(object: &Value) -> Option<&Value> {
    match kind(object) {
        "Pod" => Some(object),
        "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => object.pointer("/spec/template"),
        "CronJob" => object.pointer("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// All containers of a Pod, those that come first included.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/initContainers").iter().chain(list(pod, "/containers"))
}

/// What a variable of a container says.
fn variable<'a>(container: &'a Value, called: &str) -> Option<&'a str> {
    let found = list(container, "/env").iter().find(|variable| variable["name"] == called);
    found.map(|variable| text(variable, "/value"))
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
