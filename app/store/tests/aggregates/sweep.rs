//! Slots happen once, whoever decides them, and failures switch a schedule off.

use crate::{
    support::{World, with_store},
    talk,
};
use famulus_core::{
    ids::PersonId,
    inbound::Address,
    pairing::Identities as _,
    schedule::{MissedPolicy, NewSchedule, Rule, Schedule},
    turn::TurnState,
};
use famulus_store::{Homes, MAIN_AGENT, OutboxState, SlotOutcome};
use jiff::Timestamp;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

async fn schedule(
    world: &World,
    person: PersonId,
    rule: Rule,
    missed: MissedPolicy,
    announce: bool,
) -> Schedule {
    made_at(world, person, rule, missed, announce, Some(talk::address())).await
}

async fn made_at(
    world: &World,
    person: PersonId,
    rule: Rule,
    missed: MissedPolicy,
    announce: bool,
    origin: Option<Address>,
) -> Schedule {
    let conversation = talk::conversation(world, person, &person.to_string()).await;
    let new = NewSchedule {
        agent: MAIN_AGENT,
        conversation,
        name: None,
        note: "water the plants".into(),
        rule,
        time_zone: "Europe/Berlin".into(),
        origin,
        announce,
        missed,
    };
    world.store.create_schedule(person, new, at("2026-11-21T10:00:00Z")).await.unwrap()
}

fn hourly() -> Rule {
    Rule::Cron { expression: "0 * * * *".into() }
}

#[tokio::test]
async fn a_slot_fires_once_although_two_processes_sweep() {
    with_store(async |world| {
        let store = &world.store;
        let other = world.another_store().await;
        let mut expected = Vec::new();
        for name in ["a", "b", "c", "d"] {
            let person = world.person(name).await;
            let made = schedule(world, person.id, hourly(), MissedPolicy::RunOnce, true).await;
            expected.push((person.id, made.id));
        }
        let now = at("2026-11-21T11:00:00Z");
        assert_eq!(store.fire_due(at("2026-11-21T10:59:59Z"), 10).await.unwrap().turns, vec![]);
        let sweeps = futures::future::join_all(
            [store, &other, store, &other].map(|store| store.fire_due(now, 3)),
        )
        .await;
        let mut turns: Vec<_> = sweeps.into_iter().flat_map(|s| s.unwrap().turns).collect();
        loop {
            let more = store.fire_due(now, 3).await.unwrap();
            if more.next_due.is_some_and(|due| due > now) {
                turns.extend(more.turns);
                break;
            }
            turns.extend(more.turns);
        }
        assert_eq!(turns.len(), 4);
        for (person, id) in expected {
            let slots = store.schedule_slots(person, id, 10).await.unwrap();
            assert_eq!(slots.len(), 1);
            assert_eq!((slots[0].due_at, slots[0].outcome), (now, SlotOutcome::Fired));
            let turn = store.turn(person, slots[0].turn.unwrap()).await.unwrap().unwrap();
            assert_eq!(turn.state, TurnState::Queued);
            let page = store.messages(person, turn.conversation, None, 10).await.unwrap();
            assert_eq!(page.items.len(), 1);
            assert!(page.items[0].text.contains("water the plants"));
            assert!(page.items[0].text.contains("12:00 +01:00 (Europe/Berlin)"));
            assert!(page.items[0].text.contains(&id.to_string()));
        }
    })
    .await;
}

/// The chat where it was made, if anybody is reached there, and else the person's home.
#[tokio::test]
async fn a_schedule_speaks_where_its_person_is_reached() {
    with_store(async |world| {
        let store = &world.store;
        let chat = |id: &str| Address {
            channel: "telegram".into(),
            account: "99".into(),
            chat: id.into(),
            ..talk::address()
        };
        let kept = vec!["http".to_owned()];
        store.know_homes(Homes { chats: vec!["telegram".into()], kept });
        let ada = world.person("Ada").await.id;
        let linked = store.link_identity(ada, "telegram", "99", "7").await.unwrap();
        store.seen(linked.id, "7").await.unwrap();
        let (http, home, elsewhere) = (talk::address(), chat("7"), chat("8"));
        let cases = [
            (Some(&http), true, Some(&home), Some(&http)),
            (None, true, Some(&home), None),
            (Some(&elsewhere), true, Some(&elsewhere), Some(&elsewhere)),
            (Some(&http), false, None, None),
            (Some(&elsewhere), false, None, None),
        ];
        let mut made = Vec::new();
        for (origin, announce, _, _) in cases {
            let (rule, policy) = (hourly(), MissedPolicy::Skip);
            made.push(made_at(world, ada, rule, policy, announce, origin.cloned()).await.id);
        }
        let check = async |hour: &str, is_open: bool| {
            store.fire_due(at(hour), 10).await.unwrap();
            for (id, (origin, announce, open, closed)) in made.iter().zip(cases) {
                let slots = store.schedule_slots(ada, *id, 1).await.unwrap();
                let to = store.origin_of(slots[0].turn.unwrap()).await.unwrap().unwrap();
                let expected = if is_open { open } else { closed };
                let found = Some(&to).filter(|to| to.channel != "none");
                assert_eq!(found, expected, "{hour}, made at {origin:?}, announced: {announce}");
            }
        };
        check("2026-11-21T11:00:00Z", true).await;
        store.may_reach("telegram", "99", "7", false).await.unwrap();
        check("2026-11-21T12:00:00Z", false).await;
        store.seen(linked.id, "7").await.unwrap();
        check("2026-11-21T13:00:00Z", true).await;
    })
    .await;
}

