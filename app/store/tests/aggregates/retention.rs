//! What is let go, and what stays for good.

use crate::{support::with_store, talk};
use bytes::Bytes;
use famulus_core::{
    blob::{BlobError, Blobs},
    ids::OutboundId,
    inbound::Attachment,
    knowledge::{KnowledgeKind, KnowledgeStore, Upsert},
    message::PartBody,
    pairing::Tell as _,
    tool::CallKey,
};
use famulus_queue::Class;
use famulus_store::{Error, Retention, SweptRows};
use futures::{StreamExt, stream};
use jiff::SignedDuration;

#[tokio::test]
async fn old_things_go_and_the_transcript_stays() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let file = async |text: &'static str| {
            let bytes = stream::iter([Ok(Bytes::from_static(text.as_bytes()))]).boxed();
            store.put(ada, "text/plain", 100, bytes).await.unwrap()
        };
        let (sent, loose) = (file("sent").await, file("loose").await);
        let conversation = talk::conversation(world, ada, "a").await;
        let attachment = Attachment { blob: sent.clone(), name: "a.txt".into() };
        talk::say(world, ada, conversation, "look", vec![attachment]).await;
        let ended = talk::work(store, "nice", None).await;
        let open = talk::say(world, ada, conversation, "and?", Vec::new()).await.turn;
        let key = CallKey { turn: ended, step: 0, call: 0, item: 0 };
        let entry = Upsert {
            id: None,
            kind: KnowledgeKind::Memory,
            title: String::new(),
            body: "b".into(),
        };
        store.upsert(ada, key, entry).await.unwrap();
        // More than one batch of events of the turn that ended, one of the turn that did not.
        sqlx::query(
            "insert into event (conversation_id, fence, number, person_id, turn_id, data)
             select $1, 1, n, $2, case when n = 0 then $4 else $3 end, ''
             from generate_series(0, 4500) n",
        )
        .bind(conversation.0)
        .bind(ada.0)
        .bind(ended.0)
        .bind(open.0)
        .execute(&world.admin)
        .await
        .unwrap();
        sqlx::query(
            "insert into inbox (channel, account, external_id, person_id, body_hash, message_id)
             values ('http', 'a', '1', $1, sha256('x'), $1)",
        )
        .bind(ada.0)
        .execute(&world.admin)
        .await
        .unwrap();

        // What went out, a slot of a schedule, and a question of each turn: only the open one's stays.
        let delivered = talk::claim(store, Class::Delivery).await;
        let id = OutboundId(delivered.job.id);
        store.delivered(&delivered.fence, id).await.unwrap();
        sqlx::query(
            "insert into approval (id, person_id, conversation_id, turn_id, step, call, code, tool,
                                   summary, shown, call_hash, state, expires_at, decided_at)
             select gen_random_uuid(), $1, $2, t.id, 0, 0, t.id, 't', '', '', sha256('x'), 'denied',
                    now(), now() from unnest($3::uuid[]) t (id)",
        )
        .bind(ada.0)
        .bind(conversation.0)
        .bind(vec![ended.0, open.0])
        .execute(&world.admin)
        .await
        .unwrap();

        sqlx::query(
            "with s as (
                 insert into schedule (id, person_id, agent_id, conversation_id, note, rule,
                                       time_zone, missed, decided_until)
                 select gen_random_uuid(), $1, agent_id, id, '', '{}', 'UTC', 'skip', now()
                 from conversation where id = $2 returning id)
             insert into schedule_slot (schedule_id, due_at, person_id, outcome)
             select id, now(), $1, 'missed' from s",
        )
        .bind(ada.0)
        .bind(conversation.0)
        .execute(&world.admin)
        .await
        .unwrap();

        let now = store.queue.now().await.unwrap();
        let keep = Retention::default();
        assert_eq!(store.sweep_old(now, &keep).await.unwrap(), SweptRows::default());
        let later = now.checked_add(SignedDuration::from_hours(2)).unwrap();
        let swept = store.sweep_old(later, &keep).await.unwrap();
        assert_eq!(swept, SweptRows { events: 4501, ..SweptRows::default() });
        let later = now.checked_add(SignedDuration::from_hours(24 * 31)).unwrap();
        let swept = store.sweep_old(later, &keep).await.unwrap();
        let expected = SweptRows {
            inbox: 1,
            keyed_writes: 1,
            unreferenced_blobs: 1,
            deliveries: 1,
            lanes: 1,
            ..SweptRows::default()
        };
        assert_eq!(swept, expected);
        assert_eq!(store.sweep_old(later, &keep).await.unwrap(), SweptRows::default());
        let later = now.checked_add(SignedDuration::from_hours(24 * 91)).unwrap();
        let swept = store.sweep_old(later, &keep).await.unwrap();
        assert_eq!(swept, SweptRows { questions: 1, slots: 1, ..SweptRows::default() });
        assert_eq!(store.sweep_old(later, &keep).await.unwrap(), SweptRows::default());

        assert!(matches!(store.get(ada, loose.id).await, Err(BlobError::Missing { .. })));
        let (found, _) = store.get(ada, sent.id).await.unwrap();
        assert_eq!(found, sent);
        let page = store.messages(ada, conversation, None, 10).await.unwrap();
        assert_eq!(page.items.len(), 3);
        assert!(page.items[0].parts.iter().any(|part| matches!(
            &part.body,
            PartBody::File(file) if file.blob == sent
        )));
    })
    .await;
}

/// Anybody may open a chat. A worker that stood still for days proves nothing by what it held there.
#[tokio::test]
async fn the_lane_of_a_chat_goes_and_comes_back() {
    with_store(async |world| {
        let store = &world.store;
        let leased = async |key: &str| {
            store.tell(key, &talk::address(), None, "hello").await.unwrap();
            talk::claim(store, Class::Delivery).await
        };
        let old = leased("1").await;
        store.delivered(&old.fence, OutboundId(old.job.id)).await.unwrap();
        let now = store.queue.now().await.unwrap();
        let days = |days: i64| now.checked_add(SignedDuration::from_hours(24 * days)).unwrap();
        let keep = Retention::default();
        assert_eq!(store.sweep_old(now, &keep).await.unwrap(), SweptRows::default());
        let swept = store.sweep_old(days(2), &keep).await.unwrap();
        assert_eq!(swept, SweptRows { lanes: 1, ..SweptRows::default() });

        let new = leased("2").await;
        assert!(new.fence.token > old.fence.token, "{new:?} {old:?}");
        assert_eq!(store.sweep_old(days(2), &keep).await.unwrap().lanes, 0, "it is at work");
        let late = store.mark_sending(&old.fence, OutboundId(old.job.id)).await;
        assert!(matches!(late, Err(Error::LeaseLost)), "{late:?}");
        store.delivered(&new.fence, OutboundId(new.job.id)).await.unwrap();
    })
    .await;
}
