//! Deliveries and dead letters: recorded before they leave, settled with their lease.

use crate::{
    support::{World, with_store},
    talk,
};
use famulus_core::{
    accept::Accept as _,
    ids::{OutboundId, TurnId},
    inbound::{Address, Inbound, Target},
    pairing::Tell as _,
    turn::{Burial, TurnLog, TurnState},
};
use famulus_queue::{Class, Lease};
use famulus_store::{Error, OutboxState, Undelivered};
use std::time::Duration;

/// A reply on its way, and the lease of its delivery.
async fn reply(world: &World) -> (OutboundId, Lease) {
    let person = world.person("Ada").await.id;
    let conversation = talk::conversation(world, person, "a").await;
    talk::say(world, person, conversation, "hello", Vec::new()).await;
    talk::work(&world.store, "good day", None).await;
    let lease = talk::claim(&world.store, Class::Delivery).await;
    (OutboundId(lease.job.id), lease)
}

async fn state(world: &World, id: OutboundId) -> (OutboxState, i32, bool) {
    let items = world.store.outbox(None, None, 10).await.unwrap();
    let item = items.into_iter().find(|item| item.id == id).unwrap();
    (item.state, item.attempts, item.ended_at.is_some())
}

#[tokio::test]
async fn a_reply_is_marked_as_leaving_and_then_as_delivered() {
    with_store(async |world| {
        let store = &world.store;
        let (id, lease) = reply(world).await;
        let record = store.load_delivery(id).await.unwrap().unwrap();
        assert_eq!((record.state, record.attempts), (OutboxState::Pending, 0));
        assert!(record.tried_for < Duration::from_mins(1), "{record:?}");
        assert_eq!(record.outbound.markdown, "good day");
        assert_eq!(record.outbound.to, talk::address());
        assert!(!record.may_come_twice, "a reply");
        store.mark_sending(&lease.fence, id).await.unwrap();
        // What a successor would find, had this worker died here.
        let record = store.load_delivery(id).await.unwrap().unwrap();
        assert_eq!((record.state, record.attempts), (OutboxState::Sending, 1));
        store.delivered(&lease.fence, id).await.unwrap();
        assert_eq!(state(world, id).await, (OutboxState::Delivered, 1, true));
        assert_eq!(store.queue.claim(Class::Delivery, 8).await.unwrap(), vec![]);
        let late = store.delivered(&lease.fence, id).await;
        assert!(matches!(late, Err(Error::LeaseLost)));
        assert!(!store.retry_outbound(id).await.unwrap(), "what arrived is not sent again");
        assert_eq!(store.load_delivery(OutboundId::new()).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_sends_and_records_nothing() {
    with_store(async |world| {
        let store = &world.store;
        let (id, old) = reply(world).await;
        sqlx::query("update queue_lane set due_at = now()").execute(&world.admin).await.unwrap();
        let successor = world.another_store().await;
        let lease = talk::claim(&successor, Class::Delivery).await;
        let why = Undelivered::Refused { reason: "no".into() };
        assert!(matches!(store.mark_sending(&old.fence, id).await, Err(Error::LeaseLost)));
        assert!(matches!(store.delivered(&old.fence, id).await, Err(Error::LeaseLost)));
        let refused = store.delivery_failed(&old.fence, id, &why).await;
        assert!(matches!(refused, Err(Error::LeaseLost)));
        assert_eq!(state(world, id).await, (OutboxState::Pending, 0, false));
        successor.mark_sending(&lease.fence, id).await.unwrap();
        successor.delivered(&lease.fence, id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_was_not_sent_is_tried_again() {
    with_store(async |world| {
        let store = &world.store;
        let (id, lease) = reply(world).await;
        store.mark_sending(&lease.fence, id).await.unwrap();
        let busy = |is_try| Undelivered::NotSent {
            reason: "busy".into(),
            retry_after: Duration::ZERO,
            is_try,
        };
        store.delivery_failed(&lease.fence, id, &busy(false)).await.unwrap();
        assert_eq!(state(world, id).await, (OutboxState::Pending, 0, false), "it named a time");
        let lease = talk::claim(store, Class::Delivery).await;
        assert_eq!(lease.attempts, 1);
        store.mark_sending(&lease.fence, id).await.unwrap();
        store.delivery_failed(&lease.fence, id, &busy(true)).await.unwrap();
        assert_eq!(state(world, id).await, (OutboxState::Pending, 1, false));
        let again = talk::claim(store, Class::Delivery).await;
        assert_eq!((OutboundId(again.job.id), again.attempts), (id, 2));
        store.mark_sending(&again.fence, id).await.unwrap();
        store.delivered(&again.fence, id).await.unwrap();
        assert_eq!(state(world, id).await, (OutboxState::Delivered, 2, true));
    })
    .await;
}

/// Two conversations that are answered in one chat, and one in another.
#[tokio::test]
async fn a_chat_that_is_away_holds_up_what_goes_to_it_and_nothing_else() {
    with_store(async |world| {
        let store = &world.store;
        let person = world.person("Ada").await.id;
        for (number, chat) in ["away", "away", "there"].into_iter().enumerate() {
            let key = format!("conversation {number}");
            let to = Target::Existing(talk::conversation(world, person, &key).await);
            let reply = Address { chat: chat.into(), ..talk::address() };
            let inbound = Inbound { reply, ..talk::message(person, to, "hello") };
            store.accept(inbound).await.unwrap();
            talk::work(store, &format!("{chat} {number}"), None).await;
        }
        let leases = store.queue.claim(Class::Delivery, 8).await.unwrap();
        let mut first = Vec::new();
        for lease in &leases {
            let record = store.load_delivery(OutboundId(lease.job.id)).await.unwrap().unwrap();
            first.push(record.outbound.markdown.clone());
            let id = record.outbound.id;
            store.mark_sending(&lease.fence, id).await.unwrap();
            if record.outbound.to.chat == "there" {
                store.delivered(&lease.fence, id).await.unwrap();
            } else {
                let why = Undelivered::NotSent {
                    reason: "away".into(),
                    retry_after: Duration::ZERO,
                    is_try: true,
                };
                store.delivery_failed(&lease.fence, id, &why).await.unwrap();
            }
        }
        first.sort();
        assert_eq!(first, ["away 0", "there 2"]);
        // The second waits behind the first, though it is of another conversation.
        let again = talk::claim(store, Class::Delivery).await;
        let id = OutboundId(again.job.id);
        assert_eq!(store.load_delivery(id).await.unwrap().unwrap().outbound.markdown, "away 0");
        store.delivered(&again.fence, id).await.unwrap();
        let next = talk::claim(store, Class::Delivery).await;
        let id = OutboundId(next.job.id);
        assert_eq!(store.load_delivery(id).await.unwrap().unwrap().outbound.markdown, "away 1");
        store.delivered(&next.fence, id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_unknown_outcome_waits_for_a_person() {
    with_store(async |world| {
        let store = &world.store;
        let (id, lease) = reply(world).await;
        store.mark_sending(&lease.fence, id).await.unwrap();
        let why = Undelivered::Unknown { reason: "the line broke".into() };
        store.delivery_failed(&lease.fence, id, &why).await.unwrap();
        assert_eq!(state(world, id).await, (OutboxState::Unknown, 1, true));
        assert_eq!(store.queue.claim(Class::Delivery, 8).await.unwrap(), vec![]);
        let listed = store.outbox(None, Some(OutboxState::Unknown), 10).await.unwrap();
        assert_eq!(listed[0].error.as_deref(), Some("the line broke"));
        assert!(store.retry_outbound(id).await.unwrap());
        assert!(!store.retry_outbound(id).await.unwrap(), "it is on its way");
        let again = talk::claim(store, Class::Delivery).await;
        store.delivered(&again.fence, id).await.unwrap();
    })
    .await;
}

/// A stranger who is never told their code waits in vain, and one who is told it twice has one code.
#[tokio::test]
async fn what_the_installation_says_by_itself_may_come_twice() {
    with_store(async |world| {
        let store = &world.store;
        store.tell("a code", &talk::address(), None, "Your code is 1").await.unwrap();
        let lease = talk::claim(store, Class::Delivery).await;
        let record = store.load_delivery(OutboundId(lease.job.id)).await.unwrap().unwrap();
        assert!(record.may_come_twice, "{record:?}");
    })
    .await;
}

/// Somebody is told once each time that nobody knows, and of a notice nobody is.
#[tokio::test]
async fn an_unknown_outcome_is_told_once_and_a_notice_is_known_as_one() {
    with_store(async |world| {
        let store = &world.store;
        let (id, lease) = reply(world).await;
        let unknown = async |lease: &Lease| {
            store.mark_sending(&lease.fence, id).await.unwrap();
            let why = Undelivered::Unknown { reason: "the line broke".into() };
            store.delivery_failed(&lease.fence, id, &why).await.unwrap();
        };
        let untold = async || store.untold_outcomes(10).await.unwrap();
        assert_eq!(untold().await, []);
        unknown(&lease).await;
        let [told] = untold().await.try_into().unwrap();
        assert_eq!((told.id, told.person.as_str(), told.attempts), (id, "Ada", 1));
        assert_eq!((told.markdown.as_str(), told.is_notice), ("good day", false));
        store.outcome_told(id).await.unwrap();
        assert_eq!(untold().await, []);
        store.retry_outbound(id).await.unwrap();
        unknown(&talk::claim(store, Class::Delivery).await).await;
        assert_eq!(untold().await[0].attempts, 2, "it is unknown again");
        // A key of a person's own makes nothing a notice.
        let key = "update message set external_id = 'notice 1' where role = 'user'";
        sqlx::query(key).execute(&world.admin).await.unwrap();
        assert!(!untold().await[0].is_notice);
        let system = "update message set provenance = 'system' where role = 'user'";
        sqlx::query(system).execute(&world.admin).await.unwrap();
        assert!(untold().await[0].is_notice);
    })
    .await;
}

#[tokio::test]
async fn a_refused_message_is_a_dead_letter_that_can_be_tried_again() {
    with_store(async |world| {
        let store = &world.store;
        let (id, lease) = reply(world).await;
        let why = Undelivered::Refused { reason: "no such chat".into() };
        store.delivery_failed(&lease.fence, id, &why).await.unwrap();
        assert_eq!(state(world, id).await, (OutboxState::Failed, 0, true));
        let dead = store.dead_letters(10).await.unwrap();
        assert_eq!((dead.len(), dead[0].id, dead[0].reason.as_str()), (1, id.0, "no such chat"));
        let grow_old = async || {
            let old = "update outbox set since = now() - interval '2 days'";
            sqlx::query(old).execute(&world.admin).await.unwrap();
            let record = store.load_delivery(id).await.unwrap().unwrap();
            assert!(record.tried_for > Duration::from_hours(47), "{record:?}");
        };
        let is_new = async || {
            let record = store.load_delivery(id).await.unwrap().unwrap();
            assert!(record.tried_for < Duration::from_mins(1), "{record:?}");
        };
        // Over the outbox or over the dead letters: it is the same job.
        grow_old().await;
        assert!(store.retry_outbound(id).await.unwrap());
        is_new().await;
        assert_eq!(store.dead_letters(10).await.unwrap(), vec![]);
        let again = talk::claim(store, Class::Delivery).await;
        store.delivery_failed(&again.fence, id, &why).await.unwrap();
        grow_old().await;
        assert!(store.revive(id.0).await.unwrap());
        is_new().await;
        assert_eq!(state(world, id).await, (OutboxState::Pending, 0, false));
        assert!(!store.revive(id.0).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_buried_turn_can_be_revived() {
    with_store(async |world| {
        let store = &world.store;
        let person = world.person("Ada").await.id;
        let conversation = talk::conversation(world, person, "a").await;
        let accepted = talk::say(world, person, conversation, "hello", Vec::new()).await;
        let lease = talk::claim(store, Class::Turn).await;
        let report = store.queue_report().await.unwrap();
        assert_eq!(report.workers, vec![store.queue.worker]);
        let depth = |class| report.classes.iter().find(|(c, _)| *c == class).unwrap().1;
        assert_eq!((depth(Class::Turn).jobs, depth(Class::Turn).leased), (1, 1));
        assert_eq!(depth(Class::Delivery).jobs, 0);

        let burial = Burial {
            turn: accepted.turn,
            reason: "its workers died".to_owned(),
            reply: "Something went wrong".to_owned(),
            delivering: Vec::new(),
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        store.bury(&lease.fence, burial).await.unwrap();
        let turn = store.turn(person, accepted.turn).await.unwrap().unwrap();
        assert_eq!(turn.state, TurnState::Failed);
        assert_eq!(turn.error.as_deref(), Some("its workers died"));
        assert!(store.revive(accepted.turn.0).await.unwrap());
        let turn = store.turn(person, accepted.turn).await.unwrap().unwrap();
        assert_eq!((turn.state, turn.error, turn.ended_at), (TurnState::Queued, None, None));
        let lease = talk::claim(store, Class::Turn).await;
        assert_eq!(TurnId(lease.job.id), accepted.turn);
        store.take_up(&lease.fence, accepted.turn).await.unwrap();
        assert!(!store.revive(uuid::Uuid::now_v7()).await.unwrap());
    })
    .await;
}
