//! A machine with plugins, and what a test asks of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use famulus_core::ids::PersonId;
use famulus_core::plugin::Egress;
use famulus_core::runner::{DemandError, RunnerDemand};
use famulus_core::sandbox::{
    Progress, RunOutput, SandboxAnswer, SandboxCall, SandboxError, SandboxResult, Sandboxes,
};
use famulus_lifecycle::Tasks;
use famulus_machine::{Machine, PluginRecord, Settings};
use famulus_protocol::revision::{BuildFile, BuildSource, Bundled};
use famulus_sandbox::{Calls, Ports, Timeouts};
use famulus_tools::fake::plugins::FakeBlobs;
use parking_lot::Mutex;
use rustix::process::getuid;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::{self, Kept};
use crate::world::World;

/// Long for anything that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An ordinary user, whom nobody else is.
const ORDINARY: u32 = 1_200_003;

/// Says that the tests have started this program again, and where the runner is.
const AGAIN: &str = "FAMULUS_TEST_AGAIN";

/// Runs a test as root and as an ordinary user, or as whom it is called by.
pub(crate) fn as_everybody(name: &str, test: impl AsyncFnOnce()) {
    run(test);
    if getuid().is_root() {
        again(name, &[], ORDINARY);
    }
}

/// Runs a test as root and as an ordinary user on the machine of a world.
pub(crate) fn in_world(name: &str, world: impl FnOnce() -> World, test: impl AsyncFnOnce()) {
    if is_again() {
        return run(test);
    }
    assert!(getuid().is_root(), "this test makes networks; run it as root");
    let world = world();
    again(name, &world.entering(None), 0);
    again(name, &world.entering(Some(ORDINARY)), ORDINARY);
}

/// Runs a test of this program in a process of its own, which other words start, as a user.
fn again(name: &str, words: &[String], user: u32) {
    let folder = open_folder();
    let (program, runner) = (folder.path().join("tests"), folder.path().join("famulus-runner"));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_famulus-runner"), &runner).unwrap();
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(user), Some(user)).unwrap();
    let program = program.to_str().unwrap();
    let words = words.iter().map(String::as_str).chain([program, "--exact", name, "--nocapture"]);
    let words: Vec<&str> = words.collect();
    let mut command = Command::new(words[0]);
    // Other words become the user themselves.
    if words[0] == program {
        command.uid(user).gid(user);
    }
    let ran = command
        .args(&words[1..])
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .env("TMPDIR", own)
        .env(AGAIN, runner)
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "as user {user}:\n{said}\n{errors}");
    assert!(said.contains("1 passed"), "no test is called {name}: {said}");
}

fn run(test: impl AsyncFnOnce()) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(test());
}

fn open_folder() -> TempDir {
    let all = fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().permissions(all).tempdir().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the tests themselves set it")]
fn is_again() -> bool {
    std::env::var(AGAIN).is_ok()
}

fn runner() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "the tests themselves set it")]
    let given = std::env::var(AGAIN);
    given.map_or_else(|_| env!("CARGO_BIN_EXE_famulus-runner").into(), PathBuf::from)
}

/// Who starts and ends runners: this process, whenever it wants to.
struct Alone;

#[async_trait]
impl RunnerDemand for Alone {
    async fn used(&self, _plugins: &[String]) -> Result<(), DemandError> {
        Ok(())
    }

    async fn may_start(&self, _plugin: &str, _again: Duration) -> Result<bool, DemandError> {
        Ok(true)
    }

    async fn may_stop(
        &self,
        _plugin: &str,
        _idle: Duration,
        _again: Duration,
    ) -> Result<bool, DemandError> {
        Ok(true)
    }
}

pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) machine: Arc<Machine>,
    pub(crate) calls: Arc<Calls<Machine>>,
    pub(crate) kept: Arc<Mutex<Kept>>,
    pub(crate) tasks: Tasks,
    /// Somebody who listens on the machine.
    pub(crate) neighbour: TcpListener,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.tasks.shutdown();
    }
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let neighbour = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = Settings::new(runner(), folder.path().join("data"));
        fs::create_dir(&settings.data_dir).unwrap();
        settings.denied = vec![neighbour.local_addr().unwrap()];
        change(&mut settings);
        let (tasks, kept) = (Tasks::new(), Arc::<Mutex<Kept>>::default());
        let (door, doors) = mpsc::channel(4);
        app::serve(doors, &kept, &tasks);
        let machine = Machine::open(settings, door, &tasks).await.unwrap();
        let ports = Ports { blobs: Arc::<FakeBlobs>::default(), demand: Arc::new(Alone) };
        let url = "unix:/famulus/doors/app".to_owned();
        let calls =
            Calls::start(Arc::clone(&machine), url, Timeouts::default(), ports, &tasks).unwrap();
        Self { folder, machine, calls, kept, tasks, neighbour }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A plugin that is there, and that nothing was built of.
    pub(crate) fn add(&self, name: &str) -> PluginRecord {
        let record = PluginRecord {
            uid: Uuid::now_v7().to_string(),
            name: name.to_owned(),
            rendered: 1,
            revision: None,
            commit: None,
            tools: Vec::new(),
            permitted: vec!["*".to_owned()],
            config_keys: Vec::new(),
            egress: Egress::None,
            init_egress: Egress::None,
            suspended: false,
            idle: Duration::from_mins(5),
            trouble: None,
        };
        self.machine.put(record.clone()).unwrap();
        record
    }

    pub(crate) fn source(files: &[(&str, &str)]) -> BuildSource {
        let file = |(path, content): &(&str, &str)| BuildFile {
            path: (*path).to_owned(),
            content: (*content).to_owned(),
        };
        BuildSource::Inline { files: files.iter().map(file).collect() }
    }

    /// Builds these files, and has the revision serve.
    pub(crate) async fn install(
        &self,
        record: &PluginRecord,
        files: &[(&str, &str)],
    ) -> PluginRecord {
        let source = Self::source(files);
        let bundled = self.machine.bundle(&record.uid, source, Vec::new()).await.unwrap();
        let Bundled::Done { revision, tools, .. } = bundled else { panic!("{bundled:?}") };
        self.machine.build(&record.uid).await.unwrap();
        let rendered = record.rendered + 1;
        let record = PluginRecord { revision: Some(revision), tools, rendered, ..record.clone() };
        self.machine.put(record.clone()).unwrap();
        record
    }

    /// What a tool said; its result is let go.
    pub(crate) async fn call(
        &self,
        plugin: &str,
        tool: &str,
        parameters: Value,
    ) -> Result<String, SandboxError> {
        let (id, answer) = self.run(plugin, tool, parameters, None).await;
        let said = match answer? {
            SandboxAnswer::Ended(SandboxResult { runs, .. }) => match &runs[0].output {
                RunOutput::Json(text) | RunOutput::Text(text) => text.trim().to_owned(),
                RunOutput::Failed(why) | RunOutput::Unknown(why) => panic!("{why}"),
            },
            SandboxAnswer::Running => panic!("it ends later"),
        };
        self.calls.acknowledge(plugin, &id).await;
        Ok(said)
    }

    /// The id of a call, and what it was answered with.
    pub(crate) async fn run(
        &self,
        plugin: &str,
        tool: &str,
        parameters: Value,
        token: Option<&str>,
    ) -> (String, Result<SandboxAnswer, SandboxError>) {
        let id = Uuid::now_v7().to_string();
        let call = SandboxCall {
            id: id.clone(),
            plugin: plugin.to_owned(),
            tool: tool.to_owned(),
            parameters,
            files: Vec::new(),
            person: PersonId::new(),
            token: token.map(str::to_owned),
            cancel: CancellationToken::new(),
            progress: Progress::none(),
        };
        (id, tokio::time::timeout(PATIENCE, self.calls.run(call)).await.unwrap())
    }
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The processes of this machine whose arguments name the folder.
pub(crate) fn processes(folder: &Path) -> Vec<u32> {
    let name = folder.to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let named = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != std::process::id() && String::from_utf8_lossy(&arguments).contains(name)
    };
    pids.filter(named).collect()
}

/// A plugin `name` with one tool, a shell script.
pub(crate) fn shell(name: &str, tool: &str, script: &str) -> Vec<(String, String)> {
    files(name, tool, false, &format!("#!/bin/sh\n{script}\n"))
}

/// The same, whose result comes later.
pub(crate) fn later(name: &str, tool: &str, script: &str) -> Vec<(String, String)> {
    files(name, tool, true, &format!("#!/bin/sh\n{script}\n"))
}

pub(crate) fn files(name: &str, tool: &str, later: bool, program: &str) -> Vec<(String, String)> {
    let plugin = serde_json::json!({"name": name, "description": "A plugin."});
    let manifest = serde_json::json!({"name": tool, "description": "A tool.", "entrypoint": "run",
        "async": later, "parameters": {}});
    vec![
        ("manifest.json".to_owned(), plugin.to_string()),
        (format!("{tool}/manifest.json"), manifest.to_string()),
        (format!("{tool}/run"), program.to_owned()),
    ]
}

/// As [`Bench::install`] takes them.
pub(crate) fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect()
}
