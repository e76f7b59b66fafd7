//! Every named point of the product, killed before and after, while viewers watch; and some of them
//! at which a process stands still until somebody else has taken over, and then goes on.

use crate::{
    alone, chats, goes, judged, plugins, server,
    support::{
        client::Meeting,
        script::{Script, Word},
        streams,
        viewer::Viewer,
        workload::{Person, Sent},
        world::{Settings, World},
    },
};
use anyhow::{Result, bail, ensure};
use famulus_core::crash::POINTS;
use futures::{StreamExt, future::try_join_all, stream};
use rustix::process::Signal;
use std::{os::unix::process::ExitStatusExt, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Cases at once: a case mostly waits for leases to end.
pub(crate) const AT_ONCE: usize = 6;
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);
/// How a process dies at a point.
const SIGABRT: i32 = 6;
/// Points on the way of a turn that is given up: see `poison`.
const ELSEWHERE: [&str; 2] = ["turn.bury", "dead.revive"];
/// Larger than a piece of a stored file.
const FILE: usize = 300 * 1024;

/// What becomes of the process at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Dies,
    /// Until its leases have ended.
    Stands,
}

/// One side of one point, and when and how a process ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) point: &'static str,
    pub(crate) side: &'static str,
    /// The first is 1.
    pub(crate) visit: u64,
    pub(crate) fate: Fate,
}

impl Case {
    /// Every point that the scenario reaches, on both sides.
    pub(crate) fn all(visit: u64, fate: Fate) -> impl Iterator<Item = Self> {
        let of_chats = |point: &str| {
            point == chats::REFUSED || chats::POINTS.iter().any(|(of, _)| *of == point)
        };
        let of_deliveries = |point: &str| ["delivery.sending", "delivery.send"].contains(&point);
        let points = POINTS.iter().filter(move |point| {
            !ELSEWHERE.contains(point)
                && !plugins::POINTS.contains(point)
                && (!of_chats(point) || of_deliveries(point))
        });
        points.flat_map(move |point| {
            ["before", "after"].map(|side| Self { point, side, visit, fate })
        })
    }

    pub(crate) fn plan(&self) -> String {
        // A start looks for work before it serves, and finds none.
        let looks = if (self.point, self.side) == ("queue.claim", "before") { 8 } else { 1 };
        let stand = if self.fate == Fate::Stands { ":stand" } else { "" };
        format!("{}:{}:{}{stand}", self.point, self.side, self.visit * looks)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_may_be_the_last() -> Result<()> {
    all_hold(Case::all(1, Fate::Dies)).await
}

/// On its way there a process has done the same before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_visit_may_be_the_last() -> Result<()> {
    let again = ["turn.reply", "approval.decide", "blob.whole", "queue.claim"];
    all_hold(Case::all(2, Fate::Dies).filter(|case| again.contains(&case.point))).await
}

mod soak {
    use super::{Case, Fate, all_hold, is_noticed};

