//! Messages that their senders want gone.

use crate::{
    support::{World, with_store},
    talk,
};
use bytes::Bytes;
use famulus_core::{
    accept::{Accept as _, AcceptError},
    blob::{BlobRef, Blobs as _},
    ids::{OutboundId, PersonId, TurnId},
    inbound::{Attachment, Inbound, Target},
    tool::CallKey,
};
use famulus_queue::Class;
use famulus_store::{Connect, Invariant, Vanished, soundness};
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

const CALLED: &str =
    "insert into tool_call (turn_id, step, call, person_id, provider_id, tool, arguments,
                                             effect, repeat, state, output)
     select id, 0, 0, person_id, 'a', 'try', 'xyzzy', 'write', 'safe', 'done', 'xyzzy'
     from turn where id = $1";

async fn file(world: &World, person: PersonId, text: &'static str) -> BlobRef {
    let bytes = stream::iter([Ok(Bytes::from_static(text.as_bytes()))]).boxed();
    world.store.put(person, "text/plain", 100, bytes).await.unwrap()
}

/// Hands over the one reply that waits.
async fn deliver(world: &World) {
    let lease = talk::claim(&world.store, Class::Delivery).await;
    world.store.delivered(&lease.fence, OutboundId(lease.job.id)).await.unwrap();
}

/// How often a word stands anywhere in the database.
async fn places_of(world: &World, word: &str) -> i64 {
    let tables: Vec<String> = sqlx::query_scalar(
        "select table_name::text from information_schema.tables
         where table_schema = 'public' and table_type = 'BASE TABLE'",
    )
    .fetch_all(&world.admin)
    .await
    .unwrap();
    let mut found = 0;
    for table in tables {
        // What is kept as bytes is shown as hexadecimal digits.
        let query = format!(
            "select count(*) from {table} t
             where t::text like '%{word}%'
                or t::text like '%' || encode(convert_to('{word}', 'utf8'), 'hex') || '%'"
        );
        let count: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(query)).fetch_one(&world.admin).await.unwrap();
        found += count;
    }
    found
}

async fn sound(world: &World) -> Vec<Invariant> {
    soundness(&Connect::new(world.url.clone())).await.unwrap()
}

async fn vanish(world: &World, at: Timestamp) -> Vanished {
    world.store.vanish(at).await.unwrap()
}

#[tokio::test]
async fn a_message_vanishes_with_its_files_and_its_reply_and_nothing_else_does() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let place = talk::conversation(world, ada, "a").await;
        talk::say(world, ada, place, "the garden gate", Vec::new()).await;
        talk::work(store, "the garden key", None).await;
        deliver(world).await;

        let shared = file(world, ada, "a picture that stays").await;
        let own = file(world, ada, "an xyzzy picture").await;
        let attach = |blob: &BlobRef| Attachment { blob: blob.clone(), name: "a.txt".into() };
        talk::say(world, ada, place, "see this", vec![attach(&shared)]).await;
        talk::work(store, "seen", None).await;
        deliver(world).await;

        let burning = Inbound {
            external_id: Some("7/1".into()),
            attachments: vec![attach(&shared), attach(&own)],
            ..talk::message(ada, Target::Existing(place), "the safe says xyzzy")
        };
        let accepted = store.accept(burning.clone()).await.unwrap();
        store.vanishes(accepted.message, SOON).await.unwrap();
        let lease = talk::claim(store, Class::Turn).await;
        talk::finish(store, &lease, "I open it by xyzzy", None).await;
        talk::show(store, &lease, 7).await;
        sqlx::query("update event set data = data || 'xyzzy'::bytea where number = 7")
            .execute(&world.admin)
            .await
            .unwrap();
        sqlx::query(CALLED).bind(lease.job.id).execute(&world.admin).await.unwrap();
        let key = CallKey { turn: TurnId(lease.job.id), step: 0, call: 0, item: 0 };
        sqlx::query("insert into effect (key, person_id, result) values ($1, $2, 'xyzzy')")
            .bind(key.to_string())
            .bind(ada.0)
            .execute(&world.admin)
            .await
            .unwrap();
        // Two messages, what was sent, an event, a file, a call and what came of it.
        assert!(places_of(world, "xyzzy").await >= 7, "it is found where it is");

        let before = sound(world).await;
        let now = store.queue.now().await.unwrap();
        let later = |seconds| now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        assert_eq!(vanish(world, later(60)).await, Vanished::default(), "its reply waits");
        deliver(world).await;
        assert_eq!(vanish(world, later(20)).await, Vanished::default(), "its time is not over");
        let gone = Vanished { turns: 1, messages: 2, files: 1 };
        assert_eq!(vanish(world, later(60)).await, gone);
        assert_eq!(vanish(world, later(60)).await, Vanished::default());

        assert_eq!(places_of(world, "xyzzy").await, 0);
        let said: Vec<String> =
            sqlx::query_scalar("select body from message order by turn_ord, seq")
                .fetch_all(&world.admin)
                .await
                .unwrap();
        assert_eq!(said, ["the garden gate", "the garden key", "see this", "seen"]);
        store.get(ada, shared.id).await.map(drop).unwrap();
        // A platform that tells it once more is not believed.
        let again = store.accept(Inbound { attachments: Vec::new(), ..burning }).await;
        assert!(matches!(again, Err(AcceptError::KeyReused { .. })), "{again:?}");
        assert_eq!(sound(world).await, before, "as sound as before");
    })
    .await;
}

#[tokio::test]
async fn each_message_of_a_turn_goes_in_its_own_time_and_one_that_failed_is_not_tried_again() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let place = talk::conversation(world, ada, "a").await;
        let first = talk::say(world, ada, place, "one", Vec::new()).await;
        store.vanishes(first.message, SOON).await.unwrap();
        talk::work(store, "answer", Some("broken")).await;
        // As those that join a turn are.
        for (text, after) in [("two", None), ("three", Some(SOON * 10))] {
            let said = talk::say(world, ada, place, text, Vec::new()).await;
            if let Some(after) = after {
                store.vanishes(said.message, after).await.unwrap();
            }
            sqlx::query("update message set turn_id = $2, turn_ord = t.ord from turn t where message.id = $1 and t.id = $2")
                .bind(said.message.0)
                .bind(first.turn.0)
                .execute(&world.admin)
                .await
                .unwrap();
        }
        sqlx::query("update outbox set ended_at = now()").execute(&world.admin).await.unwrap();
        let now = store.queue.now().await.unwrap();
        let later = |seconds| now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        let left = async || {
            let query = "select body from message where turn_id = $1 order by seq";
            let query = sqlx::query_scalar::<_, String>(query).bind(first.turn.0);
            query.fetch_all(&world.admin).await.unwrap()
        };
        assert_eq!(vanish(world, later(60)).await.messages, 2, "the first and what was answered");
        assert_eq!(left().await, ["two", "three"]);
        assert_eq!(vanish(world, later(600)).await.messages, 1);
        assert_eq!(left().await, ["two"]);
        let letters: i64 = sqlx::query_scalar("select count(*) from queue_job where dead")
            .fetch_one(&world.admin)
            .await
            .unwrap();
        assert_eq!(letters, 0);
    })
    .await;
}
