//! Viewers who watch while processes die: in the end each must hold what the transcript holds.

use crate::support::{
    checker::watched,
    client::Meeting,
    script::{Script, Word},
    seed::Seed,
    viewer::Viewer,
    workload::Person,
    world::World,
};
use anyhow::{Context, Result, ensure};
use futures::future::{try_join, try_join_all};
use rustix::process::Signal;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How many watch how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trials {
    pub(crate) rounds: u32,
    /// Viewers of one round, each of a conversation of its own.
    pub(crate) viewers: usize,
    pub(crate) processes: usize,
}

/// What goes wrong in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The process that runs the first viewer's turn dies.
    Worker,
    /// The process that serves the first viewer dies.
    Replica,
    /// Both die.
    Both,
    /// Everything dies.
    All,
    /// The worker stands still for longer than its lease, and then goes on.
    Frozen,
    /// The sessions of all processes are cut.
    Sessions,
}

const FAULTS: [Fault; 8] = [
    Fault::Worker,
    Fault::Worker,
    Fault::Replica,
    Fault::Replica,
    Fault::Both,
    Fault::All,
    Fault::Frozen,
    Fault::Sessions,
];

/// A turn takes about this long, so that every part of it is hit.
const SPAN: u64 = 1_100;

/// Starts the processes and runs all trials; returns how often viewers had to come back.
pub(crate) async fn run(world: &World, trials: Trials, mut seed: Seed) -> Result<u32> {
    for place in 0..trials.processes {
        world.fleet.start(place).await?;
    }
    let person = world.person().await?;
    let mut viewers = gather(world, &person, trials.viewers).await?;
    for number in 0..trials.rounds {
        let fault = *seed.pick(&FAULTS).context("there are faults")?;
        round(world, &person, &mut viewers, &mut seed, async |conversation, server| {
            fail(world, fault, conversation, server).await
        })
        .await
        .with_context(|| format!("round {number}: {fault:?}"))?;
    }
    Ok(viewers.iter().map(|viewer| viewer.connected).sum())
}

/// Viewers, each of a conversation of its own, who have seen one turn undisturbed.
pub(crate) async fn gather(world: &World, person: &Person, count: usize) -> Result<Vec<Viewer>> {
    let mut viewers = Vec::new();
    for _ in 0..count {
        let conversation = person.client.converse().await?;
        let mut viewer = Viewer::new(person.client.clone(), Arc::clone(&world.fleet), conversation);
        // Whoever has seen nothing yet begins with whatever runs: this turn gives them a place.
        viewer.connect().await?;
        let sent = person.say(conversation, Script::default(), Meeting::Queue).await?;
        viewer.until_ended(sent.ack.turn).await?;
        watched::check(&world.database.admin, &viewer, sent.ack.turn).await?;
        viewers.push(viewer);
    }
    Ok(viewers)
}

/// Watches a conversation until told to end, then sees its turns through and checks them. Whoever
/// has seen nothing when a process dies cannot know what it missed, so that the turns count from the
/// first one of which anything was seen.
pub(crate) async fn watch(world: &World, mut viewer: Viewer, end: CancellationToken) -> Result<()> {
    loop {
        tokio::select! {
            () = end.cancelled() => break,
            advanced = viewer.advance() => advanced?,
        }
    }
    const TURNS: &str = "select id from turn where conversation_id = $1 order by ord";
    let admin = &world.database.admin;
    let turns: Vec<Uuid> = asked(async || {
        Ok(sqlx::query_scalar(TURNS).bind(viewer.conversation).fetch_all(admin).await?)
    })
    .await?;
    let first = turns.iter().position(|turn| viewer.knows(*turn)).unwrap_or(turns.len());
    for turn in turns.into_iter().skip(first) {
        let seen = match through(world, &mut viewer, turn).await {
            Ok(()) => asked(async || watched::check(admin, &viewer, turn).await).await,
            ended => ended,
        };
        if let Err(error) = seen {
            let was = asked(async || was(admin, turn).await).await?;
            return Err(error.context(format!("{was}; the viewer is {viewer:?}")));
        }
    }
    Ok(())
}

/// Watches until a turn has ended. One whose worker dies again and again takes as long as it takes; that
/// it has ended is shown soon.
async fn through(world: &World, viewer: &mut Viewer, turn: Uuid) -> Result<()> {
    const ENDED: &str = "select ended_at is not null from turn where id = $1";
    const LOOK: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_mins(10);
    let (begun, admin) = (Instant::now(), &world.database.admin);
    let mut looked = begun;
    while viewer.ending(turn).is_none() {
        if looked.elapsed() > LOOK {
            let ended =
                asked(async || Ok(sqlx::query_scalar(ENDED).bind(turn).fetch_one(admin).await?));
            if ended.await? {
                break;
            }
            ensure!(begun.elapsed() < LONGEST, "turn {turn} did not end within {LONGEST:?}");
            looked = Instant::now();
        }
        viewer.advance().await?;
    }
    viewer.until_ended(turn).await
}

