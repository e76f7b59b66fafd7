//! A plugin on disk, a runner that serves it, and a client.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use famulus_protocol::{
    CallId, CallResult, CallState, Failure, Outcome, Problem, Progress, Run, paths,
};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

mod program;

pub(crate) use program::{give, program};

pub(crate) const BEARER: &str = "a-bearer-for-tests";

/// Long for anything that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A plugin named `test` in a folder of its own.
pub(crate) struct Bench {
    folder: TempDir,
    user: u32,
}

impl Bench {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
            user: 1_000_000
                + std::process::id() % 100_000 * 100
                + NEXT.fetch_add(1, Ordering::Relaxed),
        };
        for folder in ["plugins/test", "tmp", "cache", "state"] {
            fs::create_dir_all(bench.path(folder)).unwrap();
        }
        bench.write("bearer", BEARER);
        bench.write("plugins/test/manifest.json", r#"{"name":"test","description":"A test."}"#);
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Adds a tool; `more` are keys of its manifest. `STATE` in the script is a folder that the
    /// test sees.
    pub(crate) fn tool(&self, name: &str, more: Value, script: &str) {
        let mut manifest = json!({
            "name": name, "description": "A tool.", "entrypoint": "run", "parameters": {},
        });
        for (key, value) in more.as_object().unwrap() {
            manifest[key] = value.clone();
        }
        self.write(&format!("plugins/test/{name}/manifest.json"), &manifest.to_string());
        let entrypoint = format!("plugins/test/{name}/run");
        let state = self.path("state");
        let script = script.replace("STATE", state.to_str().unwrap());
        program::write(&self.path(&entrypoint), &script);
    }

    /// Whether the runner has a user of its own.
    pub(crate) fn has_own_user() -> bool {
        rustix::process::geteuid().is_root()
    }

    pub(crate) fn start(&self) -> Runner {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, settings: &[(&str, &str)]) -> Runner {
        self.run(Command::new(program()), settings)
    }

    /// Starts a command that becomes the runner.
    pub(crate) fn run(&self, mut command: Command, settings: &[(&str, &str)]) -> Runner {
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        command.env_clear().current_dir("/");
        let state = format!("{}:{}", path("plugins/test"), path("state"));
        let own_user = Self::has_own_user().to_string();
        let defaults = [
            ("LISTEN", "127.0.0.1:0".to_owned()),
            ("PLUGIN", path("plugins/test")),
            ("BEARER_FILE", path("bearer")),
            ("KEPT", path("kept")),
            ("SCRATCH", path("tmp")),
            ("TEMPORARY", path("tmp")),
            ("CACHE", path("cache")),
            ("STATE", state),
            ("PYTHON", path("python")),
            ("CGROUPS", path("cgroups")),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("OWN_USER", own_user),
            ("CALLBACK_PAUSE_SECONDS", "0.05".to_owned()),
            ("DRAIN_SECONDS", "60".to_owned()),
        ];
        for (name, value) in &defaults {
            command.env(format!("FAMULUS_RUNNER_{name}"), value);
        }
        for (name, value) in settings {
            command.env(format!("FAMULUS_RUNNER_{name}"), value);
        }
        if Self::has_own_user() {
            give(self.folder.path(), self.user);
            command.uid(self.user).gid(self.user);
        }
        Runner::start(command)
    }

    /// Processes of the runner's own user, without the runner itself.
    pub(crate) fn others(&self, runner: &Runner) -> Vec<u32> {
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let path = entry.ok()?.path();
            let pid: u32 = path.file_name()?.to_str()?.parse().ok()?;
            let status = fs::read_to_string(path.join("status")).ok()?;
            let user = status.lines().find(|line| line.starts_with("Uid:"))?;
            (user.split_whitespace().nth(1)? == self.user.to_string()).then_some(pid)
        });
        all.filter(|pid| *pid != runner.child.id()).collect()
    }
}

/// A runner, killed at the end of the test.
pub(crate) struct Runner {
    pub(crate) child: Child,
    base: String,
    client: Client,
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Runner {
    /// Starts a command that becomes the runner, and waits until it listens.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = program::start(&mut command);
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let Some(Ok(line)) = log.next() else { panic!("the runner did not start: {said:?}") };
            let address = serde_json::from_str::<Value>(&line).ok();
            if let Some(address) = address.as_ref().and_then(|line| line["address"].as_str()) {
                break address.to_owned();
            }
            said.push(line);
        };
        thread::spawn(move || log.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Self {
            child,
            base: format!("http://{address}"),
            client: Client::builder().no_proxy().build().unwrap(),
        }
    }

    /// Speaks to this address of the machine from now on.
    pub(crate) fn through(&mut self, host: &str) {
        let port = self.base.rsplit(':').next().unwrap();
        self.base = format!("http://{host}:{port}");
    }

