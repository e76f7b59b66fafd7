//! Every named point of the product, killed before and after, while viewers watch.

use crate::{
    alone, server,
    support::{
        checker::Faults,
        client::Meeting,
        script::{Script, Word},
        streams,
        viewer::Viewer,
        workload::{Person, Sent},
        world::{Settings, World},
    },
};
use anyhow::{Result, ensure};
use famulus_core::crash::POINTS;
use futures::{StreamExt, future::try_join_all, stream};
use std::{os::unix::process::ExitStatusExt, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Cases at once: a case mostly waits for leases to end.
const AT_ONCE: usize = 6;
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);
/// How a process dies at a point.
const SIGABRT: i32 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_may_be_the_last() -> Result<()> {
    let _turn = alone().await;
    let server = server()?;
    let cases = POINTS.iter().flat_map(|point| ["before", "after"].map(|side| (*point, side)));
    let outcomes = stream::iter(cases)
        .map(|(point, side)| {
            let settings = Settings::new(&server);
            async move {
                let outcome =
                    World::run(settings, async |world| one_case(world, point, side).await).await;
                outcome.err().map(|error| format!("{point}:{side}: {error:#}"))
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect::<Vec<_>>()
        .await;
    ensure!(outcomes.is_empty(), "{} cases failed:\n{}", outcomes.len(), outcomes.join("\n\n"));
    Ok(())
}

async fn one_case(world: &World, point: &str, side: &str) -> Result<()> {
    let crash = format!("{point}:{side}:1");
    world.fleet.start_with(0, &[("FAMULUS_CRASH", &crash)]).await?;
    let person = world.person()?;
    let conversations = [
        person.client.converse().await?,
        person.client.converse().await?,
        person.client.converse().await?,
    ];
    let end = CancellationToken::new();
    let _ended = end.clone().drop_guard();
    let working = async {
        everything(&person, &conversations).await?;
        world.settle(PATIENCE).await?;
        end.cancel();
        Ok(())
    };
    let watching = try_join_all(conversations.iter().map(|conversation| {
        let viewer = Viewer::new(person.client.clone(), Arc::clone(&world.fleet), *conversation);
        streams::watch(world, viewer, end.clone())
    }));
    let answering = person.clone().answer(end.clone());
    tokio::try_join!(working, answering, watching, reborn(world))?;
    for sent in person.log.sent() {
        // The key of each message still stands for it.
        person.repeat(&sent).await?;
    }
    world.check(Faults::Deaths).await
}

/// Waits for the process to die by its point, and starts it again without one.
async fn reborn(world: &World) -> Result<()> {
    let begun = Instant::now();
    let status = loop {
        match world.fleet.ended(0)? {
            Some(status) => break status,
            None => sleep(LOOK).await,
        }
        ensure!(begun.elapsed() < PATIENCE, "the point was never reached");
    };
    ensure!(status.signal() == Some(SIGABRT), "the process ended otherwise: {status}");
    world.fleet.start(0).await
}

/// Everything once: each tool, both answers, a stop, a steering, a cut stream and a schedule.
async fn everything(person: &Person, conversations: &[Uuid; 3]) -> Result<()> {
    let [one, two, three] = *conversations;
    let first = async {
        let script = Script::new(&[&[Word::A, Word::B, Word::P], &[Word::Note]]);
        person.say(one, script, Meeting::Queue).await?;
        let cut = Script { cut: true, ..Script::new(&[&[Word::A]]) };
        let cut = person.say(one, cut, Meeting::Queue).await?;
        until_begun(person, &cut).await?;
        person.say(one, Script::new(&[&[Word::Note]]), Meeting::Steer).await
    };
    let second = async {
        let asking = Script::new(&[&[Word::C, Word::A]]);
        person.say(two, asking.clone(), Meeting::Queue).await?;
        let denied = Script { denied: true, ..asking };
        person.say(two, denied, Meeting::Queue).await?;
        person.say(two, Script::new(&[&[Word::B, Word::P]]), Meeting::Queue).await
    };
    let third = async {
        let long = person.say(three, Script::new(&[&[Word::B]]).long(), Meeting::Queue).await?;
        until_begun(person, &long).await?;
        person.stop(three).await?;
        person.say(three, Script::new(&[&[Word::Note, Word::A]]), Meeting::Steer).await?;
        person.schedule(three, Script::new(&[&[Word::A]])).await
    };
    tokio::try_join!(first, second, third)?;
    Ok(())
}

/// Waits until a turn has left the queue.
async fn until_begun(person: &Person, sent: &Sent) -> Result<()> {
    while person.client.state_of(sent.ack.turn).await? == "queued" {
        sleep(LOOK).await;
    }
    Ok(())
}
