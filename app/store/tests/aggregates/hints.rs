//! NOTIFY is a hint: lost or forged, it costs time and never work.

use crate::{
    support::{World, with_store},
    talk,
    worker::{begin, end},
};
use async_trait::async_trait;
use famulus_core::{
    accept::Accept as _,
    ids::{ConversationId, PersonId, TurnId},
    inbound::Target,
};
use famulus_lifecycle::Tasks;
use famulus_queue::{Lease, worker::Handler, worker::Outcome};
use famulus_store::Store;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// Well before an idle worker, which has just looked, looks again by itself: that takes 10 s.
const BEFORE_THE_POLL: Duration = Duration::from_secs(8);
/// Well after it.
const AFTER_THE_POLL: Duration = Duration::from_secs(40);
/// In less than this a worker ends a small turn, finds nothing more and goes to sleep. Were it slower,
/// it would find the next message at once, and the test would show less.
const ASLEEP: Duration = Duration::from_millis(500);
/// Hints in a storm, each with a payload of its own, because Postgres joins those that are alike.
const FORGED: i64 = 20_000;

/// Says which turn it was given and works it; a turn of `holds` it keeps until it is cancelled.
struct Working {
    store: Store,
    holds: ConversationId,
    given: mpsc::Sender<TurnId>,
}

#[async_trait]
impl Handler for Working {
    async fn work(&self, lease: Lease, cancel: CancellationToken) -> Outcome {
        self.given.send(TurnId(lease.job.id)).await.unwrap();
        if lease.job.lane == self.holds.0 {
            cancel.cancelled().await;
            return Outcome::Retry { delay: Duration::ZERO, blameless: true };
        }
        talk::finish(&self.store, &lease, "done", None).await;
        Outcome::Settled
    }
}

/// A worker of the world's own store, and the turns that it is given.
fn employ(world: &World, holds: ConversationId) -> (Tasks, mpsc::Receiver<TurnId>) {
    let (given, turns) = mpsc::channel(256);
    let working = Working { store: world.store.clone(), holds, given };
    (begin(&world.store, Arc::new(working)), turns)
}

/// A message that comes in through this store; its turn.
async fn say(store: &Store, person: PersonId, conversation: ConversationId) -> TurnId {
    let inbound = talk::message(person, Target::Existing(conversation), "a");
    store.accept(inbound).await.unwrap().turn
}

async fn next_within(turns: &mut mpsc::Receiver<TurnId>, limit: Duration) -> TurnId {
    timeout(limit, turns.recv()).await.expect("a turn is worked in time").unwrap()
}

