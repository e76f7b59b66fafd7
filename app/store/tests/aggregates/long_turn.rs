//! A turn that many messages joined.

use crate::{support::with_store, talk};
use famulus_core::turn::TurnLog as _;
use famulus_queue::Class;

/// More than a turn reads of what was before it.
const MANY: i64 = 450;

/// As many copies of a turn's message, behind it.
const COPIES: &str =
    "insert into message (id, conversation_id, person_id, sender_id, turn_id, turn_ord,
                                          seq, role, source, provenance, parts, body)
     select gen_random_uuid(), conversation_id, person_id, sender_id, turn_id, turn_ord,
            100000 + n, role, source, provenance, parts, body
     from message, generate_series(1, $2) n where message.id = $1";

#[tokio::test]
async fn a_turn_reads_all_of_its_own_messages_and_the_latest_before_them() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let place = talk::conversation(world, ada, "a").await;
        let mut turn = None;
        for text in ["before", "now"] {
            let said = talk::say(world, ada, place, text, Vec::new()).await;
            sqlx::query(COPIES)
                .bind(said.message.0)
                .bind(MANY)
                .execute(&world.admin)
                .await
                .unwrap();
            if text == "before" {
                talk::work(store, "answered", None).await;
            }
            turn = Some(said.turn);
        }
        let lease = talk::claim(store, Class::Turn).await;
        let loaded = store.take_up(&lease.fence, turn.unwrap()).await.unwrap();
        let own = loaded.history.iter().filter(|message| message.turn == turn).count();
        assert_eq!(own as i64, MANY + 1, "each is to be answered");
        assert_eq!(loaded.history.len() - own, 400);
        assert!(loaded.history.is_sorted_by_key(|message| message.turn == turn), "in their order");
    })
    .await;
}
