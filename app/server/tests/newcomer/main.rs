//! What a newcomer does, with the real binary: start it, talk to it, stop it, start it again, and
//! get things wrong.
//!
//! The private Postgres comes from this machine or from the tree that `cargo xtask postgres`
//! fetches; without either these tests fail and say so.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod backups;
mod bucket;
mod compatible;
mod denial;
mod elsewhere;
mod full_disk;
mod home;
mod hostile;
mod outside;
mod plugin_backups;
mod plugin_news;
mod plugins;
mod processes;
mod up;
mod who;

use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};
use up::{Place, Up, client, famulus};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_conversation_survives_a_restart_and_a_crash() {
    let place = Place::new("newcomer");
    let up = Up::start(&place);
    assert!(up.said.contains("famulus chat") && up.said.contains("demo"), "{}", up.said);
    let can = up.said.lines().find(|line| line.contains("It can:")).unwrap();
    assert!(can.contains("manage_schedules"), "{can}");
    assert!(can.contains("run_plugin_tool"), "{can}");
    assert!(!up.said.contains(&up.token), "the token is not printed into a pipe");
    let mode = fs::metadata(place.data().join("token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let reply = up.chat("Remember that my cat is called Miso").await;
    assert!(!reply.trim().is_empty());
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Miso"), "{reply}");
    let (status, turns) = up.post("/v1/conversations/main/stop", json!({})).await;
    assert_eq!(status, 200, "{turns}");
    let postmaster = fs::read_to_string(place.data().join("postgres/postmaster.pid")).unwrap();
    let process = fs::metadata(format!("/proc/{}", postmaster.lines().next().unwrap())).unwrap();
    assert_ne!(process.uid(), 0, "Postgres never runs as root");
    let log = up.stop();
    assert!(log.contains("INFO"), "{log}");
    for word in ["Miso", "my cat", "assistant"] {
        assert!(!log.contains(word), "no message and no prompt is logged: {log}");
    }

    let mut up = Up::start(&place);
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Miso"), "a second start finds the same data: {reply}");
    let listed = get(&up, "/v1/knowledge").await;
    let id = listed["knowledge"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    change_memory(&up, &id, "My cat is called Yuzu.").await;
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Yuzu") && !reply.contains("Miso"), "{reply}");

    up.child.kill().unwrap();
    up.child.wait().unwrap();
    drop(up);
    let up = Up::start(&place);
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Yuzu"), "after a crash nothing needs cleaning: {reply}");

    let second = famulus(&place.data()).arg("up").output().unwrap();
    assert!(!second.status.success());
    let error = said(&second);
    assert!(error.contains("another famulus") && error.contains("data directory"), "{error}");

    let (status, problem) = up
        .post(
            "/v1/schedules",
            json!({ "note": "x", "rule": { "kind": "cron", "expression": "61 * * * *" } }),
        )
        .await;
    assert!((400..500).contains(&status), "{status} {problem}");
    assert!(problem.to_string().contains("61 * * * *"), "{problem}");

    let big = client()
        .post(format!("{}/v1/blobs", up.url))
        .bearer_auth(&up.token)
        .header("content-type", "application/octet-stream")
        .body(vec![0u8; 30 * 1024 * 1024])
        .send()
        .await;
    // The refusal may arrive while the rest of the body is still on its way.
    if let Ok(answer) = big {
        assert_eq!(answer.status().as_u16(), 413);
        let problem: Value = answer.json().await.unwrap();
        assert!(problem["remedy"].is_string(), "{problem}");
    }
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Yuzu"), "{reply}");
    up.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_first_token_stays_revoked_and_the_file_gets_a_new_one() {
    let place = Place::new("revoked-token");
    let up = Up::start(&place);
    let revoked = up.token.clone();
    revoke(&up).await;
    up.stop();

    let up = Up::start(&place);
    assert_ne!(up.token, revoked);
    assert!(up.said.contains("was revoked"), "{}", up.said);
    assert!(!up.said.contains(&up.token), "the token is not printed into a pipe");
    assert_eq!(status_with(&up, &revoked).await, 401, "a revoked token stays revoked");
    assert_eq!(status_with(&up, &up.token).await, 200);
    let mode = fs::metadata(place.data().join("token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let renewed = up.token.clone();
    let log = up.stop();
    assert!(!log.contains(&renewed) && !log.contains(&revoked), "no token is logged");

    let up = Up::start(&place);
    assert_eq!(up.token, renewed, "it is made once");
    assert!(!up.said.contains("was revoked"), "it is said once: {}", up.said);
    up.stop();
}

/// As in a cluster, where the file is a Secret and nothing replaces a file that is mounted.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_of_a_secret_leaves_the_assistant_running_and_names_the_command() {
    let place = Place::new("revoked-secret");
    let up = Up::start(&place);
    let (_, spare) = up.post("/v1/tokens", json!({"name": "spare", "scope": "owner"})).await;
    let spare = spare["token"].as_str().unwrap().to_owned();
    let revoked = up.token.clone();
    revoke(&up).await;
    up.stop();

    for _ in 0..2 {
        let up = Up::from(&place, mounted(&place));
        assert_eq!(up.token, revoked, "the Secret is not the assistant's to change");
        assert!(!place.data().join("token.new").exists());
        assert_eq!(status_with(&up, &revoked).await, 401);
        assert_eq!(status_with(&up, &spare).await, 200);
        let command = "kubectl -n assistant patch secret home-token -p";
        assert!(up.said.contains(command), "{}", up.said);
        let log = up.stop();
        assert!(log.contains("WARN") && log.contains(command), "{log}");
    }
}

/// `famulus` in a cluster that does not answer, with the file `token` mounted.
fn mounted(place: &Place) -> Command {
    let key = place.0.join("key");
    fs::write(&key, [7; 32]).unwrap();
    let kube = place.0.join("kubeconfig");
    let known = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "none",
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    });
    fs::write(&kube, known.to_string()).unwrap();
    let inner = famulus(&place.data());
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--map-current-user", "--keep-caps"]);
    }
    command.args(["--mount", "sh", "-c"]);
    command.arg(r#"mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" up"#);
    command.arg("sh").arg(place.data().join("token")).arg(inner.get_program());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .env("KUBECONFIG", kube)
        .env("FAMULUS_CLUSTER__SANDBOX_NAMESPACE", "assistant-sandbox")
        .env("FAMULUS_CLUSTER__ROOT_KEY_FILE", key)
        .env("FAMULUS_CLUSTER__CALLBACK_URL", "http://127.0.0.1:1")
        .env("FAMULUS_CLUSTER__TOKEN_SECRET__NAMESPACE", "assistant")
        .env("FAMULUS_CLUSTER__TOKEN_SECRET__NAME", "home-token")
        .stdin(Stdio::null());
    command
}

async fn revoke(up: &Up) {
    let tokens = get(up, "/v1/tokens").await;
    let id = tokens["tokens"][0]["id"].as_str().unwrap_or_else(|| panic!("{tokens}"));
    let gone = client()
        .delete(format!("{}/v1/tokens/{id}", up.url))
        .bearer_auth(&up.token)
        .send()
        .await
        .unwrap();
    assert_eq!(gone.status().as_u16(), 204);
}

async fn status_with(up: &Up, token: &str) -> u16 {
    let asked = client().get(format!("{}/v1/me", up.url)).bearer_auth(token);
    asked.send().await.unwrap().status().as_u16()
}

async fn get(up: &Up, path: &str) -> Value {
    let asked = client().get(format!("{}{path}", up.url)).bearer_auth(&up.token);
    asked.send().await.unwrap().json().await.unwrap()
}

/// Replaces a memory as its owner would: the old one goes, a new one comes.
async fn change_memory(up: &Up, id: &str, text: &str) {
    let gone = client()
        .delete(format!("{}/v1/knowledge/{id}", up.url))
        .bearer_auth(&up.token)
        .send()
        .await
        .unwrap();
    assert!(gone.status().is_success(), "{}", gone.status());
    let (status, made) = up.post("/v1/knowledge", json!({ "kind": "memory", "body": text })).await;
    assert_eq!(status, 201, "{made}");
}

#[test]
fn a_wrong_key_names_the_right_one() {
    let place = Place::new("wrong-key");
    let config = place.0.join("config.toml");
    fs::write(&config, "[model]\nbase_ulr = \"http://127.0.0.1:1/v1\"\n").unwrap();
    for command in [&["up"][..], &["config", "check"]] {
        let output =
            famulus(&place.data()).arg("--config").arg(&config).args(command).output().unwrap();
        assert!(!output.status.success());
        assert!(said(&output).contains("did you mean `model.base_url`?"), "{}", said(&output));
    }
}

#[test]
fn a_busy_port_is_named_with_its_key() {
    let place = Place::new("busy-port");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output =
        famulus(&place.data()).arg("up").env("FAMULUS_API__LISTEN", &address).output().unwrap();
    assert!(!output.status.success());
    let error = said(&output);
    assert!(error.contains(&address) && error.contains("api.listen"), "{error}");
    assert!(!place.data().join("postgres").exists(), "nothing was touched");
}

#[test]
fn a_database_that_is_not_there_is_named() {
    let place = Place::new("no-database");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Instant::now();
    let output = famulus(&place.data())
        .arg("serve")
        .env("DATABASE_URL", format!("postgres://ada:secret@{free}/famulus"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let error = said(&output);
    assert!(error.contains(&free.to_string()) && error.contains("cannot be reached"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
    let output = famulus(&place.data()).arg("serve").output().unwrap();
    assert!(said(&output).contains("DATABASE_URL"), "{}", said(&output));
}

#[test]
fn a_postgres_that_is_missing_says_where_it_was_looked_for() {
    let place = Place::new("no-postgres");
    let output = famulus(&place.data())
        .arg("up")
        .env("FAMULUS_DATABASE__BIN_DIR", place.0.join("nowhere"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let error = said(&output);
    assert!(error.contains("nowhere"), "{error}");
}
