//! Events that a lost lease stores after somebody else has taken the turn up.

use crate::{support::with_store, talk};
use famulus_core::{
    event::{Envelope, Event, EventId, VERSION},
    ids::{ConversationId, TurnId},
    turn::TurnLog as _,
};
use famulus_queue::Class;
use std::sync::Arc;

/// The event behind the last one of a token, as a transaction has it that was left open.
const NEXT: &str = "insert into event (conversation_id, fence, number, person_id, turn_id, data)
     select conversation_id, fence, number + 1, person_id, turn_id,
            convert_to(replace(convert_from(data, 'utf8'), '\"number\":1', '\"number\":2'), 'utf8')
     from event where fence = $1";

#[tokio::test]
async fn what_a_lost_lease_stores_late_is_kept_by_nobody() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        talk::say(world, ada, conversation, "one", Vec::new()).await;
        let next = async || {
            sqlx::query("update queue_lane set due_at = now()")
                .execute(&world.admin)
                .await
                .unwrap();
            talk::claim(store, Class::Turn).await
        };
        let first = next().await;
        let turn = TurnId(first.job.id);
        let loaded = store.take_up(&first.fence, turn).await.unwrap();
        assert!(loaded.is_fresh);
        talk::show(store, &first, 1).await;
        let mut late = world.admin.begin().await.unwrap();
        sqlx::query(NEXT).bind(first.fence.token).execute(&mut *late).await.unwrap();

        let second = next().await;
        let loaded = store.take_up(&second.fence, turn).await.unwrap();
        assert!(!loaded.is_fresh);
        let last = loaded.partial.unwrap().last;
        assert_eq!(last, EventId { fence: first.fence.token, number: 1 });
        let resumed = Arc::new(Envelope {
            v: VERSION,
            id: EventId { fence: second.fence.token, number: 1 },
            conversation: ConversationId(second.fence.lane),
            at: jiff::Timestamp::UNIX_EPOCH,
            event: Event::Resumed { turn, last },
        });
        let shown = resumed.id;
        let kept = store.record_interrupted(&second.fence, turn, None, shown, vec![resumed]).await;
        assert_eq!(kept.unwrap(), None);
        late.commit().await.unwrap();

        let third = next().await;
        let loaded = store.take_up(&third.fence, turn).await.unwrap();
        assert_eq!((loaded.shown, loaded.partial), (shown, None));
    })
    .await;
}