#[tokio::test]
async fn what_passed_while_nothing_ran_follows_the_policy() {
    with_store(async |world| {
        let store = &world.store;
        let person = world.person("a").await.id;
        let once = schedule(world, person, hourly(), MissedPolicy::RunOnce, true).await;
        let skip = schedule(world, person, hourly(), MissedPolicy::Skip, true).await;
        let fired = store.fire_due(at("2026-11-21T13:30:00Z"), 10).await.unwrap();
        assert_eq!((fired.turns.len(), fired.missed), (1, 5));
        assert_eq!(fired.next_due, Some(at("2026-11-21T14:00:00Z")));
        let outcomes = async |id| {
            let slots = store.schedule_slots(person, id, 10).await.unwrap();
            slots.into_iter().map(|slot| (slot.due_at, slot.outcome)).collect::<Vec<_>>()
        };
        use SlotOutcome::{Fired, Missed};
        let [one, two, three] =
            ["2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"].map(at);
        assert_eq!(outcomes(once.id).await, [(three, Fired), (two, Missed), (one, Missed)]);
        assert_eq!(outcomes(skip.id).await, [(three, Missed), (two, Missed), (one, Missed)]);
    })
    .await;
}

#[tokio::test]
async fn missed_slots_beyond_a_hundred_are_one_row_that_counts_them() {
    with_store(async |world| {
        let store = &world.store;
        let person = world.person("a").await.id;
        let every = Rule::Every { seconds: 60 };
        let made = schedule(world, person, every, MissedPolicy::RunOnce, true).await;
        let fired = store.fire_due(at("2026-11-22T10:00:00Z"), 10).await.unwrap();
        assert_eq!((fired.turns.len(), fired.missed), (1, 24 * 60 - 1));
        let slots = store.schedule_slots(person, made.id, 500).await.unwrap();
        assert_eq!(slots.len(), 102, "one that fired, a hundred, and the others");
        assert_eq!(slots.iter().map(|slot| slot.slots).sum::<i64>(), 24 * 60);
        assert!(slots[..101].iter().all(|slot| slot.slots == 1 && slot.first_due_at.is_none()));
        let others = &slots[101];
        assert_eq!((others.outcome, others.slots), (SlotOutcome::Missed, 24 * 60 - 101));
        let first = others.first_due_at.unwrap();
        assert_eq!(first, at("2026-11-21T10:01:00Z"));
        let span = others.due_at.duration_since(first).as_secs();
        assert_eq!(span, (others.slots - 1) * 60, "a slot a minute");
    })
    .await;
}

#[tokio::test]
async fn an_appointment_happens_once_and_switches_itself_off() {
    with_store(async |world| {
        let store = &world.store;
        let person = world.person("a").await.id;
        let rule = Rule::At { at: at("2026-11-21T11:00:00Z") };
        let made = schedule(world, person, rule, MissedPolicy::RunOnce, false).await;
        let fired = store.fire_due(at("2026-11-21T11:00:01Z"), 10).await.unwrap();
        assert_eq!((fired.turns.len(), fired.next_due), (1, None));
        let done = store.schedule(person, made.id).await.unwrap().unwrap();
        assert_eq!((done.enabled, done.next_due), (false, None));
        let origin: serde_json::Value = sqlx::query_scalar("select origin from turn where id = $1")
            .bind(fired.turns[0].0)
            .fetch_one(&world.admin)
            .await
            .unwrap();
        assert_eq!(origin["channel"], "none", "what is not announced is delivered nowhere");
        talk::work(store, "done", None).await;
        assert_eq!(store.outbox(None, None, 10).await.unwrap(), vec![]);
    })
    .await;
}

