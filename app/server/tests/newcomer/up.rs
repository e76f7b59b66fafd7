//! `famulus up`, as somebody starts it.

use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A data directory that the unprivileged user of the private Postgres can reach.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("famulus-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left is found by its name.
        let _left = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn famulus(place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_famulus"));
    command
        .env_remove("DATABASE_URL")
        .env_remove("FAMULUS_CONFIG")
        .env("FAMULUS_DATA_DIR", place)
        .env("FAMULUS_API__LISTEN", "127.0.0.1:0")
        .env("FAMULUS_API__INTERNAL_LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null());
    command
}

/// A running `famulus up`, stopped when it goes out of scope.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) said: String,
    /// What is logged until the end.
    log: Option<JoinHandle<String>>,
}

impl Up {
    pub(crate) fn start(place: &Place) -> Self {
        let mut command = famulus(&place.data());
        command.arg("up");
        Self::from(place, command)
    }

    pub(crate) fn from(place: &Place, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        let mut url = None;
        for line in lines.by_ref() {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix("Famulus listens on ") {
                url = rest.split(' ').next().map(str::to_owned);
            }
            said.push_str(&line);
            said.push('\n');
            if line.contains("Ctrl-C") {
                break;
            }
        }
        let Some(url) = url else {
            let mut error = String::new();
            child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            panic!("`famulus up` did not start:\n{said}{error}");
        };
        // A full pipe must not stop the program.
        let mut rest = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut log = String::new();
            rest.read_to_string(&mut log).unwrap();
            log
        });
        // As the program sees it, which may have mounted something there.
        let data = format!("/proc/{}/root{}", child.id(), place.data().display());
        let token = fs::read_to_string(Path::new(&data).join("token")).unwrap().trim().to_owned();
        Self { child, url, token, said, log: Some(log) }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends it, and gives what it logged.
    pub(crate) fn stop(mut self) -> String {
        self.signal(rustix::process::Signal::INT);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        self.log.take().unwrap().join().unwrap()
    }

    pub(crate) async fn chat(&self, message: &str) -> String {
        let reply: Value = self.post("/chat", json!({ "message": message })).await.1;
        reply["response"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let answer = client()
            .post(format!("{}{path}", self.url))
            .basic_auth("anyone", Some(&self.token))
            .json(&body)
            .send()
            .await
            .unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let request = client().get(format!("{}{path}", self.url));
        let answer = request.basic_auth("anyone", Some(&self.token)).send().await.unwrap();
        answer.json().await.unwrap()
    }
}

impl Drop for Up {
    #[expect(clippy::print_stdout, reason = "a test that failed shows what its server said")]
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal(rustix::process::Signal::TERM);
            let _ended = self.child.wait();
        }
        if std::thread::panicking()
            && let Some(log) = self.log.take()
        {
            // Whoever it left behind holds the other end, and is not waited for without end.
            let begun = Instant::now();
            while !log.is_finished() && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(10));
            }
            if log.is_finished() {
                println!("{}", log.join().unwrap_or_default());
            }
        }
    }
}

pub(crate) fn client() -> reqwest::Client {
    static PROVIDER: std::sync::Once = std::sync::Once::new();
    PROVIDER.call_once(|| {
        let _other = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Shows a program the `uv` that tests of runners have; else it is on the path, or it is fetched.
pub(crate) fn with_uv(mut command: Command) -> Command {
    if let Some(folder) = std::env::var_os("FAMULUS_TEST_UV") {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let all = [PathBuf::from(folder)].into_iter().chain(std::env::split_paths(&folders));
        command.env("PATH", std::env::join_paths(all).unwrap());
    }
    command
}
