//! People, accounts, tokens, agents, and the zone that schedules move with.

use crate::{support::with_store, talk};
use famulus_core::{
    agent::{Budgets, Grants},
    person::Scope,
    schedule::{MissedPolicy, NewSchedule, Rule},
};
use famulus_store::{AgentChange, MAIN_AGENT, NewAgent, PersonChange, PersonError};
use jiff::SignedDuration;

#[tokio::test]
async fn a_token_is_good_until_it_is_revoked() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await;
        let id = store.create_token(ada.id, "laptop", Scope::Chat, [7; 32]).await.unwrap();
        let caller = store.authenticate([7; 32]).await.unwrap().unwrap();
        assert_eq!(
            (caller.person, caller.token, caller.scope),
            (ada.clone(), Some(id), Scope::Chat)
        );
        assert!(store.authenticate([8; 32]).await.unwrap().is_none());

        assert!(store.revoke_token(id).await.unwrap());
        assert!(!store.revoke_token(id).await.unwrap(), "it is revoked once");
        assert!(store.authenticate([7; 32]).await.unwrap().is_none());
        let tokens = store.tokens(Some(ada.id)).await.unwrap();
        assert_eq!(tokens.len(), 1);
        assert!(tokens[0].revoked_at.is_some());
        let bob = world.person("Bob").await;
        assert_eq!(store.tokens(Some(bob.id)).await.unwrap(), vec![]);
        assert_eq!(store.tokens(None).await.unwrap(), tokens);
    })
    .await;
}

#[tokio::test]
async fn an_account_stays_with_the_person_whom_it_was_linked_to() {
    with_store(async |world| {
        let store = &world.store;
        let (ada, bob) = (world.person("Ada").await, world.person("Bob").await);
        let linked = store.link_identity(ada.id, "signal", "bot", "+1").await.unwrap();
        assert_eq!(linked.person, ada.id);
        assert_eq!(store.link_identity(ada.id, "signal", "bot", "+1").await.unwrap(), linked);
        assert_eq!(store.link_identity(bob.id, "signal", "bot", "+1").await.unwrap(), linked);
        assert_eq!(store.identity("signal", "bot", "+1").await.unwrap(), Some(ada));
        assert_eq!(store.identity("signal", "bot", "+2").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn wall_clock_schedules_move_with_their_person() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await;
        let conversation = talk::conversation(world, ada.id, "a").await;
        let now = store.queue.now().await.unwrap();
        let at = now.checked_add(SignedDuration::from_hours(100)).unwrap();
        let make = async |rule: Rule, zone: &str| {
            let new = NewSchedule {
                agent: MAIN_AGENT,
                conversation,
                name: None,
                note: "n".into(),
                rule,
                time_zone: zone.into(),
                origin: None,
                announce: true,
                missed: MissedPolicy::RunOnce,
            };
            store.create_schedule(ada.id, new, now).await.unwrap()
        };
        let cron = || Rule::Cron { expression: "0 9 * * *".into() };
        let moving = make(cron(), "Europe/Berlin").await;
        let elsewhere = make(cron(), "Asia/Tokyo").await;
        let every = make(Rule::Every { seconds: 3600 }, "Europe/Berlin").await;
        let once = make(Rule::At { at }, "Europe/Berlin").await;

        let change =
            PersonChange { time_zone: Some("America/New_York".into()), ..PersonChange::default() };
        let changed = store.change_person(ada.id, change).await.unwrap().unwrap();
        assert_eq!(changed.time_zone, "America/New_York");
        let find = async |id| store.schedule(ada.id, id).await.unwrap().unwrap();
        let moved = find(moving.id).await;
        assert_eq!(moved.time_zone, "America/New_York");
        let due = moved.next_due.unwrap();
        assert_eq!(
            due.to_zoned(jiff::tz::TimeZone::get("America/New_York").unwrap()).hour(),
            9,
            "nine in the morning stays nine in the morning"
        );
        assert!(due > now);
        assert_eq!(find(elsewhere.id).await, elsewhere);
        assert_eq!(find(every.id).await, every);
        assert_eq!(find(once.id).await, once);
    })
    .await;
}

#[tokio::test]
async fn a_slot_of_the_old_zone_fires_before_the_zone_moves() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await;
        let conversation = talk::conversation(world, ada.id, "a").await;
        let now = store.queue.now().await.unwrap();
        let yesterday = now.checked_sub(SignedDuration::from_hours(25)).unwrap();
        let new = NewSchedule {
            agent: MAIN_AGENT,
            conversation,
            name: None,
            note: "n".into(),
            rule: Rule::Cron { expression: "0 9 * * *".into() },
            time_zone: "Europe/Berlin".into(),
            origin: None,
            announce: true,
            missed: MissedPolicy::RunOnce,
        };
        let schedule = store.create_schedule(ada.id, new, yesterday).await.unwrap();
        let due = schedule.next_due.unwrap();
        assert!(due <= now);
        let change =
            PersonChange { time_zone: Some("Asia/Tokyo".into()), ..PersonChange::default() };
        store.change_person(ada.id, change).await.unwrap().unwrap();
        let slots = store.schedule_slots(ada.id, schedule.id, 10).await.unwrap();
        assert!(slots.iter().any(|slot| slot.turn.is_some()), "{slots:?}");
        let moved = store.schedule(ada.id, schedule.id).await.unwrap().unwrap();
        assert_eq!(moved.time_zone, "Asia/Tokyo");
        assert!(moved.next_due.unwrap() > now);
    })
    .await;
}

