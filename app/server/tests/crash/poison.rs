//! A turn that kills its workers: it is given up, whoever waits is told, and it can be tried again.

use crate::{
    alone, server,
    support::{
        checker::{Faults, watched},
        client::Meeting,
        script::{Script, Word},
        world::{Settings, World},
    },
};
use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{collections::BTreeSet, os::unix::process::ExitStatusExt, time::Duration};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// Deaths in a row after which the turn is given up.
const ATTEMPTS: u32 = 3;
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);
const SIGABRT: i32 = 6;

/// Text was streamed and stored, and the worker dies: nothing of that is progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deaths_behind_stored_text_are_no_progress() -> Result<()> {
    given_up("event.append:after:3", Script::default().long(), ATTEMPTS).await
}

/// A call is marked as sent, and the worker dies before it leaves. What is recorded before, the
/// reply with the call, is progress once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deaths_behind_calls_that_were_sent_are_no_progress() -> Result<()> {
    given_up("tool.call:before:1", Script::new(&[&[Word::P]]), ATTEMPTS + 1).await
}

/// A process dies where a turn is given up, or where somebody has it tried again: it is given up
/// once, told once, and tried again once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_and_trying_again_may_be_the_last() -> Result<()> {
    let _turn = alone().await;
    let server = server();
    let cases = ["turn.bury", "dead.revive"]
        .into_iter()
        .flat_map(|point| ["before", "after"].map(|side| (point, side)));
    let cases = cases.map(async |(point, side)| {
        let settings = Settings { max_attempts: 1, ..Settings::new(&server) };
        let crash = format!("{point}:{side}:1");
        let outcome = World::run(settings, async |world| dies_given_up(world, &crash).await).await;
        outcome.with_context(|| crash.clone())
    });
    try_join_all(cases).await?;
    Ok(())
}

async fn dies_given_up(world: &World, crash: &str) -> Result<()> {
    world.fleet.start_with(0, &[("FAMULUS_CRASH", "model.ask:after:1")]).await?;
    let person = world.person().await?;
    let conversation = person.client.converse().await?;
    let sent = person.say(conversation, Script::default(), Meeting::Queue).await?;
    let turn = sent.ack.turn;
    ensure!(died(world).await?, "the worker did not die of the turn");
    world.fleet.start_with(0, &[("FAMULUS_CRASH", crash)]).await?;
    let buries = crash.starts_with("turn.bury");
    if buries {
        reborn(world).await?;
    }
    person.until_ended(&sent).await?;
    ensure!(person.client.state_of(turn).await? == "failed", "it was not given up");
    let path = format!("/v1/queue/dead/{turn}/retry");
    let retry = async {
        let (status, answer) =
            person.client.ask(Method::POST, &path, None, Some(&json!({}))).await?;
        // Whoever heard no answer asks again, and what was done stays done.
        let done = status == StatusCode::OK || (!buries && status == StatusCode::NOT_FOUND);
        ensure!(done, "POST {path}: {status}: {answer}");
        Ok(())
    };
    world.log.retried.lock().push(turn);
    if buries {
        retry.await?;
    } else {
        tokio::try_join!(retry, reborn(world))?;
    }
    while person.client.state_of(turn).await? != "complete" {
        sleep(LOOK).await;
    }
    world.settle(PATIENCE).await?;
    until_delivered(world, "done [1]").await?;
    let told = world.receiver.received();
    let words: BTreeSet<&str> = told.iter().map(|sent| sent.markdown.as_str()).collect();
    ensure!(words.len() == 2, "the person was told {words:?}");
    world.check(Faults::Deaths).await
}

/// Waits for the process to die by its point, and starts it again without one.
async fn reborn(world: &World) -> Result<()> {
    let begun = Instant::now();
    while !died(world).await? {
        ensure!(begun.elapsed() < PATIENCE, "the point was never reached");
    }
    world.fleet.start(0).await
}

