//! A Plugin in a cluster in memory, and the parts of Kubernetes that the test plays.

use std::cell::RefCell;
use std::time::Duration;

use famulus_crds::plugin::Reason;
use famulus_operator::context::Context;
use famulus_operator::plugin::error::Error;
use famulus_operator::plugin::reconcile;
use famulus_operator::settings::Settings;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cluster::Cluster;

thread_local! {
    /// A test is one thread, and so has a clock of its own.
    static NOW: RefCell<Timestamp> = RefCell::new(start());
}

fn start() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().expect("a time")
}

pub(crate) const ROOT_KEY: &[u8] = b"a-root-key-of-thirty-two-bytes!!";
pub(crate) const KEEPER_KEY: &[u8] = b"a-key-for-backups-of-36-bytes-or-so!";

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) context: Context,
    settings: Vec<(&'static str, &'static str)>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(settings: &[(&'static str, &'static str)]) -> Self {
        let cluster = Cluster::default();
        NOW.with_borrow_mut(|now| *now = start());
        let settings = settings.to_vec();
        Self { context: context(&cluster, &settings), cluster, settings }
    }

    /// A new process, that knows nothing.
    pub(crate) fn restart(&mut self) {
        self.context = context(&self.cluster, &self.settings);
    }

    /// A new process with other settings.
    pub(crate) fn restart_with(&mut self, settings: &[(&'static str, &'static str)]) {
        self.settings = settings.to_vec();
        self.restart();
    }

    /// Creates the Plugin `weather`, or changes its spec: whatever `spec` says goes over the plain
    /// one.
    pub(crate) fn plugin(&self, spec: Value) {
        let mut all = json!({
            "name": "weather",
            "source": {"git": {"url": "git://git.example/weather.git", "ref": "main"}},
            "permissions": {"tools": ["*"]},
        });
        for (key, value) in spec.as_object().expect("fields of a spec") {
            all[key] = value.clone();
        }
        match self.cluster.get("plugins", "weather") {
            None => self.cluster.put(
                "plugins",
                json!({
                    "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
                    "metadata": {"name": "weather", "generation": 1, "uid": "uid-weather"},
                    "spec": all,
                }),
            ),
            Some(_) => self.cluster.change("plugins", "weather", |plugin| {
                let generation = plugin["metadata"]["generation"].as_i64().unwrap_or(1);
                plugin["metadata"]["generation"] = json!(generation + 1);
                plugin["spec"] = all;
            }),
        }
    }

    /// Looks at it once, with caches that know everything.
    pub(crate) async fn try_reconcile(&self) -> Result<Duration, Error> {
        self.cluster.show(&self.context);
        let plugin = self.context.stores.plugins.get("weather").expect("the Plugin exists");
        reconcile(plugin, &self.context).await
    }

    /// Looks at all of these at once, with the caches as they are.
    pub(crate) async fn reconcile_beside_each_other(&self, names: &[String]) {
        let all = names.iter().map(|name| {
            let plugin = self.context.stores.plugins.get(name).expect("the Plugin exists");
            reconcile(plugin, &self.context)
        });
        for result in join_all(all).await {
            result.expect("it can be reconciled");
        }
    }

    /// Looks at it until there is nothing more to write: what the watches would bring about.
    pub(crate) async fn settle(&self) {
        for _ in 0..10 {
            self.try_reconcile().await.expect("it can be reconciled");
            if self.cluster.writes().is_empty() {
                return;
            }
        }
        panic!("it is written on and on");
    }

    /// Everything from the creation until it is built.
    pub(crate) async fn build(&self, spec: Value) {
        self.plugin(spec);
        self.settle().await;
        self.build_ends(&revision('a'), &[]);
        self.settle().await;
        assert_eq!(self.ready().0, "True", "{}", self.status());
    }

    /// The one Job that there is.
    pub(crate) fn job(&self) -> String {
        let jobs = self.cluster.names("jobs");
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs[0].clone()
    }

    /// The order of the one Job, as its Secret has it.
    pub(crate) fn order(&self) -> Value {
        let secret = self.cluster.get("secrets", &self.job()).expect("the order exists");
        serde_json::from_slice(&decoded(&secret["data"]["build.json"])).expect("JSON")
    }

    pub(crate) fn build_ends(&self, revision: &str, required: &[&str]) {
        self.build_ends_saying(revision, required, "0 notes are kept\n");
    }

    /// What the operator told in events, by their reason.
    pub(crate) fn told(&self, reason: &str) -> Vec<String> {
        let events = self.cluster.names("events").into_iter();
        let events = events.filter_map(|name| self.cluster.get("events", &name));
        let told = events.filter(|event| event["reason"] == reason);
        told.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn build_ends_saying(&self, revision: &str, required: &[&str], said: &str) {
        let bundled = json!({"done": {
            "revision": revision, "commit": "c0ffee".repeat(6), "tools": ["look", "forecast"],
            "required_keys": required, "config_keys": required,
        }});
        let built = json!({"done": {"revision": revision, "init_output": said}});
        self.build_pod(&[
            ("probe", Some(probed("closed", true))),
            ("bundle", Some(bundled)),
            ("build", Some(built)),
        ]);
    }

    pub(crate) fn build_fails(&self, reason: &str, message: &str) {
        let failed = json!({"failed": {"reason": reason, "message": message}});
        self.build_pod(&[("probe", Some(probed("closed", true))), ("bundle", Some(failed))]);
    }

    pub(crate) fn build_fails_behind_its_bundle(&self, revision: &str, message: &str) {
        let failed = json!({"failed": {"reason": "BuildFailed", "message": message}});
        self.build_pod(&[
            ("probe", Some(probed("closed", true))),
            ("bundle", Some(bundled(revision))),
            ("build", Some(failed)),
        ]);
    }

    /// A build of a bundle that the app keeps, which knows of no commit.
    pub(crate) fn restored_build_ends(&self, revision: &str) {
        let bundled = json!({"done": {
            "revision": revision, "tools": ["look"], "required_keys": [], "config_keys": [],
        }});
        let built = json!({"done": {"revision": revision}});
        self.build_pod(&[
            ("probe", Some(probed("closed", true))),
            ("bundle", Some(bundled)),
            ("build", Some(built)),
        ]);
    }

    /// The Pod that makes a bundle and no more has ended.
    pub(crate) fn bundle_ends(&self, revision: &str) {
        let closed = Some(probed("closed", true));
        self.build_pod(&[("probe", closed), ("bundle", Some(bundled(revision)))]);
    }

    /// What the Pod of the one Job reaches, and its containers.
    pub(crate) fn reach(&self) -> (String, Vec<String>) {
        let job = self.cluster.get("jobs", &self.job()).expect("the Job exists");
        let template = &job["spec"]["template"];
        let lists = ["initContainers", "containers"].map(|kind| template["spec"][kind].clone());
        let containers = lists.iter().flat_map(|list| list.as_array().expect("a list"));
        let names = containers.map(|it| it["name"].as_str().expect("a name").to_owned());
        let reach = template["metadata"]["labels"]["famulus.dev/egress"].as_str();
        (reach.expect("a label").to_owned(), names.collect())
    }

    /// Gives the Plugin annotations.
    pub(crate) fn annotate(&self, annotation: &str, value: &str) {
        self.cluster.change("plugins", "weather", |plugin| {
            plugin["metadata"]["annotations"][annotation] = json!(value);
        });
    }

    /// The build that failed is tried again.
    pub(crate) async fn next_try(&self) {
        let before = self.cluster.get("jobs", &self.job()).expect("the Job exists");
        let pod = format!("{}-x", self.job());
        wait(Duration::from_mins(10));
        self.try_reconcile().await.expect("it can be reconciled");
        self.cluster.remove("pods", &pod);
        self.settle().await;
        let now = self.cluster.get("jobs", &self.job()).expect("the Job exists");
        assert_ne!(before["metadata"]["uid"], now["metadata"]["uid"]);
    }

    /// A Pod of the one Job, whose containers ended with these words.
    pub(crate) fn build_pod(&self, containers: &[(&str, Option<Value>)]) {
        let job = self.job();
        let owner = self.cluster.get("jobs", &job).expect("the Job exists");
        let statuses: Vec<Value> = containers
            .iter()
            .map(|(name, message)| {
                let message = message.as_ref().map(Value::to_string);
                json!({
                    "name": name, "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": 0, "message": message}},
                })
            })
            .collect();
        let pod = Self::pod(&format!("{job}-x"), "Job", &owner, "build", statuses);
        self.cluster.put("pods", pod);
    }

    /// A Pod of a controller: its template, on a node since now.
    fn pod(name: &str, kind: &str, owner: &Value, part: &str, statuses: Vec<Value>) -> Value {
        let template = &owner["spec"]["template"];
        let now = NOW.with_borrow(ToString::to_string);
        let mut metadata = template["metadata"].clone();
        metadata["name"] = json!(name);
        metadata["creationTimestamp"] = json!(now);
        metadata["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": kind, "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true,
        }]);
        assert_eq!(metadata["labels"]["famulus.dev/part"], part);
        let mut spec = template["spec"].clone();
        spec["nodeName"] = json!("node-1");
        json!({
            "metadata": metadata, "spec": spec,
            "status": {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
                ],
                "initContainerStatuses": statuses,
            },
        })
    }

    /// The kubelet could not make the sandbox of this Pod, and says so.
    pub(crate) fn sandbox_fails(&self, pod: &str, message: &str) {
        let pod = self.cluster.get("pods", pod).expect("the Pod exists");
        let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
        self.cluster.put(
            "events",
            json!({
                "metadata": {"name": format!("{}.1", name.as_str().expect("a name"))},
                "involvedObject": {"kind": "Pod", "name": name, "uid": uid},
                "reason": "FailedCreatePodSandBox", "type": "Warning", "message": message,
                "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
            }),
        );
    }

    /// The scheduler finds no node for this Pod.
    pub(crate) fn no_node_takes(&self, pod: &str) {
        self.cluster.change("pods", pod, |pod| {
            pod["spec"].as_object_mut().expect("a spec").remove("nodeName");
            pod["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 node(s) didn't match the Pod's affinity",
            }]);
        });
    }

    /// The Pod of the runner is made, on a node, and nothing of it runs.
    pub(crate) fn runner_is_made(&self) {
        let owner = self.cluster.get("deployments", "weather-runner").expect("the runner exists");
        let pod = Self::pod("weather-runner-x", "ReplicaSet", &owner, "runner", Vec::new());
        self.cluster.put("pods", pod);
        self.cluster.change("deployments", "weather-runner", |runner| {
            let generation = runner["metadata"]["generation"].clone();
            runner["status"] = json!({"observedGeneration": generation, "replicas": 1});
        });
    }

    /// The Pod of the runner starts and is ready.
    pub(crate) fn runner_starts(&self) {
        let owner = self.cluster.get("deployments", "weather-runner").expect("the runner exists");
        let mut pod = Self::pod("weather-runner-x", "ReplicaSet", &owner, "runner", Vec::new());
        let conditions = pod["status"]["conditions"].as_array_mut().expect("a list");
        conditions.push(json!({"type": "Ready", "status": "True"}));
        self.cluster.put("pods", pod);
        self.cluster.change("deployments", "weather-runner", |runner| {
            let generation = runner["metadata"]["generation"].clone();
            runner["status"] = json!({
                "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
            });
        });
    }

    pub(crate) fn status(&self) -> Value {
        self.cluster.get("plugins", "weather").expect("the Plugin exists")["status"].clone()
    }

    /// Status and reason of a condition.
    pub(crate) fn condition(&self, kind: &str) -> (String, String) {
        let [status, reason, _] = self.whole_condition(kind);
        (status, reason)
    }

    /// With its message.
    pub(crate) fn whole_condition(&self, kind: &str) -> [String; 3] {
        let status = self.status();
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|condition| condition["type"] == kind).expect("the condition");
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        assert!(Reason::parse(&text("reason")).is_some(), "{found}");
        ["status", "reason", "message"].map(text)
    }

    pub(crate) fn ready(&self) -> (String, String) {
        self.condition("Ready")
    }

    pub(crate) fn message(&self, kind: &str) -> String {
        let status = self.status();
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|condition| condition["type"] == kind);
        found.map_or("", |found| found["message"].as_str().unwrap_or_default()).to_owned()
    }

    /// A file of the mounted Secret.
    pub(crate) fn mounted(&self, file: &str) -> String {
        let secret = self.cluster.get("secrets", "weather-mounted").expect("the Secret exists");
        String::from_utf8(decoded(&secret["data"][file])).expect("text")
    }

    pub(crate) fn runner(&self) -> Value {
        self.cluster.get("deployments", "weather-runner").expect("the runner exists")["spec"]
            .clone()
    }
}

