//! The scripted daemon of signal-cli in the release's own Pod, scripted through a way that kubectl makes.

use std::collections::BTreeMap;
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use famulus_cluster_tests::forward;
use famulus_cluster_tests::kubectl::{LONG, command, kubectl, object, until};
use famulus_cluster_tests::release::name;

use super::guest::{Messenger, Sent};

/// Where the daemon takes scripts, which nobody but kubectl reaches.
const SCRIPTS: u16 = 8081;
const IMAGE: &str = concat!("localhost/famulus/scripted-signal:", env!("CARGO_PKG_VERSION"));
/// Values of a release that runs none.
pub(crate) const WITHOUT: &str = "signal.image=,app.signal.servesEverybody=false";

/// Values of a release that runs it.
pub(crate) fn values() -> String {
    format!("signal.image={IMAGE},app.signal.servesEverybody=true")
}

pub(crate) struct Daemon {
    address: String,
    client: Client,
    pod: String,
}

impl Daemon {
    /// The one of the release.
    pub(crate) async fn find() -> Self {
        let pod = format!("{}-signal-0", name());
        let address = forward::lasting(&name(), &format!("pod/{pod}"), SCRIPTS).await;
        // A connection to a Pod that is gone is not used again.
        let client = Client::builder().pool_max_idle_per_host(0).build().unwrap();
        Self { address, client, pod }
    }

    /// Links the account as the document says, by a phone that scans what the command shows.
    pub(crate) async fn link(&self) {
        let app = format!("deployment/{}", name());
        let words = ["-n", &name(), "exec", &app, "--", "famulus", "channel", "link", "signal"];
        let mut linking = command(&words);
        let mut linking = linking.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(linking.stdout.take().unwrap()).lines();
        let link = loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if line.starts_with("sgnl://") {
                break line;
            }
        };
        self.tell("scan", &json!({"user": user(99, "Home"), "link": link})).await;
        let mut said = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            said.push_str(&line);
        }
        let ended = linking.wait().await.unwrap();
        assert!(ended.success() && said.contains("is linked"), "{ended}: {said}");
    }

    /// Its Pod is deleted, and another one comes with the same volume.
    pub(crate) async fn is_born_anew(&self) {
        let uid = async || {
            let pod = object(&name(), "pod", &self.pod).await?;
            let mut containers = pod["status"]["containerStatuses"].as_array()?.iter();
            let all = containers.all(|one| one["ready"] == true);
            all.then(|| pod["metadata"]["uid"].to_string())
        };
        let before = uid().await.unwrap();
        kubectl(&["-n", &name(), "delete", "pod", &self.pod]).await;
        until("another Pod of the daemon is ready", LONG, async || match uid().await {
            Some(after) if after != before => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        let _until_there_is_a_way_again = self.look("waiting").await;
    }

    /// A command in the container that tidies.
    pub(crate) async fn runs(&self, script: &str) -> String {
        let words =
            ["-n", &name(), "exec", &self.pod, "-c", "tidy", "--", "/bin/sh", "-ec", script];
        kubectl(&words).await
    }

    /// Nothing of it is left, its volume neither.
    pub(crate) async fn is_gone(&self) {
        let claim = format!("data-{}", self.pod);
        kubectl(&["-n", &name(), "delete", "pvc", &claim]).await;
    }

    /// What the script has there, once there is a way.
    async fn look(&self, what: &str) -> Value {
        let url = format!("{}/{what}", self.address);
        until(&format!("the script says what is {what}"), LONG, async || {
            let answer = self.client.get(&url).send().await;
            let answer = answer.map_err(|error| format!("{error:?}"))?;
            answer.json().await.map_err(|error| format!("{error:?}"))
        })
        .await
    }

    /// Does something there, once.
    async fn tell(&self, what: &str, body: &Value) -> Value {
        let url = format!("{}/{what}", self.address);
        let answer = self.client.post(url).json(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{what}: {}", answer.status());
        answer.json().await.unwrap_or_default()
    }

    async fn keep(&self, bytes: &[u8]) -> String {
        let url = format!("{}/keep", self.address);
        let kept = self.client.post(url).body(bytes.to_vec()).send().await.unwrap();
        let kept: Value = kept.json().await.unwrap();
        kept["id"].as_str().unwrap().to_owned()
    }
}

/// Somebody who writes to the account.
pub(crate) struct Writer<'a> {
    daemon: &'a Daemon,
    user: Value,
    /// By the time that Signal knows them by.
    written: Mutex<BTreeMap<i64, String>>,
}

/// As the scripted daemon knows people.
pub(crate) fn user(number: u32, name: &str) -> Value {
    let (id, phone) =
        (format!("00000000-0000-4000-8000-{number:012}"), format!("+1555{number:07}"));
    json!({"id": id, "number": phone, "name": name})
}

impl<'a> Writer<'a> {
    pub(crate) fn new(daemon: &'a Daemon, user: Value) -> Self {
        Self { daemon, user, written: Mutex::default() }
    }

    async fn send(&self, fields: Value) {
        let text = fields["message"].as_str().unwrap_or_default().to_owned();
        let told = json!({"user": self.user, "fields": fields});
        let told = self.daemon.tell("write", &told).await;
        self.written.lock().insert(told["timestamp"].as_i64().unwrap(), text);
    }

    async fn send_file(&self, caption: Option<&str>, kind: &str, name: Option<&str>, bytes: &[u8]) {
        let id = self.daemon.keep(bytes).await;
        let file = json!({"contentType": kind, "filename": name, "id": id, "size": bytes.len(),
            "width": null, "height": null, "caption": null});
        self.send(json!({"message": caption, "attachments": [file]})).await;
    }

    /// Says words into the phone.
    pub(crate) async fn speak(&self, words: &str) {
        self.send_file(None, "audio/mp4", None, words.as_bytes()).await;
    }
}

impl Messenger for Writer<'_> {
    async fn write(&self, text: &str) {
        self.send(json!({"message": text})).await;
    }

    async fn send_report(&self, caption: &str, bytes: &[u8]) {
        self.send_file(Some(caption), "text/plain", Some("report.txt"), bytes).await;
    }

    async fn sent(&self) -> Vec<Sent> {
        let sent = self.daemon.look("sent").await;
        let sent = sent.as_array().unwrap().iter();
        sent.filter(|one| one["to"] == self.user["id"]).map(message).collect()
    }

    async fn unheard(&self) -> usize {
        self.daemon.look("waiting").await.as_u64().unwrap() as usize
    }

    /// The last that each stream was told before it ended: no more can be on its way when the next is written
    /// more than a second later.
    async fn gone(&self) -> Vec<String> {
        let handed = self.daemon.look("handed").await;
        let mut last: BTreeMap<String, &Value> = BTreeMap::new();
        for one in handed.as_array().unwrap() {
            last.insert(one["streams"].to_string(), one);
        }
        let ended = last.values().filter(|one| one["is_open"] == false);
        let written = self.written.lock();
        ended.filter_map(|one| written.get(&one["timestamp"].as_i64()?).cloned()).collect()
    }
}

fn message(one: &Value) -> Sent {
    let styles = one["styles"].as_array().unwrap();
    let bold = styles.iter().find(|style| style[0] == "BOLD");
    let files = one["files"].as_array().unwrap().iter();
    Sent {
        text: one["text"].as_str().unwrap().to_owned(),
        bold: bold.map(|style| style[1].as_str().unwrap().to_owned()),
        files: files
            .map(|file| STANDARD.decode(file["base64"].as_str().unwrap()).unwrap())
            .collect(),
    }
}