#[tokio::test]
async fn a_zone_that_is_none_is_refused() {
    with_store(async |world| {
        let ada = world.person("Ada").await;
        let change = PersonChange {
            name: Some("Eve".into()),
            time_zone: Some("Europe/Berlim".into()),
            language: None,
        };
        let refused = world.store.change_person(ada.id, change).await.unwrap_err();
        assert!(matches!(refused, PersonError::Zone(_)), "{refused}");
        assert_eq!(world.store.person(ada.id).await.unwrap(), Some(ada));
        let nobody = famulus_core::ids::PersonId::new();
        let change = PersonChange::default();
        assert_eq!(world.store.change_person(nobody, change).await.unwrap(), None);
    })
    .await;
}

/// Ten was the number that nobody chose; what the owner chose stays, and so do other agents.
#[tokio::test]
async fn the_main_agent_may_call_plugins_thirty_times_unless_the_owner_chose_another_number() {
    with_store(async |world| {
        let store = &world.store;
        let external = async |name: &str| {
            let agent = store.agent_by_name(name).await.unwrap().unwrap();
            agent.budgets.external
        };
        assert_eq!(external("main").await, 30, "on a new installation");
        let new = NewAgent {
            name: "cook".into(),
            prompt: String::new(),
            model: None,
            step_cap: None,
            budgets: Budgets::default(),
            tools: Grants::all(),
        };
        store.create_agent(new).await.unwrap().unwrap();
        for (stored, becomes) in [(10, 30), (7, 7), (0, 0), (200, 200)] {
            let budgets = Budgets { external: stored, ..Budgets::default() };
            let change = AgentChange { budgets: Some(budgets), ..AgentChange::default() };
            store.change_agent("main", change).await.unwrap().unwrap();
            let migration = include_str!("../../migrations/0007_plugin_calls.sql");
            sqlx::raw_sql(migration).execute(&world.admin).await.unwrap();
            assert_eq!(external("main").await, becomes);
            assert_eq!(external("cook").await, 10);
        }
    })
    .await;
}

#[tokio::test]
async fn agents_read_back_as_they_were_written() {
    with_store(async |world| {
        let store = &world.store;
        let main = store.agent_by_name("main").await.unwrap().unwrap();
        assert_eq!(main.id, MAIN_AGENT);
        assert!(main.tools.is_all());
        let new = NewAgent {
            name: "cook".into(),
            prompt: "You cook.".into(),
            model: Some("small".into()),
            step_cap: Some(0),
            budgets: Budgets { read: 1, write: 2, external: 3 },
            tools: Grants::from_names(["manage_knowledge.read"]),
        };
        let cook = store.create_agent(new.clone()).await.unwrap().unwrap();
        assert_eq!(store.create_agent(new).await.unwrap(), None, "the name is taken");
        assert_eq!(store.agent_by_name("cook").await.unwrap(), Some(cook.clone()));
        let change = AgentChange { model: Some(None), step_cap: Some(None), ..Default::default() };
        let changed = store.change_agent("cook", change).await.unwrap().unwrap();
        assert_eq!(changed.model, None);
        assert_eq!(changed.prompt, cook.prompt);
        assert_eq!(store.agents().await.unwrap(), vec![main, changed]);
        assert_eq!(store.change_agent("nobody", AgentChange::default()).await.unwrap(), None);
        // Postgres does not even compare such a name.
        assert_eq!(store.agent_by_name("co\0ok").await.unwrap(), None);
        assert_eq!(store.change_agent("co\0ok", AgentChange::default()).await.unwrap(), None);
    })
    .await;
}
