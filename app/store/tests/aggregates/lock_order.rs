use crate::{support::with_store, talk};
use famulus_core::{
    event::EventId,
    ids::*,
    inbound::*,
    message::{Part, Provenance},
    turn::{NewMessage, TurnLog},
};
use famulus_queue::Class;
use famulus_store::MAIN_AGENT;
#[tokio::test(flavor = "multi_thread")]
async fn locks() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        talk::say(world, ada, conversation, "start", Vec::new()).await;
        let lease = talk::claim(store, Class::Turn).await;
        let turn = TurnId(lease.job.id);
        store.take_up(&lease.fence, turn).await.unwrap();
        let a = async {
            for n in 0..400 {
                talk::say(world, ada, conversation, &format!("{n}"), Vec::new()).await;
            }
        };
        let b = async {
            let mut bad = 0;
            for _ in 0..400 {
                let m = NewMessage {
                    id: MessageId::new(),
                    parts: vec![Part::assistant_text("x")],
                    blocks: None,
                };
                if let Err(e) = store
                    .record_interrupted(&lease.fence, turn, m, EventId::START, Vec::new())
                    .await
                {
                    bad += 1;
                    println!("{e:?}");
                }
            }
            bad
        };
        let ((), bad) = tokio::join!(a, b);
        let _ = (Provenance::Owner, MAIN_AGENT, ChatKind::Direct);
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let d: i64 = sqlx::query_scalar(
            "select deadlocks from pg_stat_database where datname = current_database()",
        )
        .fetch_one(&world.admin)
        .await
        .unwrap();
        println!("deadlocks {d} bad {bad}");
        assert_eq!(d, 0);
    })
    .await;
}
