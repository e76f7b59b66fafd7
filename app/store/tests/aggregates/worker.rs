//! The queue's worker on a real database.

use crate::{support::with_store, talk};
use async_trait::async_trait;
use famulus_core::{
    Clock,
    clock::SystemClock,
    ids::{ConversationId, PersonId, TurnId},
};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_queue::{
    Class, Lease, lane,
    worker::{self, Handler, Limits, Outcome},
};
use famulus_store::Store;
use jiff::SignedDuration;
use sqlx::PgPool;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// Says which lane it was given; works until it is cancelled, or waits for a deadline.
struct Patient {
    waits: ConversationId,
    pool: PgPool,
    given: mpsc::Sender<TurnId>,
}

pub(crate) fn begin<H: Handler>(store: &Store, handler: Arc<H>) -> Tasks {
    let tasks = Tasks::new();
    let limits = Limits { concurrency: 4, grace: Duration::ZERO };
    let (queue, hints) = (store.queue.clone(), store.hints.clone());
    let worker = worker::run(queue, Class::Turn, hints, handler, limits, tasks.token());
    tasks.spawn("worker", OnExit::ShutDown, worker);
    tasks
}

pub(crate) async fn end(tasks: Tasks) {
    tasks.shutdown();
    let drained = tasks.drain(Duration::from_secs(5)).await;
    assert!(drained.stragglers.is_empty(), "{drained:?}");
}