/// What the record says of a turn.
async fn was(admin: &sqlx::PgPool, turn: Uuid) -> Result<String> {
    const WAS: &str = "select json_build_object('now', now(), 'turn', to_jsonb(t) - 'origin',
            'lane', to_jsonb(l), 'live', c.live_turn,
            'queued', (select count(*) from turn q where q.conversation_id = t.conversation_id
                       and q.ord < t.ord and q.ended_at is null),
            'events', (select json_agg(json_build_object('fence', fence, 'first', a, 'last', b,
                'from', f, 'to', u)) from (select fence, min(number) a, max(number) b,
                min(created_at) f, max(created_at) u from event e
                where e.turn_id = t.id group by fence order by fence) v))::text
        from turn t join conversation c on c.id = t.conversation_id
        left join queue_lane l on l.class = 'turn' and l.id = c.id where t.id = $1";
    Ok(sqlx::query_scalar(WAS).bind(turn).fetch_one(admin).await?)
}

/// Asks again where Postgres was killed under the question.
async fn asked<T>(question: impl AsyncFn() -> Result<T>) -> Result<T> {
    const PATIENCE: Duration = Duration::from_mins(1);
    let begun = Instant::now();
    loop {
        match question().await {
            Err(error) if error.is::<sqlx::Error>() && begun.elapsed() < PATIENCE => {
                sleep(Duration::from_millis(100)).await;
            }
            answer => return answer,
        }
    }
}

/// One turn in each conversation, in the middle of which something fails. The failure is told the
/// first viewer's conversation and the process that serves them.
pub(crate) async fn round(
    world: &World,
    person: &Person,
    viewers: &mut [Viewer],
    seed: &mut Seed,
    failure: impl AsyncFnOnce(Uuid, Option<usize>) -> Result<()>,
) -> Result<()> {
    let mut turns = Vec::new();
    for viewer in viewers.iter_mut() {
        if viewer.served_by().is_none() {
            viewer.connect().await?;
        }
        let mut script = match seed.below(3) {
            0 => Script::default(),
            1 => Script::new(&[&[Word::A]]),
            _ => Script::new(&[&[Word::B, Word::Note]]),
        }
        .long();
        script.cut = seed.percent(20);
        turns.push(person.say(viewer.conversation, script, Meeting::Queue).await?);
    }
    let first = viewers.first().context("there is a viewer")?;
    let (conversation, server) = (first.conversation, first.served_by());
    let delay = Duration::from_millis(seed.between(0, SPAN));
    let watching = try_join_all(
        viewers.iter_mut().zip(&turns).map(|(viewer, sent)| viewer.until_ended(sent.ack.turn)),
    );
    let failing = async {
        sleep(delay).await;
        failure(conversation, server).await
    };
    try_join(watching, failing).await?;
    for (viewer, sent) in viewers.iter().zip(&turns) {
        watched::check(&world.database.admin, viewer, sent.ack.turn).await?;
    }
    Ok(())
}

async fn fail(
    world: &World,
    fault: Fault,
    conversation: Uuid,
    server: Option<usize>,
) -> Result<()> {
    let worker = worker_of(world, conversation).await?;
    let places: BTreeSet<usize> = match fault {
        Fault::Worker => worker.into_iter().collect(),
        Fault::Replica => server.into_iter().collect(),
        Fault::Both => worker.into_iter().chain(server).collect(),
        Fault::All => world.fleet.taken().into_iter().collect(),
        Fault::Frozen => {
            let Some(place) = worker else { return Ok(()) };
            world.fleet.signal(place, Signal::STOP)?;
            sleep(world.settings.lease + Duration::from_millis(700)).await;
            world.fleet.signal(place, Signal::CONT)?;
            return Ok(());
        }
        Fault::Sessions => {
            sqlx::query(
                "select pg_terminate_backend(pid) from pg_stat_activity
                 where datname = current_database() and application_name = 'famulus'",
            )
            .execute(&world.database.admin)
            .await?;
            return Ok(());
        }
    };
    for place in &places {
        world.fleet.kill(*place).await?;
    }
    try_join_all(places.into_iter().map(|place| world.fleet.start_in_time(place))).await?;
    Ok(())
}

/// The process that runs the conversation's turn.
async fn worker_of(world: &World, conversation: Uuid) -> Result<Option<usize>> {
    let worker: Option<Option<Uuid>> =
        sqlx::query_scalar("select worker from queue_lane where class = 'turn' and id = $1")
            .bind(conversation)
            .fetch_optional(&world.database.admin)
            .await?;
    Ok(worker.flatten().and_then(|worker| world.fleet.place_of(worker)))
}
