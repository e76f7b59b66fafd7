//! Schedules: checked before they are stored, changed by rule, kept apart by person.

use crate::{support::with_store, talk};
use famulus_core::{
    ids::{ConversationId, PersonId, TurnId},
    schedule::{
        MissedPolicy, NewSchedule, Rule, RuleError, ScheduleChange, ScheduleError, ScheduleStore,
        schedule_id_of,
    },
    tool::CallKey,
};
use famulus_store::{MAIN_AGENT, SlotOutcome};
use jiff::{Timestamp, ToSpan as _};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(expression: &str) -> Rule {
    Rule::Cron { expression: expression.into() }
}

fn new(conversation: ConversationId, rule: Rule) -> NewSchedule {
    NewSchedule {
        agent: MAIN_AGENT,
        conversation,
        name: None,
        note: "water the plants".into(),
        rule,
        time_zone: "Europe/Berlin".into(),
        origin: Some(talk::address()),
        announce: true,
        missed: MissedPolicy::RunOnce,
    }
}

fn key(call: u32) -> CallKey {
    CallKey { turn: TurnId(uuid::Uuid::from_u128(9)), step: 0, call, item: 0 }
}

#[tokio::test]
async fn a_rule_that_cannot_be_kept_is_not_stored() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        let refused = store.create(ada, key(0), new(conversation, cron("61 * * * *"))).await;
        assert!(matches!(refused, Err(ScheduleError::Rule(RuleError::Cron { .. }))), "{refused:?}");
        let now = at("2026-11-21T10:00:00Z");
        let past = Rule::At { at: at("2026-11-21T09:59:59Z") };
        let refused = store.create_schedule(ada, new(conversation, past), now).await;
        assert!(matches!(refused, Err(ScheduleError::Rule(RuleError::Past { .. }))));
        assert_eq!(store.schedules(ada).await.unwrap(), vec![]);
        // What failed has not used the call's key up.
        let made = store.create(ada, key(0), new(conversation, cron("0 9 * * *"))).await.unwrap();
        assert_eq!(made.id, schedule_id_of(key(0)));
        let again = store.create(ada, key(0), new(conversation, cron("0 1 * * *"))).await.unwrap();
        assert_eq!(again, made);
        assert_eq!(store.list(ada).await.unwrap(), vec![made]);
    })
    .await;
}

#[tokio::test]
async fn a_change_moves_the_future_only() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        let now = at("2026-11-21T10:00:00Z");
        let schedule =
            store.create_schedule(ada, new(conversation, cron("0 9 * * *")), now).await.unwrap();
        assert_eq!(schedule.next_due, Some(at("2026-11-22T08:00:00Z")));
        let change = async |change: ScheduleChange, now: &str| {
            store.change_schedule(ada, schedule.id, change, at(now)).await.unwrap().unwrap()
        };
        let noted = ScheduleChange { note: Some("feed the cat".into()), ..Default::default() };
        let noted = change(noted, "2026-11-25T10:00:00Z").await;
        assert_eq!(noted.next_due, schedule.next_due, "what is due stays due");
        let zone = ScheduleChange { time_zone: Some("Asia/Tokyo".into()), ..Default::default() };
        let zoned = change(zone, "2026-11-25T10:00:00Z").await;
        assert_eq!(zoned.next_due, Some(at("2026-11-26T00:00:00Z")));
        let off = ScheduleChange { enabled: Some(false), ..Default::default() };
        assert_eq!(change(off, "2026-11-25T11:00:00Z").await.next_due, None);
        let on = ScheduleChange { enabled: Some(true), ..Default::default() };
        let on = change(on, "2026-11-29T11:00:00Z").await;
        assert_eq!(on.next_due, Some(at("2026-11-30T00:00:00Z")));
        assert_eq!(store.schedule(ada, schedule.id).await.unwrap(), Some(on.clone()));
        // What passed while it was off is neither fired nor missed.
        let fired = store.fire_due(at("2026-11-29T12:00:00Z"), 10).await.unwrap();
        assert_eq!((fired.turns, fired.missed, fired.next_due), (vec![], 0, on.next_due));

        let bad = ScheduleChange { rule: Some(cron("x")), ..Default::default() };
        let refused = store.change_schedule(ada, schedule.id, bad, now).await;
        assert!(matches!(refused, Err(ScheduleError::Rule(_))));
        assert_eq!(store.schedule(ada, schedule.id).await.unwrap(), Some(on));
    })
    .await;
}

