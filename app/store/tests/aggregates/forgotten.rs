use crate::{support::with_store, talk};
use famulus_core::{StoreError, ids::TurnId, turn::TurnLog};
use famulus_queue::Class;
use famulus_store::Error;
use std::{error::Error as _, time::Duration};

/// What a crash of Postgres does that comes between the disk's hearing of the lease and its hearing
/// of the transaction behind it.
const FORGET: &str = "with lane as (update queue_lane set begun = 0 where class = 'turn')
    update turn set state = 'queued', started_at = null";

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_beginning_was_forgotten_records_nothing_and_begins_again() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        talk::say(world, ada, conversation, "start", Vec::new()).await;
        let lease = talk::claim(store, Class::Turn).await;
        let turn = TurnId(lease.job.id);
        store.take_up(&lease.fence, turn).await.unwrap();
        sqlx::query(FORGET).execute(&world.admin).await.unwrap();

        let refused = talk::record(store, &lease).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
        let cause = refused.source().and_then(|cause| cause.downcast_ref::<Error>());
        assert!(matches!(cause, Some(Error::Forgotten)), "{cause:?}");
        const SAID: &str =
            "select count(*) from message where person_id = $1 and role = 'assistant'";
        assert_eq!(world.count(SAID, ada).await, 0);

        let fence = &lease.fence;
        store.queue.give_back(Class::Turn, fence, Duration::ZERO, true).await.unwrap();
        talk::work(store, "done", None).await;
        const DONE: &str = "select count(*) from turn
             where actor_id = $1 and state = 'complete' and started_at <= ended_at";
        assert_eq!(world.count(SAID, ada).await, 1);
        assert_eq!(world.count(DONE, ada).await, 1);
    })
    .await;
}
