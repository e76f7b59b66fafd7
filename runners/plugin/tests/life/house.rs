//! What stands around a plugin's Pod: an app that keeps bundles, an operator that mounts, folders.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_protocol::revision::{Built, Bundled, Description};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio::process::Command;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::support::{BEARER, Bench, Runner, give, program};

/// The UID of the Plugin.
pub(crate) const UID: &str = "0b0e2a0c-1d7a-4a55-9c43-6d1d3c1f4a10";

/// The bearer of backups.
pub(crate) const KEEPER: &str = "the-bearer-of-backups";

/// Nobody listens there.
const NOBODY: &str = "127.0.0.1:1";

/// What the app keeps, and how it is.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) bundles: BTreeMap<String, Vec<u8>>,
    pub(crate) descriptions: BTreeMap<String, Description>,
    /// Requests that are refused before one is taken.
    pub(crate) refusals: u32,
    /// Bundles that were sent, however often.
    pub(crate) sent: u32,
}

type Shared = Arc<Mutex<Kept>>;

pub(crate) struct House {
    folder: TempDir,
    user: u32,
    app: SocketAddr,
    pub(crate) kept: Shared,
    tasks: Tasks,
    serving: AbortHandle,
}

impl House {
    pub(crate) async fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let user =
            30_000_000 + std::process::id() % 100_000 * 100 + NEXT.fetch_add(1, Ordering::Relaxed);
        let (kept, tasks) = (Shared::default(), Tasks::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let app = listener.local_addr().unwrap();
        let router = router(Arc::clone(&kept));
        let serving = tasks.spawn("app", OnExit::Log, async move {
            axum::serve(listener, router).await.unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let house = Self { folder, user, app, kept, tasks, serving };
        for name in ["build", "work", "state", "plugins", "links", "mounted", "tmp", "kept"] {
            fs::create_dir(house.path(name)).unwrap();
        }
        house
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the app is.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.app)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The app goes away: nobody listens in its place while the socket is held.
    pub(crate) async fn is_left(&self) -> TcpSocket {
        self.serving.abort();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        while socket.bind(self.app).is_err() {
            sleep(Duration::from_millis(10)).await;
        }
        socket
    }

    /// Writes the order of a build.
    pub(crate) fn order(&self, plugin: &str, source: Value) {
        let order = json!({
            "plugin": plugin, "uid": UID, "rendered": 1, "callback": self.url(),
            "source": source, "allow_hosts": ["127.0.0.1:9418", "localhost:9418"],
        });
        fs::write(self.path("build/build.json"), order.to_string()).unwrap();
        fs::write(self.path("build/bearer"), BEARER).unwrap();
    }

    /// Somebody who is there for everybody, as the canary is.
    pub(crate) async fn canary(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        self.tasks.spawn("canary", OnExit::Log, async move {
            loop {
                drop(listener.accept().await.unwrap());
            }
        });
        address.to_string()
    }

    /// An address at which nobody listens, and nobody else will: whoever holds the socket may.
    pub(crate) fn nobody() -> (TcpSocket, String) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = socket.local_addr().unwrap().to_string();
        (socket, address)
    }

    /// As [`Self::order`], with hosts that may be private.
    pub(crate) fn order_of(&self, plugin: &str, source: Value, hosts: &[String]) {
        self.order(plugin, source);
        let mut order: Value = serde_json::from_str(&self.read("build/build.json")).unwrap();
        order["allow_hosts"] = json!(hosts);
        fs::write(self.path("build/build.json"), order.to_string()).unwrap();
    }

    /// Mounts as the kubelet does: all at once.
    pub(crate) fn mount(
        &self,
        rendered: i64,
        revision: Option<&str>,
        config: &Value,
        bearer: &str,
    ) {
        self.mount_for(rendered, revision, config, bearer, None);
    }

    /// As [`Self::mount`], for a plugin whose files are to come from a backup.
    pub(crate) fn mount_for(
        &self,
        rendered: i64,
        revision: Option<&str>,
        config: &Value,
        bearer: &str,
        awaits: Option<&str>,
    ) {
        let name = format!("..{rendered}-{}", fs::read_dir(self.path("mounted")).unwrap().count());
        let folder = self.path("mounted").join(&name);
        fs::create_dir(&folder).unwrap();
        let wanted = json!({
            "plugin": "test", "uid": UID, "rendered": rendered, "revision": revision,
            "permitted": ["*"], "awaits": awaits,
        });
        fs::write(folder.join("wanted.json"), wanted.to_string()).unwrap();
        fs::write(folder.join("keeper"), KEEPER).unwrap();
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
        fs::write(folder.join("bearer"), bearer).unwrap();
        if Bench::has_own_user() {
            give(&folder, self.user);
        }
        symlink(&name, self.path("mounted/..new")).unwrap();
        fs::rename(self.path("mounted/..new"), self.path("mounted/..data")).unwrap();
    }

    fn settings(&self, plugin: &str) -> Vec<(String, String)> {
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        [
            ("BUILD", path("build")),
            ("WORK", path("work")),
            ("TERMINATION_LOG", path("report")),
            // A build is a Pod of its own, with a folder of links of its own.
            ("PLUGINS", path("links")),
            ("PLUGIN", path(&format!("plugins/{plugin}"))),
            ("MOUNTED", path("mounted")),
            ("VOLUME", path("state")),
            ("KEPT", path("kept")),
            (
                "STATE",
                format!("{}:{}", path(&format!("plugins/{plugin}")), path("state/revisions")),
            ),
            ("SCRATCH", path("tmp")),
            ("TEMPORARY", path("tmp")),
            ("PYTHON", path("python")),
            ("CGROUPS", path("cgroups")),
            ("PATH", tools_path()),
            ("READABLE", uv().to_str().unwrap().to_owned()),
            ("OWN_USER", Bench::has_own_user().to_string()),
            ("PROBE_CONTROL", self.app.to_string()),
            ("PROBE_DENIED", NOBODY.to_owned()),
            ("DRAIN_SECONDS", "60".to_owned()),
        ]
        .map(|(name, value)| (format!("FAMULUS_RUNNER_{name}"), value))
        .into()
    }

    fn own(&self) {
        if Bench::has_own_user() {
            give(self.folder.path(), self.user);
        }
    }

    async fn step<T: DeserializeOwned>(&self, name: &str, settings: &[(&str, &str)]) -> (bool, T) {
        self.own();
        let mut command = Command::new(program());
        command.arg(name).env_clear().envs(self.settings("test")).current_dir("/");
        for (name, value) in settings {
            command.env(format!("FAMULUS_RUNNER_{name}"), value);
        }
        if Bench::has_own_user() {
            command.uid(self.user).gid(self.user);
        }
        let output = command.output().await.unwrap();
        eprintln!("{name}: {}", String::from_utf8_lossy(&output.stderr));
        let report = self.read("report");
        assert!(report.len() <= 4096, "{}", report.len());
        let report = serde_json::from_str(&report).unwrap();
        (output.status.success(), report)
    }

    pub(crate) async fn probe<T: DeserializeOwned>(&self, settings: &[(&str, &str)]) -> (bool, T) {
        self.step("probe", settings).await
    }

    /// The bundling, as it reports.
    pub(crate) async fn try_bundle(&self) -> Bundled {
        let (succeeded, bundled) = self.step("bundle", &[]).await;
        assert_eq!(succeeded, matches!(bundled, Bundled::Done { .. }));
        bundled
    }

    /// The revision and the commit.
    pub(crate) async fn bundle(&self) -> (String, Option<String>) {
        match self.try_bundle().await {
            Bundled::Done { revision, commit, .. } => (revision, commit),
            Bundled::Failed(failure) => panic!("{failure:?}"),
        }
    }

    /// Why there is no bundle: the reason and the message.
    pub(crate) async fn bundle_failure(&self) -> (String, String) {
        match self.try_bundle().await {
            Bundled::Failed(failure) => (failure.reason, failure.message),
            done @ Bundled::Done { .. } => panic!("{done:?}"),
        }
    }

    pub(crate) async fn try_build(&self, settings: &[(&str, &str)]) -> Built {
        let (succeeded, built) = self.step("build", settings).await;
        assert_eq!(succeeded, matches!(built, Built::Done { .. }));
        built
    }

    /// What init said.
    pub(crate) async fn build(&self) -> String {
        match self.try_build(&[]).await {
            Built::Done { init_output, .. } => init_output,
            Built::Failed(failure) => panic!("{failure:?}"),
        }
    }

    pub(crate) async fn build_failure(&self, settings: &[(&str, &str)]) -> (String, String) {
        match self.try_build(settings).await {
            Built::Failed(failure) => (failure.reason, failure.message),
            done @ Built::Done { .. } => panic!("{done:?}"),
        }
    }

    /// Bundles and builds a plugin of files, and gives its revision.
    pub(crate) async fn make(&self, files: &[(&str, &str)]) -> String {
        self.order("test", inline(files));
        let (revision, _) = self.bundle().await;
        self.build().await;
        revision
    }

    pub(crate) fn serve(&self, settings: &[(&str, &str)]) -> Runner {
        self.serve_as("test", settings)
    }

    pub(crate) fn serve_as(&self, plugin: &str, settings: &[(&str, &str)]) -> Runner {
        self.own();
        let mut command = std::process::Command::new(program());
        command.env_clear().envs(self.settings(plugin)).current_dir("/");
        command.env("FAMULUS_RUNNER_LISTEN", "127.0.0.1:0");
        for (name, value) in settings {
            command.env(format!("FAMULUS_RUNNER_{name}"), value);
        }
        if Bench::has_own_user() {
            command.uid(self.user).gid(self.user);
        }
        Runner::start(command)
    }
}

/// Where tools find programs, `uv` before the system's.
fn tools_path() -> String {
    format!("{}:/usr/local/bin:/usr/bin:/bin", uv().display())
}

/// The folder of `uv`, as the images have it: named by the variable, or on the path.
fn uv() -> PathBuf {
    let named = std::env::var_os("FAMULUS_TEST_UV").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = named.into_iter().chain(std::env::split_paths(&path));
    places.find(|place| place.join("uv").is_file()).unwrap_or_else(|| {
        panic!("uv is not on the path; install it, or set FAMULUS_TEST_UV to its folder")
    })
}

pub(crate) fn inline(files: &[(&str, &str)]) -> Value {
    let files: Vec<Value> =
        files.iter().map(|(path, content)| json!({"path": path, "content": content})).collect();
    json!({"inline": {"files": files}})
}

/// The manifest of a tool.
pub(crate) fn tool(name: &str) -> String {
    json!({"name": name, "description": "d", "entrypoint": "run", "parameters": {}}).to_string()
}

pub(crate) const MANIFEST: &str = r#"{"name":"test","description":"A test."}"#;

fn router(kept: Shared) -> Router {
    Router::new()
        .route("/internal/v1/ping", get(async || StatusCode::NO_CONTENT))
        .route("/internal/v1/revisions/{hex}/description", axum::routing::put(describe))
        .route("/internal/v1/revisions/{hex}/bundle", get(give_bundle).put(take_bundle))
        .layer(DefaultBodyLimit::disable())
        .with_state(kept)
}

/// Whether it is a runner of the Plugin, or what it is told instead.
fn refused(kept: &Shared, headers: &HeaderMap) -> Option<StatusCode> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let known = header("authorization") == Some(&format!("Bearer {BEARER}"))
        && header("famulus-plugin") == Some(UID)
        && header("famulus-rendered") == Some("1");
    let mut kept = kept.lock();
    if kept.refusals > 0 {
        kept.refusals -= 1;
        return Some(StatusCode::UNAUTHORIZED);
    }
    (!known).then_some(StatusCode::FORBIDDEN)
}

async fn describe(
    State(kept): State<Shared>,
    Path(hex): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if let Some(status) = refused(&kept, &headers) {
        return status;
    }
    let description = serde_json::from_slice(&body).unwrap();
    let mut kept = kept.lock();
    let is_kept = kept.bundles.contains_key(&hex);
    kept.descriptions.insert(hex, description);
    if is_kept { StatusCode::OK } else { StatusCode::NO_CONTENT }
}

async fn take_bundle(
    State(kept): State<Shared>,
    Path(hex): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if let Some(status) = refused(&kept, &headers) {
        return status;
    }
    let mut kept = kept.lock();
    kept.bundles.insert(hex, body.to_vec());
    kept.sent += 1;
    StatusCode::NO_CONTENT
}

async fn give_bundle(
    State(kept): State<Shared>,
    Path(hex): Path<String>,
    headers: HeaderMap,
) -> Result<Vec<u8>, StatusCode> {
    if let Some(status) = refused(&kept, &headers) {
        return Err(status);
    }
    kept.lock().bundles.get(&hex).cloned().ok_or(StatusCode::NOT_FOUND)
}
