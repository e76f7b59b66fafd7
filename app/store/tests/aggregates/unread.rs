//! What joined a turn and was read by no reply of it goes to another turn.

use crate::{
    support::{World, with_store},
    talk,
};
use famulus_core::{
    accept::{Accept as _, Accepted, Disposition},
    ids::{ConversationId, MessageId, PersonId, TurnId},
    inbound::{Address, Inbound, Meeting, Target},
    message::Part,
    model::Usage,
    turn::{Ended, Ending, NewMessage, ReplyRecord, TurnLog, TurnState},
};
use famulus_queue::{Class, Lease};
use famulus_store::Store;

struct Scene {
    ada: PersonId,
    conversation: ConversationId,
    turn: TurnId,
    lease: Lease,
}

/// A turn that a worker has taken up.
async fn running(world: &World) -> Scene {
    let ada = world.person("Ada").await.id;
    let conversation = talk::conversation(world, ada, "a").await;
    let turn = talk::say(world, ada, conversation, "first", Vec::new()).await.turn;
    let lease = talk::claim(&world.store, Class::Turn).await;
    world.store.take_up(&lease.fence, turn).await.unwrap();
    Scene { ada, conversation, turn, lease }
}

fn elsewhere() -> Address {
    Address { channel: "telegram".into(), chat: "7".into(), ..talk::address() }
}

impl Scene {
    async fn join(&self, store: &Store, text: &str, reply: Address) -> Accepted {
        let target = Target::Existing(self.conversation);
        let message = talk::message(self.ada, target, text);
        let joined =
            store.accept(Inbound { meeting: Meeting::Steer, reply, ..message }).await.unwrap();
        assert_eq!(joined.disposition, Disposition::Steered);
        joined
    }

    async fn reply(&self, store: &Store, step: u32) {
        let record = ReplyRecord {
            turn: self.turn,
            step,
            message: NewMessage {
                id: MessageId::new(),
                parts: vec![Part::assistant_text("so far")],
                blocks: None,
            },
            calls: Vec::new(),
            model: "demo".to_owned(),
            usage: Usage::default(),
            shown: famulus_core::event::EventId::START,
            events: Vec::new(),
        };
        store.record_reply(&self.lease.fence, record).await.unwrap();
    }

    async fn results(&self, store: &Store, step: u32) {
        let news = store
            .record_results(&self.lease.fence, self.turn, step, MessageId::new(), Vec::new())
            .await
            .unwrap();
        assert_eq!(news.len(), 2, "the results, and what joined");
    }
}

/// The turn that answers a message, and the place where its own reply goes.
async fn answering(world: &World, scene: &Scene, message: MessageId) -> (TurnId, String) {
    let turn = world.store.turn_of(scene.ada, message).await.unwrap().unwrap();
    let channel = sqlx::query_scalar("select origin ->> 'channel' from turn where id = $1")
        .bind(turn.0)
        .fetch_one(&world.admin)
        .await
        .unwrap();
    (turn, channel)
}

#[tokio::test]
async fn what_a_failed_turn_did_not_read_keeps_its_own_reply_address() {
    with_store(async |world| {
        let store = &world.store;
        let scene = running(world).await;
        let read = scene.join(store, "read", talk::address()).await;
        scene.reply(store, 0).await;
        scene.results(store, 0).await;
        // A reply that was recorded behind the first two; the third is shown to the model in vain.
        scene.reply(store, 1).await;
        let seen = scene.join(store, "seen", elsewhere()).await;
        scene.results(store, 1).await;
        let unseen = scene.join(store, "unseen", talk::address()).await;
        talk::finish(store, &scene.lease, "sorry", Some("it broke")).await;

        assert_eq!(answering(world, &scene, read.message).await.0, scene.turn);
        let (next, channel) = answering(world, &scene, seen.message).await;
        assert_ne!(next, scene.turn);
        assert_eq!(channel, "telegram");
        assert_eq!(answering(world, &scene, unseen.message).await.0, next, "one turn for both");
        let failed = store.turn(scene.ada, scene.turn).await.unwrap().unwrap();
        assert_eq!((failed.state, failed.successor), (TurnState::Failed, Some(next)));
        let lease = talk::claim(store, Class::Turn).await;
        assert_eq!(lease.job.id, next.0);
        let loaded = store.take_up(&lease.fence, next).await.unwrap();
        let of_turn = loaded.history.iter().filter(|message| message.turn == Some(next));
        let read: Vec<String> = of_turn.map(|message| message.text()).collect();
        assert!(read[0].ends_with("seen") && read[1].ends_with("unseen"), "{read:?}");
    })
    .await;
}

