//! The queue's worker on a real database.

use crate::{support::with_store, talk};
use async_trait::async_trait;
use famulus_core::ids::{ConversationId, PersonId, TurnId};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_queue::{
    Class, Lease, lane,
    worker::{self, Handler, Limits, Outcome},
};
use jiff::{SignedDuration, Timestamp};
use sqlx::PgPool;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

/// Says which lane it was given; works until it is cancelled, or waits for a deadline.
struct Patient {
    waits: ConversationId,
    pool: PgPool,
    given: mpsc::UnboundedSender<TurnId>,
}

#[async_trait]
impl Handler for Patient {
    async fn work(&self, lease: Lease, cancel: CancellationToken) -> Outcome {
        self.given.send(TurnId(lease.job.id)).unwrap();
        if lease.job.lane == self.waits.0 {
            let soon = Timestamp::now() + SignedDuration::from_millis(300);
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
        let (given, mut turns) = mpsc::unbounded_channel();
        let handler = Arc::new(Patient { waits, pool: world.admin.clone(), given });
        let limits = Limits { concurrency: 4, grace: Duration::ZERO };
        let tasks = Tasks::new();
        let worker = worker::run(
            store.queue.clone(),
            Class::Turn,
            store.hints.clone(),
            handler,
            limits,
            tasks.token(),
        );
        tasks.spawn("worker", OnExit::ShutDown, worker);

        talk::say(world, ada, busy, "this takes long", Vec::new()).await;
        turns.recv().await.unwrap();
        let waiting = talk::say(world, ada, waits, "this waits", Vec::new()).await;
        assert_eq!(turns.recv().await, Some(waiting.turn));
        // Well before an idle worker would look again by itself.
        let again = timeout(Duration::from_secs(6), turns.recv()).await;
        assert_eq!(again.expect("it is claimed again"), Some(waiting.turn));
        tasks.shutdown();
        let _drained = tasks.drain(Duration::from_secs(5)).await;
    })
    .await;
}