/// What is due was promised under the rule of its time, however quickly somebody changes it.
#[tokio::test]
async fn a_slot_that_is_due_is_decided_before_its_schedule_changes() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        // The port's changes are judged by the database's clock.
        let now = store.queue.now().await.unwrap();
        let (due, before) = (now - 2.seconds(), now - 1.hour());
        let later = Rule::At { at: now + 1.hour() };
        let none = ScheduleChange::default;
        let changes = [
            ScheduleChange { rule: Some(cron("0 9 * * *")), ..none() },
            ScheduleChange {
                rule: Some(Rule::Every { seconds: 3600 }),
                note: Some("no".into()),
                ..none()
            },
            ScheduleChange { rule: Some(later.clone()), ..none() },
            ScheduleChange { enabled: Some(false), ..none() },
            ScheduleChange { enabled: Some(false), rule: Some(later), ..none() },
        ];
        for (call, change) in changes.into_iter().enumerate() {
            for by_a_person in [true, false] {
                let rule = Rule::At { at: due };
                let made =
                    store.create_schedule(ada, new(conversation, rule), before).await.unwrap();
                let changed = if by_a_person {
                    store.change_schedule(ada, made.id, change.clone(), now).await.unwrap()
                } else {
                    store.change(ada, key(call as u32), made.id, change.clone()).await.unwrap()
                };
                let changed = changed.unwrap();
                let slots = store.schedule_slots(ada, made.id, 10).await.unwrap();
                assert_eq!(slots.len(), 1, "{change:?}");
                assert_eq!(
                    (slots[0].due_at, slots[0].outcome),
                    (made.next_due.unwrap(), SlotOutcome::Fired)
                );
                let turn = store.turn(ada, slots[0].turn.unwrap()).await.unwrap().unwrap();
                let page = store.messages(ada, turn.conversation, None, 100).await.unwrap();
                let said = page.items.iter().find(|message| message.turn == turn.id).unwrap();
                assert!(said.text.contains("water the plants"), "by its old note: {}", said.text);
                // What it became is in force all the same.
                assert_eq!(changed.enabled, change.enabled.unwrap_or(true), "{change:?}");
                assert_eq!(changed.next_due.is_some_and(|next| next > now), changed.enabled);
                assert_eq!(store.schedule(ada, made.id).await.unwrap(), Some(changed));
                store.delete_schedule(ada, made.id).await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_schedule_has_the_name_that_somebody_gave_it() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        let now = at("2026-11-21T10:00:00Z");
        let named = NewSchedule {
            name: Some("Garden".into()),
            ..new(conversation, Rule::Every { seconds: 3600 })
        };
        let made = store.create_schedule(ada, named, now).await.unwrap();
        let name = async |name: Option<&str>| {
            let change = ScheduleChange { name: name.map(Into::into), ..Default::default() };
            let changed = store.change_schedule(ada, made.id, change, now).await.unwrap().unwrap();
            assert_eq!(store.schedules(ada).await.unwrap(), std::slice::from_ref(&changed));
            changed.name
        };
        assert_eq!(name(None).await.as_deref(), Some("Garden"));
        assert_eq!(name(Some("Balcony")).await.as_deref(), Some("Balcony"));
        let fired = store.fire_due(at("2026-11-21T11:00:00Z"), 10).await.unwrap();
        let turn = store.turn(ada, fired.turns[0]).await.unwrap().unwrap();
        let page = store.messages(ada, turn.conversation, None, 10).await.unwrap();
        assert!(page.items[0].text.contains(&format!("{} (Balcony) is due", made.id)));
        assert_eq!(name(Some("")).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_schedule_lives_in_its_persons_conversation_and_hands() {
    with_store(async |world| {
        let store = &world.store;
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        let hers = talk::conversation(world, ada, "a").await;
        let now = at("2026-11-21T10:00:00Z");
        let rule = || Rule::Every { seconds: 3600 };
        let refused = store.create_schedule(bob, new(hers, rule()), now).await;
        assert!(matches!(refused, Err(ScheduleError::Store(_))), "{refused:?}");
        let schedule = store.create_schedule(ada, new(hers, rule()), now).await.unwrap();
        let seen = async |person: PersonId| store.schedules(person).await.unwrap().len();
        assert_eq!((seen(ada).await, seen(bob).await), (1, 0));
        let off = || ScheduleChange { enabled: Some(false), ..Default::default() };
        assert_eq!(store.change(bob, key(0), schedule.id, off()).await.unwrap(), None);
        assert!(!store.delete(bob, key(1), schedule.id).await.unwrap());
        assert!(store.delete(ada, key(2), schedule.id).await.unwrap());
        assert!(store.delete(ada, key(2), schedule.id).await.unwrap(), "the same call");
        assert!(!store.delete_schedule(ada, schedule.id).await.unwrap());
    })
    .await;
}