#[async_trait]
impl Handler for Patient {
    async fn work(&self, lease: Lease, cancel: CancellationToken) -> Outcome {
        self.given.send(TurnId(lease.job.id)).await.unwrap();
        if lease.job.lane == self.waits.0 {
            let soon = SystemClock.now() + SignedDuration::from_millis(300);
            let mut conn = self.pool.acquire().await.unwrap();
            lane::park(&mut conn, Class::Turn, &lease.fence, soon).await.unwrap();
            return Outcome::Settled;
        }
        cancel.cancelled().await;
        Outcome::Retry { delay: Duration::ZERO, blameless: true }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_at_its_deadline_though_the_worker_is_busy() {
    with_store(async |world| {
        let store = &world.store;
        let ada: PersonId = world.person("Ada").await.id;
        let busy = talk::conversation(world, ada, "busy").await;
        let waits = talk::conversation(world, ada, "waits").await;
        let (given, mut turns) = mpsc::channel(16);
        let tasks = begin(store, Arc::new(Patient { waits, pool: world.admin.clone(), given }));

        talk::say(world, ada, busy, "this takes long", Vec::new()).await;
        turns.recv().await.unwrap();
        let waiting = talk::say(world, ada, waits, "this waits", Vec::new()).await;
        assert_eq!(turns.recv().await, Some(waiting.turn));
        // Well before an idle worker would look again by itself.
        let again = timeout(Duration::from_secs(6), turns.recv()).await;
        assert_eq!(again.expect("it is claimed again"), Some(waiting.turn));
        end(tasks).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_begins_beside_the_door_and_another_process_takes_over() {
    with_store(async |world| {
        let ada: PersonId = world.person("Ada").await.id;
        let nobody = ConversationId::new();
        let patient = |given| Patient { waits: nobody, pool: world.admin.clone(), given };
        let (given, mut here) = mpsc::channel(16);
        let first = begin(&world.store, Arc::new(patient(given)));

        let mut sent = Vec::new();
        for number in 0..6 {
            let conversation = talk::conversation(world, ada, &number.to_string()).await;
            sent.push(talk::say(world, ada, conversation, "a", Vec::new()).await.turn);
            talk::say(world, ada, conversation, "waits for the first", Vec::new()).await;
        }
        // Two of the four places are filled from the door, the others by claiming; and of every
        // conversation only the first message is worked.
        let mut begun = Vec::new();
        for _ in 0..4 {
            begun.push(here.recv().await.unwrap());
        }
        assert!(begun.iter().all(|turn| sent.contains(turn)), "{begun:?} of {sent:?}");
        assert!(sent[..2].iter().all(|turn| begun.contains(turn)), "{begun:?} of {sent:?}");

        let other = world.another_store().await;
        let (given, mut there) = mpsc::channel(16);
        let second = begin(&other, Arc::new(patient(given)));
        let mut overtaken: Vec<TurnId> =
            vec![there.recv().await.unwrap(), there.recv().await.unwrap()];
        assert!(overtaken.iter().all(|turn| sent[4..].contains(turn)), "{overtaken:?}");
        end(first).await;
        for _ in 0..2 {
            let turn = timeout(Duration::from_secs(6), there.recv()).await;
            overtaken.push(turn.expect("it is given back").unwrap());
        }
        assert!(overtaken[2..].iter().all(|turn| begun.contains(turn)), "{overtaken:?}");
        // Nobody is beside this door any more, and what comes in there waits for the other.
        assert!(world.store.queue.handover.reserve(1).is_none());
        end(second).await;
        other.close().await;
    })
    .await;
}

/// Somebody holds the row by which a lease is given back for longer than anybody waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_is_held_keeps_nobody_from_work_or_from_ending() {
    with_store(async |world| {
        let store = world.another_store().await;
        let ada: PersonId = world.person("Ada").await.id;
        let held = talk::conversation(world, ada, "held").await;
        let works = talk::conversation(world, ada, "works").await;
        let (given, mut turns) = mpsc::channel(16);
        let patient = Patient { waits: ConversationId::new(), pool: world.admin.clone(), given };
        let tasks = begin(&store, Arc::new(patient));
        for conversation in [held, works] {
            talk::say(world, ada, conversation, "this takes long", Vec::new()).await;
            turns.recv().await.unwrap();
        }
        let mut holder = world.admin.begin().await.unwrap();
        sqlx::query("select 1 from queue_lane where id = $1 for update")
            .bind(held.0)
            .execute(&mut *holder)
            .await
            .unwrap();
        let begun = Instant::now();
        tasks.shutdown();
        let drained = tasks.drain(Duration::from_secs(8)).await;
        assert!(drained.stragglers.is_empty(), "{drained:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let free: Option<String> = sqlx::query_scalar("select state from queue_lane where id = $1")
            .bind(works.0)
            .fetch_optional(&world.admin)
            .await
            .unwrap();
        assert_eq!(free.as_deref(), Some("ready"), "it is given back at once");
        holder.rollback().await.unwrap();
        store.close().await;
    })
    .await;
}

/// Tells its lease, and ends when it is told to.
struct Told {
    given: mpsc::Sender<Lease>,
    end: Notify,
}

#[async_trait]
impl Handler for Told {
    async fn work(&self, lease: Lease, _cancel: CancellationToken) -> Outcome {
        let end = self.end.notified();
        self.given.send(lease).await.unwrap();
        end.await;
        Outcome::Settled
    }
}

/// On one thread, so that all that is told to end has ended before the worker looks.
#[tokio::test]
async fn places_that_are_freed_at_the_same_moment_are_filled_by_one_claim() {
    with_store(async |world| {
        let ada: PersonId = world.person("Ada").await.id;
        for number in 0..8 {
            let conversation = talk::conversation(world, ada, &number.to_string()).await;
            talk::say(world, ada, conversation, "a", Vec::new()).await;
        }
        let (given, mut leases) = mpsc::channel(16);
        let told = Arc::new(Told { given, end: Notify::new() });
        let tasks = begin(&world.store, Arc::clone(&told));
        let mut four = async || {
            let mut four = Vec::new();
            for _ in 0..4 {
                let lease = timeout(Duration::from_secs(6), leases.recv()).await;
                four.push(lease.expect("there is a place for it").unwrap());
            }
            four
        };
        let done: Vec<_> = four().await.iter().map(|l: &Lease| (l.fence, l.job.id)).collect();
        let mut conn = world.admin.acquire().await.unwrap();
        assert_eq!(lane::complete_many(&mut conn, Class::Turn, &done).await.unwrap(), 4);
        told.end.notify_waiters();
        let lanes: Vec<_> = four().await.iter().map(|lease| lease.job.lane).collect();
        // The leases of one claim end at one moment.
        let claims: i64 =
            sqlx::query_scalar("select count(distinct due_at) from queue_lane where id = any($1)")
                .bind(lanes)
                .fetch_one(&mut *conn)
                .await
                .unwrap();
        assert_eq!(claims, 1);
        told.end.notify_waiters();
        end(tasks).await;
    })
    .await;
}
