//! A rolling upgrade of app and operator while messages come in at a steady rate. Not a test: it prints
//! a table and judges nothing. `cargo xtask cluster bench upgrade` runs it.
//!
//! Messages are sent when they are due, whatever became of those before, each over a connection of its
//! own to the address of the Service. What counts as lost is a message that was answered and does not
//! stand in its conversation, or stands there without an answer.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench tells people"
)]
#![expect(clippy::disallowed_methods, reason = "a bench's tasks end with it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::time::{interval, sleep};

use famulus_cluster_tests::figures::{percentile, told};
use famulus_cluster_tests::helm::upgrade;
use famulus_cluster_tests::release::Release;

const ROUNDS: usize = 3;
/// Between two messages: 50 a second.
const PERIOD: Duration = Duration::from_millis(20);
/// Before the upgrade begins, and after helm says that it is done.
const CALM: Duration = Duration::from_secs(10);
/// They take turns, so that each message finds its conversation at rest.
const CONVERSATIONS: usize = 200;
/// One token may ask for more than comes in.
const RATES: &str = "app.config=[api]\nrequests_per_second = 1000\nrequests_burst = 1000\n";

/// A message, when it was sent, and what came of it.
struct Sent {
    conversation: usize,
    text: String,
    took: Duration,
    /// Whether it was answered, or why not.
    answer: Result<(), String>,
    while_upgrading: bool,
}

#[tokio::main]
async fn main() {
    let mut release = Release::open().await;
    upgrade(&["--set-string", RATES]).await;
    release.through_service().await;
    release.client = Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let mut conversations = Vec::new();
    for _ in 0..CONVERSATIONS {
        let (_, opened) = release.ask(Method::POST, "/v1/conversations", Some(&json!({}))).await;
        conversations.push(opened["id"].as_str().unwrap().to_owned());
    }
    let (release, conversations) = (Arc::new(release), Arc::new(conversations));

    let (mut failed, mut lost, mut count) = (0, 0, 0);
    let (mut calm, mut beside) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let all = measured(&release, &conversations, round).await;
        for sent in &all {
            if let Err(why) = &sent.answer {
                eprintln!("{}: {why}", sent.text);
                failed += 1;
            }
        }
        lost += lost_of(&release, &conversations, &all).await;
        count += all.len();
        for (upgrading, times) in [(false, &mut calm), (true, &mut beside)] {
            let of = all.iter().filter(|sent| sent.while_upgrading == upgrading);
            let mut of: Vec<Duration> = of.map(|sent| sent.took).collect();
            eprintln!("  {} messages, upgrading: {upgrading}", of.len());
            times.push([0.5, 0.99].map(|part| percentile(&mut of, part).as_secs_f64() * 1e3));
        }
    }
    for (what, rounds) in [("calm", calm), ("during the upgrade", beside)] {
        let of = |at: usize| told(rounds.iter().map(|round| round[at]).collect());
        println!("| a turn at 50 messages/s, {what} | {} ms | {} ms |", of(0), of(1));
    }
    println!("| of {count} messages: failed requests, lost messages | {failed} | {lost} |");
}

async fn measured(
    release: &Arc<Release>,
    conversations: &Arc<Vec<String>>,
    round: usize,
) -> Vec<Sent> {
    let (upgrading, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let sending = tokio::spawn({
        let (release, conversations) = (Arc::clone(release), Arc::clone(conversations));
        let (upgrading, done) = (Arc::clone(&upgrading), Arc::clone(&done));
        async move {
            let mut due = interval(PERIOD);
            let mut under_way = Vec::new();
            for number in 0.. {
                due.tick().await;
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let conversation = number % CONVERSATIONS;
                let text = format!("What time is it? ({round}-{number})");
                let while_upgrading = upgrading.load(Ordering::Relaxed);
                let (release, conversations) = (Arc::clone(&release), Arc::clone(&conversations));
                under_way.push(tokio::spawn(async move {
                    let begun = Instant::now();
                    let answer = say(&release, &conversations[conversation], &text).await;
                    let took = begun.elapsed();
                    Sent { conversation, text, took, answer, while_upgrading }
                }));
            }
            under_way
        }
    });
    sleep(CALM).await;
    upgrading.store(true, Ordering::Relaxed);
    // Values that no upgrade before had, so that Pods are other ones.
    let log = format!("log=info\\,upgrade{round}=info");
    let (app, operator) = (format!("app.{log}"), format!("operator.{log}"));
    upgrade(&["--set", &app, "--set", &operator]).await;
    sleep(CALM).await;
    done.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for one in sending.await.unwrap() {
        all.push(one.await.unwrap());
    }
    all
}

async fn say(release: &Release, conversation: &str, text: &str) -> Result<(), String> {
    let body = json!({"message": text, "conversation_id": conversation});
    let request = release.client.post(format!("{}/chat", release.address));
    let request = request.bearer_auth(&release.token).timeout(Duration::from_mins(1)).json(&body);
    let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
    let status = answer.status();
    let said = answer.text().await.map_err(|error| format!("{status}: {error:?}"))?;
    if status.as_u16() == 200 { Ok(()) } else { Err(format!("{status}: {said}")) }
}

/// How many messages that were answered do not stand in their conversation with an answer.
async fn lost_of(release: &Release, conversations: &[String], all: &[Sent]) -> usize {
    let mut records = BTreeMap::new();
    for (at, id) in conversations.iter().enumerate() {
        let path = format!("/v1/conversations/{id}/messages?limit=100");
        let (_, page) = release.ask(Method::GET, &path, None).await;
        records.insert(at, page["messages"].as_array().unwrap().clone());
    }
    let stands = |sent: &&Sent| {
        let messages = &records[&sent.conversation];
        let question = messages.iter().find(|it| it["role"] == "user" && it["text"] == *sent.text);
        question.is_some_and(|question| {
            let is_answer = |it: &&Value| {
                it["role"] == "assistant"
                    && it["turn_id"] == question["turn_id"]
                    && it["has_text"] == true
            };
            messages.iter().any(|it| is_answer(&it))
        })
    };
    all.iter().filter(|sent| sent.answer.is_ok()).filter(|sent| !stands(sent)).count()
}