async fn given_up(crash: &'static str, script: Script, after: u32) -> Result<()> {
    let _turn = alone().await;
    let settings = Settings { max_attempts: ATTEMPTS, ..Settings::new(server()) };
    World::run(settings, async |world| {
        world.fleet.start_with(0, &[("FAMULUS_CRASH", crash)]).await?;
        let person = world.person().await?;
        let conversation = person.client.converse().await?;
        let sent = person.say(conversation, script.clone(), Meeting::Queue).await?;
        let turn = sent.ack.turn;
        let mut deaths = 0;
        loop {
            let ended = died(world).await?;
            deaths += u32::from(ended);
            if ended {
                world.fleet.start_with(0, &[("FAMULUS_CRASH", crash)]).await?;
            }
            if person.client.state_of(turn).await? == "failed" {
                break;
            }
            ensure!(deaths <= after, "{deaths} workers died of it, and it is still tried");
        }
        ensure!(deaths == after, "it was given up after {deaths} deaths");
        let told: Vec<String> = shown(world, turn).await?;
        ensure!(told.last().is_some_and(|last| last == "complete"), "viewers saw {told:?}");
        let (ending, reply) =
            (ended_with(world, turn).await?, watched::reply(&world.database.admin, turn).await?);
        ensure!(ending == reply, "it was said to end with {ending:?}, and {reply:?} stands");

        let dead = person.client.get("/v1/queue/dead").await?;
        let reason = dead["jobs"][0]["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains("3 times"), "the dead letters are {dead}");
        until_delivered(world, "Something went wrong: ").await?;

        // Whoever mended what was wrong has it tried again.
        while world.fleet.kill(0).await? {}
        world.fleet.start(0).await?;
        let path = format!("/v1/queue/dead/{turn}/retry");
        let (status, answer) =
            person.client.ask(Method::POST, &path, None, Some(&json!({}))).await?;
        ensure!(status == StatusCode::OK, "POST {path}: {status}: {answer}");
        world.log.retried.lock().push(turn);
        person.until_ended(&sent).await?;
        ensure!(person.client.state_of(turn).await? == "complete", "it was not done again");
        let again = shown(world, turn).await?;
        let behind: Vec<&str> = again[told.len()..].iter().map(String::as_str).collect();
        ensure!(behind.first() == Some(&"resumed"), "the new try opened with {behind:?}");
        ensure!(behind.last() == Some(&"complete"), "the new try ended with {behind:?}");
        world.settle(PATIENCE).await?;
        until_delivered(world, "done [1]").await?;
        world.check(Faults::Deaths).await
    })
    .await
}

/// Whether the process has died by its point; false when it has served for a while instead.
async fn died(world: &World) -> Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        if let Some(status) = world.fleet.ended(0)? {
            ensure!(status.signal() == Some(SIGABRT), "the process ended otherwise: {status}");
            return Ok(true);
        }
        sleep(LOOK).await;
    }
    Ok(false)
}

/// The kinds of a turn's events.
async fn shown(world: &World, turn: Uuid) -> Result<Vec<String>> {
    let events = events(world, turn).await?;
    Ok(events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect())
}

/// The text that viewers were told at the end of a turn.
async fn ended_with(world: &World, turn: Uuid) -> Result<String> {
    let events = events(world, turn).await?;
    let last = events.last().context("nothing was shown")?;
    Ok(last["text"].as_str().context("the last event has no text")?.to_owned())
}

async fn events(world: &World, turn: Uuid) -> Result<Vec<Value>> {
    let rows: Vec<Vec<u8>> =
        sqlx::query_scalar("select data from event where turn_id = $1 order by fence, number")
            .bind(turn)
            .fetch_all(&world.database.admin)
            .await?;
    rows.iter()
        .map(|data| {
            let event: Value = serde_json::from_slice(data)?;
            Ok(event["event"].clone())
        })
        .collect()
}

async fn until_delivered(world: &World, beginning: &str) -> Result<()> {
    let begun = Instant::now();
    let arrived =
        || world.receiver.received().iter().any(|sent| sent.markdown.starts_with(beginning));
    while !arrived() {
        ensure!(begun.elapsed() < PATIENCE, "nobody was told {beginning:?}");
        sleep(LOOK).await;
    }
    Ok(())
}
