//! A cluster with one plugin, and what a test asks of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use famulus_cluster::{Cluster, Config};
use famulus_core::ids::PersonId;
use famulus_core::sandbox::{
    Progress, RunOutput, SandboxAnswer, SandboxCall, SandboxError, SandboxResult, SandboxRun,
    Sandboxes, Stage,
};
use famulus_crds::bearer;
use famulus_lifecycle::Tasks;
use famulus_protocol::paths;
use famulus_sandbox::{Calls, Ports, Timeouts};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::api::ApiServer;
use crate::ports::{Demand, Files};
use crate::runner::Plugin;

pub(crate) const KEY: &[u8; 32] = b"a root key of thirty-two letters";

/// The UID of the plugin `test`.
pub(crate) const UID: &str = "uid-of-test";

/// Long for anything that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Bench {
    pub(crate) api: ApiServer,
    pub(crate) plugin: Plugin,
    pub(crate) files: Arc<Files>,
    pub(crate) demand: Arc<Demand>,
    pub(crate) cluster: Arc<Calls<Cluster>>,
    pub(crate) person: PersonId,
    timeouts: Timeouts,
    folder: TempDir,
    tasks: Tasks,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.tasks.shutdown();
    }
}

impl Bench {
    /// With a plugin `test` that permits everything and has no runner.
    pub(crate) async fn new() -> Self {
        Self::with(Timeouts {
            reach: Duration::from_secs(3),
            lost: Duration::from_secs(15),
            ..Timeouts::default()
        })
        .await
    }

    pub(crate) async fn with(timeouts: Timeouts) -> Self {
        let api = ApiServer::start().await;
        api.put("plugins", "test", plugin("test", json!({})));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), KEY).unwrap();
        let (files, demand) = (Arc::new(Files::default()), Arc::new(Demand::default()));
        let tasks = Tasks::new();
        let cluster = connect(&api, &folder, timeouts, (&files, &demand), &tasks);
        let plugin = Plugin::new(&bearer::runner(KEY, UID, 1));
        let bench = Self {
            api,
            plugin,
            files,
            demand,
            cluster,
            person: PersonId::new(),
            timeouts,
            folder,
            tasks,
        };
        bench.until_named(&bench.cluster, &["test"]).await;
        bench
    }

    /// Another process of the app.
    pub(crate) async fn replica(&self) -> Arc<Calls<Cluster>> {
        let ports = (&self.files, &self.demand);
        let cluster = connect(&self.api, &self.folder, self.timeouts, ports, &self.tasks);
        cluster.plugins().await.unwrap();
        cluster
    }

    /// Waits until the cluster knows these plugins.
    pub(crate) async fn until_named(&self, cluster: &Calls<Cluster>, expected: &[&str]) {
        let begun = Instant::now();
        loop {
            let plugins = cluster.plugins().await.unwrap();
            let names: Vec<String> = plugins.into_iter().map(|plugin| plugin.name).collect();
            if names == expected {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{names:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the cluster knows a runner: only then is there a log.
    pub(crate) async fn until_seen(&self) {
        let begun = Instant::now();
        while self.cluster.logs("test").await.is_err() {
            assert!(begun.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the runner there takes no calls any more.
    pub(crate) async fn until_draining(&self, runner: IpAddr) {
        let url = format!("http://{runner}:8090{}", paths::ALIVE);
        let begun = Instant::now();
        while reqwest::get(&url).await.is_ok_and(|answer| answer.status().is_success()) {
            assert!(begun.elapsed() < PATIENCE, "it does not drain");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Adds a Pod of the plugin's runner, ready or about to be.
    pub(crate) fn pod(&self, name: &str, address: IpAddr, ready: bool) {
        self.api.put("pods", name, pod("runner", address, ready));
    }

    pub(crate) fn call(&self, id: &str, tool: &str, parameters: Value) -> Call {
        let stages = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&stages);
        let call = SandboxCall {
            id: id.to_owned(),
            plugin: "test".to_owned(),
            tool: tool.to_owned(),
            parameters,
            files: Vec::new(),
            person: self.person,
            token: None,
            cancel: CancellationToken::new(),
            progress: Progress(Arc::new(move |stage| told.lock().push(stage))),
        };
        Call { call, stages }
    }

    pub(crate) async fn run(
        &self,
        id: &str,
        tool: &str,
        parameters: Value,
    ) -> Result<SandboxAnswer, SandboxError> {
        self.cluster.run(self.call(id, tool, parameters).call).await
    }

    /// The text of a call's only run.
    pub(crate) async fn text(&self, id: &str, tool: &str) -> String {
        text_of(&only(self.run(id, tool, json!({})).await))
    }
}

/// A call, and what is told of it.
pub(crate) struct Call {
    pub(crate) call: SandboxCall,
    pub(crate) stages: Arc<Mutex<Vec<Stage>>>,
}

fn connect(
    api: &ApiServer,
    folder: &TempDir,
    timeouts: Timeouts,
    (files, demand): (&Arc<Files>, &Arc<Demand>),
    tasks: &Tasks,
) -> Arc<Calls<Cluster>> {
    let config = Config {
        sandbox_namespace: "sandbox".to_owned(),
        root_key_file: folder.path().join("key"),
        callback_url: "http://127.0.0.1:9".to_owned(),
        timeouts,
    };
    let ports = Ports { blobs: Arc::clone(files) as _, demand: Arc::clone(demand) as _ };
    Cluster::start(api.kube(), config, ports, tasks).unwrap()
}

/// A Plugin that is ready and permits everything; `spec` has what is different.
pub(crate) fn plugin(name: &str, spec: Value) -> Value {
    let mut all = json!({
        "name": name,
        "source": {"inline": {"files": [{"path": "manifest.json", "content": "{}"}]}},
        "permissions": {"tools": ["*"]},
        "runner": {"replicas": 0, "max": 1, "idleSeconds": 300},
    });
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
        "metadata": {"namespace": "sandbox", "generation": 1},
        "spec": all,
        "status": {
            "rendered": 1, "replicas": 0, "tools": ["echo"],
            "revision": format!("sha256:{}", "0a".repeat(32)),
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Idle", "message": "a call starts it",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            }],
        },
    })
}

pub(crate) fn pod(part: &str, address: IpAddr, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "sandbox",
            "labels": {"famulus.dev/plugin": "test", "famulus.dev/part": part,
                "famulus.dev/egress": "none"}},
        "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": address.to_string(),
            "conditions": [{"type": "Ready", "status": ready}]},
    })
}

pub(crate) fn result_of(answer: Result<SandboxAnswer, SandboxError>) -> SandboxResult {
    match answer {
        Ok(SandboxAnswer::Ended(result)) => result,
        other => panic!("no result: {other:?}"),
    }
}

pub(crate) fn only(answer: Result<SandboxAnswer, SandboxError>) -> SandboxRun {
    let mut result = result_of(answer);
    assert_eq!(result.runs.len(), 1, "{result:?}");
    result.runs.remove(0)
}

pub(crate) fn text_of(run: &SandboxRun) -> String {
    match &run.output {
        RunOutput::Text(text) | RunOutput::Json(text) => text.clone(),
        RunOutput::Failed(_) | RunOutput::Unknown(_) => panic!("it failed: {run:?}"),
    }
}

/// Waits until it holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