/// The clock of this test goes on.
pub(crate) fn wait(time: Duration) {
    let time = SignedDuration::try_from(time).expect("a short time");
    NOW.with_borrow_mut(|now| *now += time);
}

fn context(cluster: &Cluster, settings: &[(&str, &str)]) -> Context {
    let plain = [
        ("CALLBACK_HOST", "10.96.3.4"),
        ("RELEASE", "famulus"),
        ("SANDBOX_NAMESPACE", "sandbox"),
        ("SYSTEM_NAMESPACE", "system"),
        ("ROOT_KEY_FILE", "/run/key"),
        ("RUNNER_IMAGE", "localhost/famulus/runner:0.1.0-slim"),
        ("RESOLVER", "10.96.3.5"),
        ("API_ADDRESS", "10.96.0.1:443"),
    ];
    let all: std::collections::BTreeMap<&str, &str> =
        plain.iter().chain(settings).copied().collect();
    let variables = all
        .into_iter()
        .map(|(name, value)| (format!("FAMULUS_OPERATOR_{name}").into(), value.into()));
    let settings = Settings::read(variables).expect("good settings");
    Context::new(cluster.client(), "sandbox".to_owned(), settings.pods, ROOT_KEY.to_vec())
        .with_keeper_key(Some(KEEPER_KEY.to_vec()))
        .with_clock(|| NOW.with_borrow(|now| *now))
}

pub(crate) fn probed(network: &str, user_namespace: bool) -> Value {
    json!({"network": network, "detail": "seen by the test", "user_namespace": user_namespace})
}

/// What the container says that made a bundle.
pub(crate) fn bundled(revision: &str) -> Value {
    json!({"done": {
        "revision": revision, "commit": "c0ffee".repeat(6), "tools": ["look"], "required_keys": [],
        "config_keys": [],
    }})
}

pub(crate) fn revision(letter: char) -> String {
    format!("sha256:{}", String::from(letter).repeat(64))
}

fn decoded(data: &Value) -> Vec<u8> {
    let data: k8s_openapi::ByteString = serde_json::from_value(data.clone()).expect("base64");
    data.0
}
