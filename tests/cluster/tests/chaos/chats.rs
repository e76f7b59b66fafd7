//! Somebody writes on Telegram to two replicas of the app while one after the other is killed: each
//! message is answered once, or the outbox says of which answer nobody knows.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use famulus_cluster_tests::helm::upgrade;
use famulus_cluster_tests::host::{enter, kill_container_of};
use famulus_cluster_tests::kubectl::{LONG, kubectl, objects, until};
use famulus_cluster_tests::release::{Release, name};
use famulus_scripted_telegram::{Kind, Message, Telegram, User};

use crate::load;

const TOKEN: &str = "99:known-to-the-tests-of-clusters";
const SECRET: &str = "telegram";
/// The node, as its Pods reach it.
const NODE: &str = "198.51.100.1:0";
const APP: &str = "app.kubernetes.io/component=app";
const REPLICAS: usize = 2;
/// Each replica dies, and one of them again.
const DEATHS: usize = REPLICAS + 1;
/// Between two messages of somebody who has been answered.
const PAUSE: Duration = Duration::from_millis(1_500);
/// Answers to messages that were written after a death, before the next.
const ANSWERS: usize = 2;
const REPORT: &[u8] = b"what was in the report";

#[tokio::test]
async fn whoever_writes_to_two_replicas_is_answered_once_whichever_dies() {
    enter();
    let telegram = Telegram::at(TOKEN, NODE.parse().unwrap()).await.unwrap();
    let token = format!("--from-literal=token={TOKEN}");
    kubectl(&["-n", &name(), "create", "secret", "generic", SECRET, &token]).await;
    let base = format!("app.telegram.baseUrl={}", telegram.base_url());
    let secret = format!("app.telegram.existingSecret={SECRET}");
    let replicas = format!("app.replicas={REPLICAS}");
    upgrade(&["--set", &replicas, "--set", &secret, "--set", &base]).await;

    let release = load::release().await;
    let mut guest = Guest::let_in(&telegram, &release).await;
    guest.has_a_file_back().await;
    for death in 0..DEATHS {
        let pods = running().await;
        guest.writes_while(async { sleep(PAUSE * 2).await }).await;
        kill_container_of(&pods[death % REPLICAS]);
        let (died, written) = (Instant::now(), guest.written);
        let goes_on = async {
            until("what is written after a death is answered", LONG, async || {
                let last = last_answered(&telegram);
                if last >= written + ANSWERS { Ok(()) } else { Err(format!("up to {last}")) }
            })
            .await;
        };
        guest.writes_while(goes_on).await;
        println!("death {death}: {ANSWERS} later messages answered after {:?}", died.elapsed());
    }
    running().await;
    guest.has_a_file_back().await;
    let unknown = settled(&telegram, &release).await;
    guest.was_answered_once(unknown);

    let without = ["app.replicas=1", "app.telegram.existingSecret=", "app.telegram.baseUrl="];
    upgrade(&["--set", &without.join(",")]).await;
    kubectl(&["-n", &name(), "delete", "secret", SECRET]).await;
    telegram.stop().await;
}

/// Somebody whom the owner has let in.
struct Guest<'a> {
    telegram: &'a Telegram,
    user: User,
    /// Messages so far, which are numbered from 1.
    written: usize,
}

impl<'a> Guest<'a> {
    async fn let_in(telegram: &'a Telegram, release: &Release) -> Self {
        let user = User::new(7_001, "Guest");
        telegram.write(&user, &user.chat(), "let me in");
        let code = until("a stranger is told a code", LONG, async || {
            let sent = telegram.sent_to(user.id);
            sent.iter().find_map(code_in).ok_or_else(|| format!("{sent:?}"))
        })
        .await;
        let (status, said) =
            release.ask(Method::POST, "/v1/pairings", Some(&json!({ "code": code }))).await;
        assert_eq!(status, 200, "{said}");
        Self { telegram, user, written: 0 }
    }