    /// The matrix sees each safety that is not there, at points where it matters.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_matrix_notices_each_safety_that_is_taken_out() -> anyhow::Result<()> {
        let stands = |point, side| Case { point, side, visit: 1, fate: Fate::Stands };
        let robbed = [stands("turn.output", "before")];
        is_noticed("fencing", "is told as", &robbed).await?;
        is_noticed("lease", "the lease of", &robbed).await?;
        let died = Case { fate: Fate::Dies, ..stands("accept.commit", "after") };
        is_noticed("deduplication", "stored as", &[died]).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_second_visit_may_be_the_last() -> anyhow::Result<()> {
        all_hold(Case::all(2, Fate::Dies)).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_process_may_stand_still_at_every_point() -> anyhow::Result<()> {
        all_hold(Case::all(1, Fate::Stands)).await
    }
}

async fn all_hold(cases: impl Iterator<Item = Case>) -> Result<()> {
    let _turn = alone().await;
    let server = server();
    let outcomes = stream::iter(cases)
        .map(|case| {
            // On a busy machine leases run out without a death, and a turn that is given up is no part of
            // this: see `poison`.
            let settings = Settings { max_attempts: 1_000, ..Settings::new(&server) };
            async move {
                match violations(settings, case).await {
                    Ok(found) if found.is_empty() => None,
                    Ok(found) => Some(format!("{}:\n  {}", case.plan(), found.join("\n  "))),
                    Err(error) => Some(format!("{}: {error:#}", case.plan())),
                }
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect::<Vec<_>>()
        .await;
    ensure!(outcomes.is_empty(), "{} cases failed:\n{}", outcomes.len(), outcomes.join("\n\n"));
    Ok(())
}

/// Wants the checker to see the `sign` of a safety that is not there in one of these cases.
async fn is_noticed(safety: &'static str, sign: &str, cases: &[Case]) -> Result<()> {
    // Every other time what stands still holds a row that whoever takes over waits for, so that nothing is
    // doubled.
    const TRIES: usize = 12;
    let _turn = alone().await;
    let settings = Settings { max_attempts: 1_000, ..Settings::new(server()) };
    let sabotaged = Settings { sabotage: Some(safety), ..settings };
    let mut found = Vec::new();
    for case in cases.iter().cycle().take(cases.len() * TRIES) {
        let broken = violations(sabotaged.clone(), *case).await?;
        if let Some(first) = broken.iter().find(|line| line.contains(sign)) {
            let count = broken.len();
            eprintln!("without {safety}, {}: {count} violations: {first}", case.plan());
            return Ok(());
        }
        found.extend(broken);
    }
    bail!("the matrix without {safety} showed no `{sign}`, but: {found:#?}")
}

/// What is wrong where a process ended so; empty when nothing is.
pub(crate) async fn violations(settings: Settings, case: Case) -> Result<Vec<String>> {
    Box::pin(World::run(settings, async |world| {
        goes(world, Box::pin(one_case(world, case))).await?;
        judged(world).await
    }))
    .await
}

async fn one_case(world: &World, case: Case) -> Result<()> {
    world.fleet.start_with(0, &[("FAMULUS_CRASH", &case.plan())]).await?;
    let person = world.person().await?;
    let conversations = [
        person.client.converse().await?,
        person.client.converse().await?,
        person.client.converse().await?,
    ];
    let end = CancellationToken::new();
    let _ended = end.clone().drop_guard();
    let working = async {
        for _ in 0..case.visit {
            everything(world, &person, &conversations).await?;
        }
        world.settle(PATIENCE).await?;
        end.cancel();
        Ok(())
    };
    let watching = try_join_all(conversations.iter().map(|conversation| {
        let viewer = Viewer::new(person.client.clone(), Arc::clone(&world.fleet), *conversation);
        streams::watch(world, viewer, end.clone())
    }));
    let answering = person.clone().answer(end.clone());
    let coming_back = async {
        match case.fate {
            Fate::Dies => reborn(world).await,
            Fate::Stands => awakened(world).await,
        }
    };
    tokio::try_join!(working, answering, watching, coming_back)?;
    for sent in person.log.sent() {
        // The key of each message still stands for it.
        person.repeat(&sent).await?;
    }
    Ok(())
}

/// Waits for the process to die by its point, and starts it again without one.
pub(crate) async fn reborn(world: &World) -> Result<()> {
    died(world).await?;
    world.fleet.start(0).await
}

/// Waits for the process to die at its point.
pub(crate) async fn died(world: &World) -> Result<()> {
    let begun = Instant::now();
    let status = loop {
        match world.fleet.ended(0)? {
            Some(status) => break status,
            None => sleep(LOOK).await,
        }
        ensure!(begun.elapsed() < PATIENCE, "the point was never reached");
    };
    ensure!(status.signal() == Some(SIGABRT), "the process ended otherwise: {status}");
    Ok(())
}

/// Waits for the process to stand still at its point, has another one take over, and lets it go on.
pub(crate) async fn awakened(world: &World) -> Result<()> {
    let begun = Instant::now();
    while !world.fleet.stands_still(0)? {
        ensure!(begun.elapsed() < PATIENCE, "the point was never reached");
        sleep(LOOK).await;
    }
    world.fleet.start(1).await?;
    sleep(world.settings.lease * 2).await;
    world.fleet.signal(0, Signal::CONT)?;
    Ok(())
}

/// Everything once: each tool, both answers and none, a stop, a steering, a cut stream, a file and a
/// schedule.
async fn everything(world: &World, person: &Person, conversations: &[Uuid; 3]) -> Result<()> {
    let [one, two, three] = *conversations;
    let first = async {
        let script = Script::new(&[&[Word::A, Word::B, Word::P], &[Word::Note]]);
        let file = person.upload(a_file()).await?;
        person.say(one, Script { file: Some(file), ..script }, Meeting::Queue).await?;
        let cut = Script { cut: true, ..Script::new(&[&[Word::A]]) };
        let cut = person.say(one, cut, Meeting::Queue).await?;
        until_begun(person, &cut).await?;
        person.say(one, Script::new(&[&[Word::Note]]), Meeting::Steer).await?;
        let recording = person.speak(format!("the words of {}", Uuid::now_v7())).await?;
        person.say(one, Script { file: Some(recording), ..Script::default() }, Meeting::Queue).await
    };
    let second = async {
        let ignored = Script { ignored: true, ..Script::new(&[&[Word::C]]) };
        let ignored = person.say(two, ignored, Meeting::Queue).await?;
        while ["queued", "running"]
            .contains(&person.client.state_of(ignored.ack.turn).await?.as_str())
        {
            sleep(LOOK).await;
        }
        // Whoever writes instead of answering withdraws the question.
        person.say(two, Script::new(&[&[Word::A]]), Meeting::Steer).await?;
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
        // Two that are due in the same second would fire in one visit.
        until_fired(world).await?;
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

/// Waits until every schedule that is to fire has fired.
async fn until_fired(world: &World) -> Result<()> {
    const DUE: &str = "select count(*) from schedule where enabled and next_due is not null";
    let begun = Instant::now();
    loop {
        let due: i64 = sqlx::query_scalar(DUE).fetch_one(&world.database.admin).await?;
        if due == 0 {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "after {PATIENCE:?} {due} schedules did not fire");
        sleep(LOOK).await;
    }
}

/// Another one each time.
fn a_file() -> Vec<u8> {
    let mut file = Uuid::now_v7().to_string().into_bytes();
    file.resize(FILE, b' ');
    file
}