#[tokio::test]
async fn a_reply_goes_to_each_place_that_its_turn_was_written_to_from() {
    with_store(async |world| {
        let store = &world.store;
        let scene = running(world).await;
        scene.join(store, "from elsewhere", elsewhere()).await;
        scene.join(store, "from elsewhere, again", elsewhere()).await;
        // They are read before the end.
        scene.reply(store, 0).await;
        let both =
            store.record_results(&scene.lease.fence, scene.turn, 0, MessageId::new(), Vec::new());
        assert_eq!(both.await.unwrap().len(), 3);
        talk::finish_to(store, &scene.lease, "done", None, &["http", "telegram"]).await;
        let sent = store.outbox(Some(scene.ada), None, 10).await.unwrap();
        let mut places: Vec<&str> = sent.iter().map(|item| item.to.channel.as_str()).collect();
        places.sort_unstable();
        assert_eq!(places, ["http", "telegram"]);
    })
    .await;
}

#[tokio::test]
async fn after_a_stop_nothing_joins_what_was_stopped() {
    with_store(async |world| {
        let store = &world.store;
        let scene = running(world).await;
        let joined = scene.join(store, "in time", talk::address()).await;
        store.stop_conversation(scene.ada, None, scene.conversation).await.unwrap();
        let target = Target::Existing(scene.conversation);
        let late = Inbound { meeting: Meeting::Steer, ..talk::message(scene.ada, target, "late") };
        let late = store.accept(late).await.unwrap();
        assert_eq!(late.disposition, Disposition::Started);
        // Whoever takes the stopped turn up does not open it again.
        store.take_up(&scene.lease.fence, scene.turn).await.unwrap();
        let later = talk::message(scene.ada, Target::Existing(scene.conversation), "later");
        let later = store.accept(Inbound { meeting: Meeting::Steer, ..later }).await.unwrap();
        assert_eq!(later.disposition, Disposition::Started);
        // It breaks while it is being stopped: then it was stopped.
        let broken = talk::ending(&scene.lease, "cut", Some("it broke"), &["http"]);
        let ended = store.finish(&scene.lease.fence, broken.clone()).await.unwrap();
        assert!(matches!(ended, Ended::Stopped), "{ended:?}");
        let stopped = Ending { state: TurnState::Cancelled, error: None, ..broken };
        let ended = store.finish(&scene.lease.fence, stopped).await.unwrap();
        assert!(matches!(ended, Ended::Done), "{ended:?}");
        assert_eq!(answering(world, &scene, joined.message).await.0, scene.turn);
        let stopped = "select count(*) from turn where person_id = $1 and state = 'cancelled'";
        assert_eq!(world.count(stopped, scene.ada).await, 1);
    })
    .await;
}

#[tokio::test]
async fn what_an_older_release_left_unread_is_found() {
    with_store(async |world| {
        let store = &world.store;
        let scene = running(world).await;
        let left = scene.join(store, "left", talk::address()).await;
        // It fails a turn and forgets what joined it.
        let ends = "update turn set state = 'failed', ended_at = now() where id = $1";
        sqlx::query(ends).bind(scene.turn.0).execute(&world.admin).await.unwrap();
        // More turns than one sweep takes were stopped since, each with what had joined it.
        sqlx::query(
            "with t as (
                 insert into turn (id, conversation_id, person_id, actor_id, agent_id, ord, began_by,
                                   state, cancel_requested_at, ended_at)
                 select gen_random_uuid(), conversation_id, person_id, actor_id, agent_id, ord + 10 * n,
                        began_by, 'cancelled', now() + interval '1 hour', now() + interval '1 second'
                 from turn, generate_series(1, 60) n where id = $1
                 returning *)
             insert into message (id, conversation_id, person_id, turn_id, turn_ord, seq, role,
                                  provenance, parts, body)
             select gen_random_uuid(), conversation_id, person_id, id, ord, ord + 1, 'user', 'member',
                    '', '' from t",
        )
        .bind(scene.turn.0)
        .execute(&world.admin)
        .await
        .unwrap();
        assert_eq!(store.hand_over_leftovers().await.unwrap(), 1);
        let (next, _) = answering(world, &scene, left.message).await;
        assert_ne!(next, scene.turn);
        assert_eq!(store.hand_over_leftovers().await.unwrap(), 0, "each message moves once");
    })
    .await;
}