    /// Goes on writing until something has happened, and more rarely the longer no answer comes: the
    /// messages of an outage join one turn, which may write ten times.
    async fn writes_while(&mut self, happens: impl Future<Output = ()>) {
        let mut happens = pin!(happens);
        loop {
            self.written += 1;
            let text = format!("remember that note {} is kept", self.written);
            self.telegram.write(&self.user, &self.user.chat(), &text);
            let unanswered = self.written - last_answered(self.telegram);
            tokio::select! {
                () = &mut happens => return,
                () = sleep(PAUSE * unanswered as u32) => {}
            }
        }
    }

    async fn has_a_file_back(&self) {
        let files = || {
            let sent = self.telegram.sent_to(self.user.id);
            let is_report = |one: &Message| matches!(&one.kind, Kind::File { bytes, .. } if bytes.as_ref() == REPORT);
            sent.iter().filter(|one| is_report(one)).count()
        };
        let before = files();
        let id = self.telegram.keep(REPORT);
        let document = json!({
            "file_id": id, "file_unique_id": id, "file_name": "report.txt",
            "mime_type": "text/plain", "file_size": REPORT.len(),
        });
        let fields = json!({"caption": "Send me the file", "document": document});
        self.telegram.send(&self.user, &self.user.chat(), fields);
        until("a file comes back", LONG, async || match files() - before {
            0 => Err(format!("{:?}", self.telegram.sent_to(self.user.id).last())),
            _ => Ok(()),
        })
        .await;
        sleep(PAUSE * 2).await;
        assert_eq!(files(), before + 1, "it comes once");
    }

    /// Each message is answered once, but for as many as went out with an outcome that nobody knows.
    fn was_answered_once(&self, unknown: usize) {
        let answers = answers(self.telegram);
        let twice: Vec<_> = answers.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "answered more than once: {twice:?}");
        let missing: Vec<_> = (1..=self.written).filter(|n| !answers.contains_key(n)).collect();
        println!("{} written, {missing:?} missing, {unknown} unknown", self.written);
        // One answer may be to several messages; without one that is lost, none of them is missing.
        let texts: Vec<_> = self.telegram.sent().into_iter().map(|one| one.text).collect();
        assert!(missing.is_empty() || unknown > 0, "never answered: {missing:?} in {texts:#?}");
    }
}

/// How often each message was answered, by its number.
fn answers(telegram: &Telegram) -> BTreeMap<usize, usize> {
    let mut answers = BTreeMap::new();
    for message in telegram.sent() {
        for rest in message.text.split("I will remember: note ").skip(1) {
            let number = rest.split(' ').next().and_then(|number| number.parse().ok());
            *answers.entry(number.unwrap_or_default()).or_default() += 1;
        }
    }
    answers
}

fn last_answered(telegram: &Telegram) -> usize {
    answers(telegram).into_keys().last().unwrap_or_default()
}

/// The code stands in bold.
fn code_in(message: &Message) -> Option<String> {
    let bold = message.entities.iter().find(|entity| entity.kind == "bold")?;
    Some(message.text.chars().skip(bold.offset).take(bold.length).collect())
}

/// The replicas, once all of them are ready.
async fn running() -> Vec<Value> {
    until("both replicas are ready", LONG, async || {
        let mut pods = objects(&name(), "pods", APP).await;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
        let ready = pods.iter().all(|pod| pod["status"]["containerStatuses"][0]["ready"] == true);
        if pods.len() == REPLICAS && ready { Ok(pods) } else { Err(format!("{} Pods", pods.len())) }
    })
    .await
}

/// Waits until Telegram has nothing to tell and nothing is on its way. Returns how many messages went
/// out with an outcome that nobody knows.
async fn settled(telegram: &Telegram, release: &Release) -> usize {
    let read = async |path: &str| {
        let (status, said) = release.ask(Method::GET, path, None).await;
        assert_eq!(status, 200, "{said}");
        said
    };
    until("nothing is on its way", LONG, async || {
        let queue = read("/v1/queue").await;
        let classes = queue["classes"].as_array().unwrap();
        let depth: u64 = classes.iter().map(|class| class["depth"].as_u64().unwrap()).sum();
        let left = telegram.unconfirmed() as u64 + depth;
        if left == 0 { Ok(()) } else { Err(queue.to_string()) }
    })
    .await;
    let unknown = read("/v1/outbox?state=unknown&limit=500").await;
    unknown["messages"].as_array().unwrap().len()
}
