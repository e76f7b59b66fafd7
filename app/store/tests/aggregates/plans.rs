use crate::{
    support::{World, with_store},
    talk,
};
use famulus_queue::Class;
use std::time::Duration;

/// A session reports what it has read with a commit that comes a second after its last report.
const REPORTED: Duration = Duration::from_millis(1_200);
/// A statement gets its lasting plan after five executions in a session, and there are several.
const UNTIL_PLANNED: usize = 60;
const LANES: i64 = 5_000;
const TURNS: i64 = 10;
/// Rows of lanes that a turn may read from claim to end.
const A_FEW: i64 = 50;

/// Lanes that nobody has counted, as in the first minute of a busy day.
const GROW: &str = "insert into queue_lane (class, id, state, pending)
     select 'turn', gen_random_uuid(), 'idle', 0 from generate_series(1, $1)";
const READ: &str = "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
     from pg_stat_user_tables where relname = 'queue_lane'";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_an_empty_database_does_not_read_all_lanes_of_a_full_one() {
    with_store(async |world| {
        let admin = &world.admin;
        sqlx::query("alter table queue_lane set (autovacuum_enabled = false)")
            .execute(admin)
            .await
            .unwrap();
        turns(world, UNTIL_PLANNED).await;
        sqlx::query(GROW).bind(LANES).execute(admin).await.unwrap();
        let before = read(world).await;
        turns(world, TURNS as usize).await;
        let read = read(world).await - before;
        assert!(read > 0, "nothing was reported");
        assert!(read < TURNS * A_FEW, "{read} rows for {TURNS} turns");
    })
    .await;
}

async fn turns(world: &World, count: usize) {
    let ada = world.person("Ada").await.id;
    let conversation = talk::conversation(world, ada, &ada.to_string()).await;
    for number in 0..count {
        talk::say(world, ada, conversation, &format!("{number}"), Vec::new()).await;
        talk::work(&world.store, "done", None).await;
    }
}

/// Rows of lanes that were read so far, once all have reported.
async fn read(world: &World) -> i64 {
    tokio::time::sleep(REPORTED).await;
    turns(world, 1).await;
    assert!(world.store.queue.claim(Class::Turn, 1).await.unwrap().is_empty());
    sqlx::query_scalar(READ).fetch_one(&world.admin).await.unwrap()
}