    /// Ends it without a word, as a crash does.
    pub(crate) fn kill(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// Asks it to end, and waits.
    pub(crate) async fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        until("the runner ends", || self.child.try_wait().unwrap().is_some()).await;
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.base));
        let request = request.bearer_auth(BEARER);
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        request.send().await.unwrap()
    }

    /// As the app does that counts on a state of the mount.
    pub(crate) async fn call_with(
        &self,
        (bearer, rendered): (&str, i64),
        id: &str,
        body: Value,
    ) -> Response {
        let url = format!("{}{}", self.base, paths::call(&call_id(id)));
        let request = self.client.post(url).bearer_auth(bearer).json(&body);
        request.header(famulus_protocol::RENDERED_HEADER, rendered).send().await.unwrap()
    }

    /// Without a bearer, or with another.
    pub(crate) async fn send_as(
        &self,
        bearer: Option<&str>,
        method: Method,
        path: &str,
    ) -> StatusCode {
        let request = self.client.request(method, format!("{}{path}", self.base));
        let request = match bearer {
            Some(bearer) => request.bearer_auth(bearer),
            None => request,
        };
        request.send().await.unwrap().status()
    }

    /// As who backs the plugin up, or gives it its files.
    pub(crate) async fn keep(
        &self,
        bearer: &str,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.base));
        request.bearer_auth(bearer).body(body).send().await.unwrap()
    }

    pub(crate) async fn upload(&self, id: &str, index: u32, bytes: Vec<u8>) -> StatusCode {
        let url = format!("{}{}", self.base, paths::upload(&call_id(id), index));
        self.client.put(url).bearer_auth(BEARER).body(bytes).send().await.unwrap().status()
    }

    pub(crate) async fn post_call(&self, id: &str, tool: &str, parameters: Value) -> Response {
        let body = json!({"tool": tool, "parameters": parameters});
        self.send(Method::POST, &paths::call(&call_id(id)), Some(body)).await
    }

    /// Runs a call to its end and gives all lines of progress.
    pub(crate) async fn lines(&self, id: &str, tool: &str, parameters: Value) -> Vec<Progress> {
        let response = self.post_call(id, tool, parameters).await;
        assert_eq!(response.status(), StatusCode::OK, "{}", response.text().await.unwrap());
        lines_of(response).await
    }

    pub(crate) async fn result(&self, id: &str, tool: &str, parameters: Value) -> CallResult {
        result_of(self.lines(id, tool, parameters).await)
    }

    /// The only run of a call.
    pub(crate) async fn run(&self, id: &str, tool: &str, parameters: Value) -> Run {
        let mut result = self.result(id, tool, parameters).await;
        assert_eq!(result.runs.len(), 1, "{result:?}");
        result.runs.remove(0)
    }

    /// The refusal of a call.
    pub(crate) async fn refusal(
        &self,
        id: &str,
        tool: &str,
        parameters: Value,
    ) -> (StatusCode, Problem) {
        let response = self.post_call(id, tool, parameters).await;
        (response.status(), response.json().await.unwrap())
    }

    pub(crate) async fn state(&self, id: &str) -> CallState {
        let response = self.send(Method::GET, &paths::call(&call_id(id)), None).await;
        assert_eq!(response.status(), StatusCode::OK);
        response.json().await.unwrap()
    }

    /// Asks until the call has ended.
    pub(crate) async fn ended(&self, id: &str) -> CallResult {
        let begun = Instant::now();
        loop {
            if let CallState::Ended { result } = self.state(id).await {
                return result;
            }
            assert!(begun.elapsed() < PATIENCE, "call {id} does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn cancel(&self, id: &str) -> StatusCode {
        self.send(Method::POST, &paths::cancel(&call_id(id)), None).await.status()
    }

    pub(crate) async fn acknowledge(&self, id: &str) -> StatusCode {
        self.send(Method::POST, &paths::acknowledge(&call_id(id)), None).await.status()
    }

    pub(crate) async fn file(&self, id: &str, index: u32) -> (StatusCode, Vec<u8>) {
        let response = self.send(Method::GET, &paths::file(&call_id(id), index), None).await;
        (response.status(), response.bytes().await.unwrap().to_vec())
    }
}

pub(crate) fn call_id(id: &str) -> CallId {
    id.parse().unwrap()
}

pub(crate) async fn lines_of(response: Response) -> Vec<Progress> {
    let text = response.text().await.unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn result_of(mut lines: Vec<Progress>) -> CallResult {
    match lines.pop() {
        Some(Progress::Result(result)) => result,
        other => panic!("the last line is no result: {other:?}"),
    }
}

/// What a run that succeeded wrote, as JSON.
pub(crate) fn json_of(run: &Run) -> Value {
    match &run.outcome {
        Outcome::Json { output } => serde_json::from_str(output).unwrap(),
        Outcome::Text { .. } | Outcome::Failed(_) => panic!("no JSON: {:?}", run.outcome),
    }
}

pub(crate) fn text_of(run: &Run) -> String {
    match &run.outcome {
        Outcome::Text { output } | Outcome::Json { output } => output.clone(),
        Outcome::Failed(failure) => panic!("it failed: {failure:?}"),
    }
}

pub(crate) fn failure_of(run: &Run) -> Failure {
    match &run.outcome {
        Outcome::Failed(failure) => failure.clone(),
        Outcome::Text { .. } | Outcome::Json { .. } => panic!("no failure: {:?}", run.outcome),
    }
}

/// Whether a process runs, and is not only waiting to be asked how it ended.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until it holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