#[tokio::test]
async fn three_failures_in_a_row_switch_a_schedule_off_and_say_so() {
    with_store(async |world| {
        let store = &world.store;
        let person = world.person("a").await.id;
        let made = schedule(world, person, hourly(), MissedPolicy::RunOnce, true).await;
        let mut hour = 11;
        let mut run = async |error: Option<&str>| {
            let now = at(&format!("2026-11-21T{hour}:00:00Z"));
            hour += 1;
            assert_eq!(store.fire_due(now, 10).await.unwrap().turns.len(), 1);
            talk::work(store, "text", error).await;
            store.schedule(person, made.id).await.unwrap().unwrap()
        };
        assert_eq!(run(Some("no water")).await.failures, 1);
        assert_eq!(run(Some("no water")).await.failures, 2);
        let well = run(None).await;
        assert_eq!((well.failures, well.last_error), (0, None), "they must be in a row");
        run(Some("no water")).await;
        run(Some("no water")).await;
        let before = store.outbox(Some(person), None, 100).await.unwrap().len();
        let off = run(Some("no water at all")).await;
        assert_eq!((off.enabled, off.next_due, off.failures), (false, None, 3));
        assert_eq!(off.last_error.as_deref(), Some("no water at all"));
        let pending = store.outbox(Some(person), Some(OutboxState::Pending), 100).await.unwrap();
        assert_eq!(pending.len(), before + 2, "the reply and the notice");
        let mut notices = 0;
        for item in &pending {
            let record = store.load_delivery(item.id).await.unwrap().unwrap();
            notices += usize::from(record.outbound.markdown.contains("no water at all"));
            assert_eq!(item.to, talk::address());
        }
        assert_eq!(notices, 1);
        let now = at("2026-11-22T11:00:00Z");
        assert_eq!(store.fire_due(now, 10).await.unwrap().turns, vec![]);
    })
    .await;
}

#[tokio::test]
async fn a_members_schedule_in_a_group_counts_its_failures_too() {
    with_store(async |world| {
        let store = &world.store;
        let (host, member) = (world.person("host").await.id, world.person("member").await.id);
        let made = schedule(world, host, hourly(), MissedPolicy::RunOnce, true).await;
        // As a tool makes it in a group: the member's schedule in the host's conversation.
        sqlx::query("update schedule set person_id = $2 where id = $1")
            .bind(made.id.0)
            .bind(member.0)
            .execute(&world.admin)
            .await
            .unwrap();
        store.fire_due(at("2026-11-21T11:00:00Z"), 10).await.unwrap();
        talk::work(store, "text", Some("no water")).await;
        let failed = store.schedule(member, made.id).await.unwrap().unwrap();
        assert_eq!(failed.failures, 1);
        assert_eq!(store.outbox(Some(host), None, 10).await.unwrap().len(), 1);
        assert_eq!(store.outbox(Some(member), None, 10).await.unwrap().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn one_broken_schedule_does_not_hold_up_the_others() {
    with_store(async |world| {
        let store = &world.store;
        let person = world.person("a").await.id;
        let [gone, newer, good] = [
            schedule(world, person, hourly(), MissedPolicy::RunOnce, true).await,
            schedule(world, person, hourly(), MissedPolicy::RunOnce, true).await,
            schedule(world, person, hourly(), MissedPolicy::RunOnce, true).await,
        ];
        let change = "update schedule set time_zone = $2, rule = coalesce($3, rule) where id = $1";
        for (id, zone, rule) in [
            (gone.id, "Mars/Olympus", None),
            (newer.id, "UTC", Some(serde_json::json!({"kind": "moon"}))),
        ] {
            sqlx::query(change)
                .bind(id.0)
                .bind(zone)
                .bind(rule)
                .execute(&world.admin)
                .await
                .unwrap();
        }
        let fired = store.fire_due(at("2026-11-21T11:00:00Z"), 10).await.unwrap();
        assert_eq!(fired.turns.len(), 1);
        assert_eq!(fired.next_due, Some(at("2026-11-21T11:01:00Z")), "left to a newer release");
        let off = store.schedule(person, gone.id).await.unwrap().unwrap();
        assert!(!off.enabled && off.last_error.unwrap().contains("Mars/Olympus"));
        assert_eq!(store.schedule_slots(person, good.id, 10).await.unwrap().len(), 1);
    })
    .await;
}
