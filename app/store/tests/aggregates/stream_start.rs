use crate::{support::with_store, talk};
use famulus_core::{event::EventId, event_table::EventTable as _, ids::TurnId, turn::TurnLog as _};
use famulus_queue::Class;

/// As `finish` would after a reply: the event of the end follows what was shown.
const SHOWN: &str = "update turn t set shown_fence = e.fence, shown_number = e.number - 1
     from event e where e.turn_id = t.id";

#[tokio::test]
async fn a_viewer_begins_anew_only_when_it_missed_what_is_gone() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        let is_gone = async |fence, number| {
            let after = Some(EventId { fence, number });
            store.stream_start(ada, conversation, after).await.unwrap().1
        };
        // Shown by a worker that died before it stored anything, and followed by another's.
        assert!(!is_gone(5, 1).await);
        talk::say(world, ada, conversation, "one", Vec::new()).await;
        let lease = talk::claim(store, Class::Turn).await;
        talk::finish(store, &lease, "done", None).await;
        assert!(!is_gone(5, 1).await);

        let token = lease.fence.token;
        sqlx::query(SHOWN).execute(&world.admin).await.unwrap();
        sqlx::query("delete from event").execute(&world.admin).await.unwrap();
        for _ in 0..2 {
            assert!(!is_gone(token, 1).await, "all of it was seen");
            assert!(is_gone(token, 0).await, "the end was missed");
            assert!(is_gone(5, 1).await);
            assert!(!is_gone(0, 0).await, "nobody who begins has missed anything");
            // The same in front of a turn that is kept.
            talk::say(world, ada, conversation, "two", Vec::new()).await;
            talk::work(store, "done", None).await;
        }
    })
    .await;
}

/// A turn that is asked to stop goes on for a moment. Whoever comes then sees all of it, or nothing.
#[tokio::test]
async fn whoever_comes_while_a_turn_is_stopped_begins_before_its_first_event() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        talk::say(world, ada, conversation, "one", Vec::new()).await;
        talk::work(store, "done", None).await;
        talk::say(world, ada, conversation, "two", Vec::new()).await;
        let lease = talk::claim(store, Class::Turn).await;
        store.take_up(&lease.fence, TurnId(lease.job.id)).await.unwrap();
        for number in 1..=3 {
            talk::show(store, &lease, number).await;
        }
        let fence = lease.fence.token;
        let start = async || store.stream_start(ada, conversation, None).await.unwrap();
        assert_eq!(start().await, (EventId { fence, number: 0 }, false), "it runs");
        store.stop_conversation(ada, None, conversation).await.unwrap();
        assert_eq!(start().await, (EventId { fence, number: 0 }, false), "it still runs");
        talk::finish_to(store, &lease, "done", None, &["http"]).await;
        assert_eq!(start().await, (EventId { fence, number: 3 }, false), "it has ended");
    })
    .await;
}