/// Every turn has ended, once, and nothing is left to be done.
async fn all_done(world: &World, person: PersonId, turns: i64) {
    let complete = "select count(*) from turn where person_id = $1 and state = 'complete'";
    let replies = "select count(*) from outbox where person_id = $1";
    let left = "select count(*) from queue_job where person_id = $1 and class = 'turn'";
    assert_eq!(world.count(complete, person).await, turns);
    assert_eq!(world.count(replies, person).await, turns);
    assert_eq!(world.count(left, person).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_announced_is_found_by_looking() {
    with_store(async |world| {
        let ada = world.person("Ada").await.id;
        let mute = world.mute_store().await;
        let held = talk::conversation(world, ada, "held").await;
        let first = talk::conversation(world, ada, "first").await;
        let second = talk::conversation(world, ada, "second").await;
        let (tasks, mut turns) = employ(world, held);

        // To an idle worker.
        let turn = say(&world.store, ada, first).await;
        assert_eq!(next_within(&mut turns, AFTER_THE_POLL).await, turn);
        sleep(ASLEEP).await;
        let turn = say(&mute, ada, first).await;
        assert_eq!(next_within(&mut turns, AFTER_THE_POLL).await, turn);
        // One that holds leases looks more often.
        let busy = say(&world.store, ada, held).await;
        assert_eq!(next_within(&mut turns, AFTER_THE_POLL).await, busy);
        sleep(ASLEEP).await;
        let turn = say(&mute, ada, second).await;
        assert_eq!(next_within(&mut turns, BEFORE_THE_POLL).await, turn);

        end(tasks).await;
        assert!(turns.try_recv().is_err(), "a turn is worked once");
        mute.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_in_while_nobody_listened_is_worked_after_the_reconnect() {
    with_store(async |world| {
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        let (mute, other) = (world.mute_store().await, world.another_store().await);
        let (tasks, mut turns) = employ(world, ConversationId::new());

        for _ in 0..2 {
            let turn = say(&world.store, ada, conversation).await;
            assert_eq!(next_within(&mut turns, AFTER_THE_POLL).await, turn);
            sleep(ASLEEP).await;
            // Nobody hears of this one, as if it had been announced to a dead session.
            let turn = say(&mute, ada, conversation).await;
            assert!(cut_the_ears(world).await > 0);
            assert_eq!(next_within(&mut turns, BEFORE_THE_POLL).await, turn);
            sleep(ASLEEP).await;
            let turn = say(&other, ada, conversation).await;
            assert_eq!(next_within(&mut turns, BEFORE_THE_POLL).await, turn);
        }

        end(tasks).await;
        assert!(turns.try_recv().is_err(), "a turn is worked once");
        all_done(world, ada, 6).await;
        mute.close().await;
        other.close().await;
    })
    .await;
}

/// Ends the sessions that listen, and says how many there were.
async fn cut_the_ears(world: &World) -> i64 {
    sqlx::query_scalar(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and query ilike 'listen %'",
    )
    .fetch_one(&world.admin)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_hints_cost_looks_and_never_work() {
    with_store(async |world| {
        let ada = world.person("Ada").await.id;
        let other = world.another_store().await;
        let mut conversations = Vec::new();
        for number in 0..6 {
            conversations.push(talk::conversation(world, ada, &number.to_string()).await);
        }
        count_looks(world).await;
        let (tasks, mut turns) = employ(world, ConversationId::new());

        let talking = async {
            let mut said = Vec::new();
            for number in 0..24 {
                let door = if number % 2 == 0 { &other } else { &world.store };
                said.push(say(door, ada, conversations[number % 6]).await);
            }
            said
        };
        let (mut said, ()) = tokio::join!(talking, forge(world, &other));
        // Who forges cannot make the worker deaf either.
        said.push(say(&other, ada, conversations[0]).await);

        let mut worked = Vec::new();
        for _ in 0..said.len() {
            worked.push(next_within(&mut turns, AFTER_THE_POLL).await);
        }
        end(tasks).await;
        assert!(turns.try_recv().is_err(), "a turn is worked once");
        said.sort_unstable();
        worked.sort_unstable();
        assert_eq!(worked, said);
        all_done(world, ada, said.len() as i64).await;

        let looks: i64 = sqlx::query_scalar("select last_value from looks")
            .fetch_one(&world.admin)
            .await
            .unwrap();
        assert!(looks < FORGED / 4, "{looks} looks for {FORGED} hints");
        other.close().await;
    })
    .await;
}

/// Odd hints on every channel, in the names of others and of nobody, and then a storm of them.
async fn forge(world: &World, other: &Store) {
    let payloads = [
        String::new(),
        "anything".to_owned(),
        "\n\t\u{202e}'; drop table turn; --".to_owned(),
        // As long as Postgres lets them be.
        "x".repeat(7_999),
        "ü".repeat(3_999),
        world.store.queue.worker.to_string(),
        other.queue.worker.to_string(),
    ];
    for channel in ["famulus_turn", "famulus_delivery", "famulus_event", "famulus_control"] {
        sqlx::query("select count(pg_notify($1, payload)) from unnest($2::text[]) as p (payload)")
            .bind(channel)
            .bind(&payloads[..])
            .execute(&world.admin)
            .await
            .unwrap();
    }
    for storm in 0..10_i64 {
        sqlx::query(
            "select count(pg_notify('famulus_turn', 'anything ' || number))
             from generate_series($1::bigint + 1, $1 + $2) as n (number)",
        )
        .bind(storm * FORGED / 10)
        .bind(FORGED / 10)
        .execute(&world.admin)
        .await
        .unwrap();
    }
}

/// Counts from now on the statements that change lanes, which every claim is, also one that finds
/// nothing.
async fn count_looks(world: &World) {
    sqlx::raw_sql(
        "create sequence looks;
         create function look() returns trigger language plpgsql security definer
             as $$ begin perform nextval('public.looks'); return null; end $$;
         create trigger look before update on queue_lane for each statement
             execute function look();",
    )
    .execute(&world.admin)
    .await
    .unwrap();
}
