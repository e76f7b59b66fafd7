use crate::{support::with_store, talk};
use famulus_core::{ids::TurnId, turn::TurnLog};
use famulus_queue::Class;
use std::time::Duration;

/// Postgres reports what its sessions counted within ten seconds, idle ones at once when they end.
const REPORTED: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn accepting_and_recording_never_wait_for_each_other() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        talk::say(world, ada, conversation, "start", Vec::new()).await;
        let lease = talk::claim(store, Class::Turn).await;
        let turn = TurnId(lease.job.id);
        store.take_up(&lease.fence, turn).await.unwrap();
        let accepting = async {
            for number in 0..400 {
                talk::say(world, ada, conversation, &format!("{number}"), Vec::new()).await;
            }
        };
        let recording = async {
            for _ in 0..400 {
                talk::record(store, &lease).await.unwrap();
            }
        };
        tokio::join!(accepting, recording);
        tokio::time::sleep(REPORTED).await;
        let deadlocks: i64 = sqlx::query_scalar(
            "select deadlocks from pg_stat_database where datname = current_database()",
        )
        .fetch_one(&world.admin)
        .await
        .unwrap();
        assert_eq!(deadlocks, 0);
    })
    .await;
}
