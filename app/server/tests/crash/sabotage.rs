//! The harness is checked itself: with a safety taken out, it must find that something is wrong;
//! with all of them in, the very same run must be clean.

use crate::{
    alone, server,
    support::{
        checker::Faults,
        client::Meeting,
        script::{Script, Word},
        world::{Settings, World},
    },
};
use anyhow::{Result, bail, ensure};
use rustix::process::Signal;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_mins(1);
/// Work without a safety may never end, and is not waited for as long.
const ENDLESS: Duration = Duration::from_secs(15);
/// A process that wakes races its own heartbeat, which tells it that it lost its leases; mostly it
/// writes first.
const TRIES: u32 = 4;
const LOOK: Duration = Duration::from_millis(20);

/// Runs a scenario with and without a safety, and wants the checker to see the `sign` of its loss.
async fn is_noticed(
    safety: &'static str,
    sign: &str,
    lease: Duration,
    faults: Faults,
    scenario: impl AsyncFn(&World) -> Result<()>,
) -> Result<()> {
    let _turn = alone().await;
    let settings = Settings { lease, max_attempts: 1_000, ..Settings::new(server()) };
    let run = async |world: &World| {
        scenario(world).await?;
        match world.settings.sabotage {
            None => world.settle(PATIENCE).await?,
            // The checker says what is left of it.
            Some(_) => drop(world.settle(ENDLESS).await),
        }
        if faults == Faults::Deaths {
            wake(world).await?;
        }
        world.violations(faults).await
    };
    let clean = World::run(settings.clone(), run).await?;
    ensure!(clean.is_empty(), "nothing was taken out: {clean:#?}");
    let sabotaged = Settings { sabotage: Some(safety), ..settings };
    let mut found = Vec::new();
    for _ in 0..TRIES {
        let broken = World::run(sabotaged.clone(), run).await?;
        let seen: Vec<&String> = broken.iter().filter(|line| line.contains(sign)).collect();
        if let Some(first) = seen.first() {
            eprintln!("without {safety}: {} of {} violations: {first}", seen.len(), broken.len());
            return Ok(());
        }
        found.extend(broken);
    }
    bail!("without {safety} no `{sign}` was found, but: {found:#?}")
}

/// A process that stood still while its turns were taken over goes on with what it had begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_notices_that_writes_are_not_fenced() -> Result<()> {
    is_noticed("fencing", "is told as", Duration::from_secs(1), Faults::Deaths, async |world| {
        const TURNS: usize = 4;
        world.fleet.start(0).await?;
        let person = world.person().await?;
        world.counter.hold(true);
        for _ in 0..TURNS {
            let conversation = person.client.converse().await?;
            person.say(conversation, Script::new(&[&[Word::A]]), Meeting::Queue).await?;
        }
        until(
            "every turn waits for its tool",
            // Whoever lost a lease for a moment asks once more.
            async || Ok(world.counter.requests().len() >= TURNS),
        )
        .await?;
        world.fleet.signal(0, Signal::STOP)?;
        world.fleet.start(1).await
    })
    .await
}

/// A client sends every message twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_notices_that_repeats_are_accepted() -> Result<()> {
    is_noticed("deduplication", "stored as", Duration::from_secs(10), Faults::None, async |world| {
        world.fleet.start(0).await?;
        let person = world.person().await?;
        let conversation = person.client.converse().await?;
        for number in 0..3 {
            let sent =
                person.say_once(conversation, Script::new(&[&[Word::A]]), Meeting::Queue).await?;
            let text = sent.script.text(sent.number);
            let again =
                person.client.say(conversation, &sent.key, &text, Meeting::Queue, None).await?;
            if world.settings.sabotage.is_none() {
                ensure!(again.message == sent.ack.message, "repeat {number} is another message");
            }
        }
        Ok(())
    })
    .await
}

/// Two healthy processes share the work; nobody takes anything from the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_notices_that_leases_are_not_kept() -> Result<()> {
    // A lease so long that no load of the machine ends it.
    is_noticed("lease", "was taken over", Duration::from_mins(1), Faults::None, async |world| {
        world.fleet.start(0).await?;
        world.fleet.start(1).await?;
        let person = world.person().await?;
        for _ in 0..8 {
            let conversation = person.client.converse().await?;
            let script = Script::new(&[&[Word::A], &[Word::B]]).long();
            let sent = person.say(conversation, script, Meeting::Queue).await?;
            // Requests go to the processes in turn: with an odd number of them each time, both have
            // turns. One that has none would not look for others for a while.
            person.client.state_of(sent.ack.turn).await?;
        }
        Ok(())
    })
    .await
}

/// The tools answer at last, and the process that stood still goes on with what it waited for.
async fn wake(world: &World) -> Result<()> {
    world.counter.hold(false);
    world.fleet.signal(0, Signal::CONT)?;
    // Long enough for whatever it has to write.
    sleep(Duration::from_secs(3)).await;
    Ok(())
}

async fn until(what: &str, condition: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !condition().await? {
        ensure!(begun.elapsed() < PATIENCE, "it did not come about that {what}");
        sleep(LOOK).await;
    }
    Ok(())
}
