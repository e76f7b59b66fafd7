//! What a restored database is asked finds what breaks it, and nothing else does.

use crate::{
    accept::file_of,
    support::{World, with_store},
    talk::{conversation, say},
};
use famulus_store::{Connect, soundness};
use sqlx::{AssertSqlSafe, Executor as _};

/// How each invariant is broken, alone: past the constraints that keep it, as a torn disk would.
const BROKEN: [(&str, &str); 11] = [
    ("one person is the owner", "update person set role = 'member'"),
    ("every turn has its conversation", "delete from conversation"),
    ("every message has its turn, in the same conversation", "delete from turn"),
    (
        "the messages of a conversation are in one order",
        "alter table message drop constraint message_conversation_id_turn_ord_seq_key;
         insert into message
         select (jsonb_populate_record(m, jsonb_build_object('id', gen_random_uuid()))).*
         from message m",
    ),
    ("no message is numbered beyond its conversation", "update message set seq = seq + 100"),
    ("no lane is leased for ever", "update queue_lane set state = 'leased', due_at = null"),
    ("every lane counts its jobs", "update queue_lane set pending = pending + 1"),
    (
        "every turn that has not ended has a job",
        "delete from queue_job; update queue_lane set pending = 0",
    ),
    (
        "what platforms told and nobody read has a job",
        "insert into arrival (id, channel, account, key, chat, body, random)
         values (gen_random_uuid(), 'pigeon', 'loft', '1', 'chat', '', '12345678')",
    ),
    ("every file is whole, to the last byte", "update blob_piece set data = data || '!'::bytea"),
    ("every file that a message has is there", "delete from blob_piece; delete from blob"),
];

#[tokio::test]
async fn each_broken_invariant_is_found_alone() {
    for (holds_that, statements) in BROKEN {
        with_store(async |world| {
            let (owner, _) = world.store.ensure_owner("Ada", "Europe/Berlin").await.unwrap();
            let place = conversation(world, owner.id, "main").await;
            let file = file_of(&world.store, owner.id).await;
            say(world, owner.id, place, "look at this", vec![file]).await;
            assert_eq!(broken(world).await, Vec::<&str>::new(), "before anything is broken");

            let statements = format!("set session_replication_role = replica; {statements}");
            let mut session = world.admin.acquire().await.unwrap();
            session.execute(AssertSqlSafe(statements)).await.unwrap();
            assert_eq!(broken(world).await, [holds_that]);
        })
        .await;
    }
}

async fn broken(world: &World) -> Vec<&'static str> {
    let answers = soundness(&Connect::new(world.url.clone())).await.unwrap();
    assert_eq!(answers.len(), BROKEN.len(), "each invariant is broken here");
    let broken = answers.into_iter().filter(|answer| answer.broken != 0);
    broken.map(|answer| answer.holds_that).collect()
}
