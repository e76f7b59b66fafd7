//! A runner that serves in a sandbox: called through a socket, it calls back through another.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use famulus_protocol::launch::Place;
use famulus_protocol::{CallResult, Delivery, Health, Landlock, Outcome, Progress, paths};
use reqwest::{Client, StatusCode};
use rustix::process::getuid;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use crate::bench::{Bench, Who};

const BEARER: &str = "a-bearer-of-one-machine";
const PATIENCE: Duration = Duration::from_secs(20);

/// Says what the tool sees of the sandbox: which of these paths it can read, and who else is there.
const LOOK: &str = r#"#!/usr/bin/python3 -I
import json, os, sys
def reads(path):
    try:
        return bool(os.listdir(path) if os.path.isdir(path) else open(path).read(1))
    except OSError:
        return False
print(json.dumps({
    "given": json.load(sys.stdin)["word"],
    "reads": [path for path in ("/kept", "/kept/bearer", "/listen", "/plugins/p", "/usr/bin") if reads(path)],
    "user": os.getuid(),
}))
"#;

/// A sandbox with a runner for the plugin `p`, which has a tool that answers at once and one that answers later.
struct Serving {
    launcher: Child,
    client: Client,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.launcher.stdin.take());
        let _ended = self.launcher.wait();
    }
}

impl Serving {
    fn start(bench: &mut Bench) -> Self {
        let script = |path: &str, text: &str| {
            fs::create_dir_all(bench.path(path).parent().unwrap()).unwrap();
            fs::write(bench.path(path), text).unwrap();
            fs::set_permissions(bench.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        };
        let tool = |name: &str, later: bool| {
            let parameters = json!({"word": {"type": "string", "description": "A word."}});
            let parameters = if later { json!({}) } else { parameters };
            json!({"name": name, "description": "A tool.", "entrypoint": "run", "async": later,
                   "parameters": parameters})
            .to_string()
        };
        script("plugin/manifest.json", r#"{"name":"p","description":"A plugin."}"#);
        script("plugin/look/manifest.json", &tool("look", false));
        script("plugin/look/run", LOOK);
        script("plugin/later/manifest.json", &tool("later", true));
        script("plugin/later/run", "#!/bin/sh\necho late\n");
        script("kept/bearer", BEARER);
        for folder in ["listen", "cache", "temporary"] {
            fs::create_dir(bench.path(folder)).unwrap();
        }
        for folder in ["plugin", "kept", "listen", "cache", "temporary"] {
            give(&bench.path(folder), bench.who.inside());
            let to = if folder == "plugin" { "/plugins/p".into() } else { format!("/{folder}") };
            let from = Some(bench.path(folder));
            bench.order.places.push(Place { from, to: to.into(), writable: true });
        }
        let own_user = (bench.who == Who::Root).to_string();
        let settings = [
            ("LISTEN", "unix:/listen/runner"),
            ("PLUGIN", "/plugins/p"),
            ("BEARER_FILE", "/kept/bearer"),
            ("KEPT", "/kept/calls"),
            ("SCRATCH", "/temporary"),
            ("TEMPORARY", "/temporary"),
            ("OWN_USER", &own_user),
        ];
        for (name, value) in settings {
            bench.order.variables.insert(format!("FAMULUS_RUNNER_{name}"), value.to_owned());
        }
        let mut launcher = bench.start(&["/famulus/runner"]);
        let mut said = Vec::new();
        for line in BufReader::new(launcher.stderr.take().unwrap()).lines() {
            let line = line.unwrap();
            let is_there = line.contains("the runner listens");
            said.push(line);
            if is_there {
                break;
            }
        }
        let socket = bench.path("listen/runner");
        assert!(socket.exists(), "{:?}: {said:#?}", bench.who);
        let client = Client::builder().no_proxy().unix_socket(socket).build().unwrap();
        Self { launcher, client }
    }

    async fn call(&self, id: &str, call: Value) -> (StatusCode, String) {
        let url = format!("http://sandbox{}", paths::call(&id.parse().unwrap()));
        let answer = self.client.post(url).bearer_auth(BEARER).json(&call).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    async fn health(&self) -> Health {
        let url = format!("http://sandbox{}", paths::HEALTH);
        self.client.get(url).bearer_auth(BEARER).send().await.unwrap().json().await.unwrap()
    }
}

fn give(path: &Path, user: u32) {
    if getuid().is_root() {
        chown(path, Some(user), Some(user)).unwrap();
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

/// What a tool printed.
fn printed(result: &CallResult) -> &str {
    match &result.runs[0].outcome {
        Outcome::Json { output } | Outcome::Text { output } => output,
        Outcome::Failed(failure) => &failure.message,
    }
}

#[tokio::test]
async fn a_tool_runs_in_it_held_as_in_a_pod() {
    for who in Who::all() {
        let mut bench = Bench::new(who);
        let serving = Serving::start(&mut bench);
        let call = json!({"tool": "look", "parameters": {"word": "hello"}});
        let (status, text) = serving.call("c1", call).await;
        assert_eq!(status, StatusCode::OK, "{who:?}: {text}");
        let Ok(Progress::Result(result)) = serde_json::from_str(text.lines().last().unwrap())
        else {
            panic!("no result: {text}")
        };
        let seen: Value =
            serde_json::from_str(printed(&result)).unwrap_or_else(|_| panic!("{result:?}"));
        let reads = ["/plugins/p", "/usr/bin"];
        assert_eq!(seen, json!({"given": "hello", "reads": reads, "user": who.inside()}));
        let isolation = serving.health().await.isolation.unwrap();
        assert!(isolation.filtered && isolation.no_new_privileges, "{isolation:?}");
        assert_ne!(isolation.landlock, Landlock::None);
        // Whoever has no bearer is nobody, also through a socket.
        let url = format!("http://sandbox{}", paths::HEALTH);
        let answer = serving.client.get(url).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn a_result_that_comes_later_comes_through_the_door_that_was_given() {
    for who in Who::all() {
        let mut bench = Bench::new(who);
        let door = UnixListener::bind(bench.path("given/app")).unwrap();
        fs::set_permissions(bench.path("given/app"), fs::Permissions::from_mode(0o777)).unwrap();
        let serving = Serving::start(&mut bench);
        let callback =
            json!({"url": "unix:/given/app:/v1/callbacks/c1", "token": "one-time-token"});
        let call = json!({"tool": "later", "parameters": {}, "callback": callback});
        let (status, text) = serving.call("c1", call).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{who:?}: {text}");
        let (head, delivery) = tokio::time::timeout(PATIENCE, heard(&door)).await.unwrap();
        assert!(head.starts_with("POST /v1/callbacks/c1 HTTP/1.1"), "{head}");
        assert!(head.to_lowercase().contains(&format!("bearer {BEARER}")), "{head}");
        assert_eq!(printed(&delivery.result).trim(), "late");
    }
}

/// The head and the body of the first request.
async fn heard(door: &UnixListener) -> (String, Delivery) {
    let (mut socket, _) = door.accept().await.unwrap();
    let (mut bytes, begun) = (Vec::new(), Instant::now());
    loop {
        assert!(begun.elapsed() < PATIENCE, "the request does not end");
        let mut piece = [0; 4096];
        let read = socket.read(&mut piece).await.unwrap();
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(delivery) = serde_json::from_str(body) {
            socket.write_all(b"HTTP/1.1 204 Fine\r\n\r\n").await.unwrap();
            return (head.to_owned(), delivery);
        }
    }
}
