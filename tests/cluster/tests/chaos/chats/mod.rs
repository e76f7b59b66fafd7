//! People write on Telegram and on Signal to two replicas of the app while one after the other is killed: each
//! message is answered once, or the outbox says of which answer nobody knows. And the owner does what
//! docs/CHANNELS.md shows.

mod guest;
mod owner;
mod signal;
mod telegram;

use reqwest::Method;
use serde_json::Value;
use tokio::time::Instant;

use famulus_cluster_tests::helm::upgrade;
use famulus_cluster_tests::host::{enter, kill_container_of};
use famulus_cluster_tests::kubectl::{LONG, objects, until};
use famulus_cluster_tests::release::{Release, name};
use famulus_models::scripted::Scripted;
use famulus_scripted_telegram::User;

use crate::load;
use guest::{Guest, Messenger, PAUSE};

/// The node, as its Pods reach it.
const NODE: &str = "198.51.100.1:0";
const APP: &str = "app.kubernetes.io/component=app";
const REPLICAS: usize = 2;
/// Each replica dies, and one of them again.
const DEATHS: usize = REPLICAS + 1;
/// Answers to messages that were written after a death, before the next.
const ANSWERS: usize = 2;

#[tokio::test]
async fn whoever_writes_to_two_replicas_is_answered_once_whichever_dies() {
    enter();
    let (telegram, of_telegram) = telegram::start(NODE).await;
    let provider = Scripted::at(NODE.parse().unwrap(), None).await.unwrap();
    let replicas = format!("app.replicas={REPLICAS}");
    let values = [replicas, of_telegram, signal::values(), voices(Some(&provider))].join(",");
    upgrade(&["--set", &values]).await;

    let release = load::release().await;
    let daemon = signal::Daemon::find().await;
    daemon.link().await;
    let here = telegram::Writer { telegram: &telegram, user: User::new(7_001, "Guest") };
    let there = signal::Writer::new(&daemon, signal::user(8, "Guest"));
    let mut here = Guest::let_in(here, &release).await;
    let mut there = Guest::let_in(there, &release).await;
    tokio::join!(here.has_a_file_back(), there.has_a_file_back());
    for death in 0..DEATHS {
        let pods = running().await;
        tokio::join!(here.writes_for(PAUSE * 2), there.writes_for(PAUSE * 2));
        kill_container_of(&pods[death % REPLICAS]);
        let died = Instant::now();
        tokio::join!(here.writes_until_answered(ANSWERS), there.writes_until_answered(ANSWERS));
        println!("death {death}: {ANSWERS} later messages answered after {:?}", died.elapsed());
    }
    running().await;
    tokio::join!(here.has_a_file_back(), there.has_a_file_back());
    settled(&release, async || here.messenger.unheard().await + there.messenger.unheard().await)
        .await;
    here.was_answered_once(unknown(&release, "telegram").await).await;
    there.was_answered_once(unknown(&release, "signal").await).await;

    owner::does_what_the_guide_shows(&telegram, &daemon).await;
    goes_on_with_its_volume(&daemon, &there).await;

    let without = ["app.replicas=1", telegram::WITHOUT, signal::WITHOUT, &voices(None)].join(",");
    upgrade(&["--set", &without]).await;
    telegram::stop(&telegram).await;
    daemon.is_gone().await;
}

/// Values by which recordings are heard and made, or neither.
fn voices(provider: Option<&Scripted>) -> String {
    let base = provider.map(|provider| provider.base_url().to_string()).unwrap_or_default();
    let name = |name: &'static str| provider.map_or("", |_| name);
    let of = |key: &str, name: &str| format!("app.{key}.baseUrl={base},app.{key}.name={name}");
    [of("transcription", name("whisper-1")), of("speech", name("tts-1"))].join(",")
}

/// A daemon that is started anew has its account, and keeps no file for longer than it should.
async fn goes_on_with_its_volume(daemon: &signal::Daemon, guest: &Guest<signal::Writer<'_>>) {
    const FILES: &str = "/data/signal-cli/attachments";
    daemon.runs(&format!("touch -d '4 days ago' {FILES}/old && touch {FILES}/new")).await;
    daemon.is_born_anew().await;
    guest.messenger.write("What time is it?").await;
    guest.is_told("It is").await;
    until("what is old is removed", LONG, async || {
        let files = daemon.runs(&format!("ls {FILES}")).await;
        assert!(files.contains("new"), "{files}");
        if files.contains("old") { Err(files) } else { Ok(()) }
    })
    .await;
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

/// Waits until the messengers have nothing to tell and nothing is on its way.
async fn settled(release: &Release, unheard: impl AsyncFn() -> usize) {
    until("nothing is on its way", LONG, async || {
        let queue = read(release, "/v1/queue").await;
        let classes = queue["classes"].as_array().unwrap();
        let depth: u64 = classes.iter().map(|class| class["depth"].as_u64().unwrap()).sum();
        let left = unheard().await as u64 + depth;
        if left == 0 { Ok(()) } else { Err(queue.to_string()) }
    })
    .await;
}

/// How many messages went out to a messenger with an outcome that nobody knows.
async fn unknown(release: &Release, channel: &str) -> usize {
    let unknown = read(release, "/v1/outbox?state=unknown&limit=500").await;
    let messages = unknown["messages"].as_array().unwrap().iter();
    messages.filter(|one| one["to"]["channel"] == channel).count()
}

async fn read(release: &Release, path: &str) -> Value {
    let (status, said) = release.ask(Method::GET, path, None).await;
    assert_eq!(status, 200, "{said}");
    said
}
