//! Turns that begin, or end, at the same moment share a transaction, and nothing else.

use crate::{
    support::{World, with_store},
    talk,
};
use famulus_core::{
    StoreError,
    accept::Accept as _,
    ids::{ConversationId, PersonId, TurnId},
    inbound::{Inbound, Meeting, Target},
    knowledge::{KnowledgeKind, KnowledgeStore, Upsert},
    tool::CallKey,
    turn::{Ended, Fence, LoadedTurn, TurnLog},
};
use famulus_queue::{Class, Lease};
use futures::future::join_all;

/// Turns that are due, each of a person and conversation of its own, in the order of the names.
async fn due(world: &World, names: &[&str]) -> Vec<(PersonId, Lease)> {
    let mut turns = Vec::new();
    for name in names {
        let person = world.person(name).await.id;
        let conversation = talk::conversation(world, person, name).await;
        talk::say(world, person, conversation, &format!("I am {name}"), Vec::new()).await;
        turns.push((person, talk::claim(&world.store, Class::Turn).await));
    }
    turns
}

async fn begin(
    world: &World,
    fences: &[Fence],
    turns: &[(PersonId, Lease)],
) -> Vec<Result<LoadedTurn, StoreError>> {
    let both = fences.iter().zip(turns);
    join_all(both.map(|(fence, (_, lease))| world.store.take_up(fence, TurnId(lease.job.id)))).await
}

#[tokio::test]
async fn turns_that_begin_together_have_each_their_own() {
    with_store(async |world| {
        let names = ["Ada", "Bob", "Cy", "Dee", "Eve", "Flo"];
        let turns = due(world, &names).await;
        for ((person, lease), name) in turns.iter().zip(names) {
            let entry = Upsert {
                id: None,
                kind: KnowledgeKind::Memory,
                title: String::new(),
                body: format!("{name} likes tea"),
            };
            let turn = TurnId(lease.job.id);
            let key = CallKey { turn, step: 0, call: 0, item: 0 };
            world.store.upsert(*person, key, entry).await.unwrap();
        }
        let mut fences: Vec<Fence> = turns.iter().map(|(_, lease)| lease.fence).collect();
        // What was leased to Cy's worker has passed to another.
        fences[2].token -= 1;
        let loaded = begin(world, &fences, &turns).await;
        for (place, ((loaded, name), (person, lease))) in
            loaded.into_iter().zip(names).zip(&turns).enumerate()
        {
            if place == 2 {
                assert!(matches!(loaded, Err(StoreError::LeaseLost)), "{loaded:?}");
                continue;
            }
            let loaded = loaded.unwrap();
            assert_eq!((loaded.id.0, loaded.person.id), (lease.job.id, *person));
            let said: Vec<String> = loaded.history.iter().map(|message| message.text()).collect();
            assert!(said.len() == 1 && said[0].contains(&format!("I am {name}")), "{said:?}");
            let known = loaded.knowledge.expect("the main agent carries it");
            let bodies: Vec<&str> = known.iter().map(|entry| entry.body.as_str()).collect();
            assert_eq!(bodies, [format!("{name} likes tea")]);
        }
        let running = "select count(*) from turn where state = 'running' and person_id = $1";
        assert_eq!(world.count(running, turns[2].0).await, 0, "nothing begins without its lease");
        assert_eq!(world.count(running, turns[3].0).await, 1);
    })
    .await;
}

#[tokio::test]
async fn turns_that_end_together_share_no_fate() {
    with_store(async |world| {
        let store = &world.store;
        let names = ["Ada", "Bob", "Cy", "Dee", "Eve", "Flo", "Gus", "Hal"];
        let turns = due(world, &names).await;
        let fences: Vec<Fence> = turns.iter().map(|(_, lease)| lease.fence).collect();
        for loaded in begin(world, &fences, &turns).await {
            loaded.unwrap();
        }
        // Bob writes on while his turn runs.
        let (bob, his) = &turns[1];
        let target = Target::Existing(ConversationId(his.fence.lane));
        let more = Inbound { meeting: Meeting::Steer, ..talk::message(*bob, target, "and tea") };
        store.accept(more).await.unwrap();

        let mut endings: Vec<_> = turns
            .iter()
            .zip(names)
            .map(|((_, lease), name)| {
                let error = (name == "Dee").then_some("it broke");
                (lease.fence, talk::ending(lease, &format!("Hello {name}"), error, &["http"]))
            })
            .collect();
        // The lease of Cy's turn has passed to another, and of Eve's message there is one already.
        endings[2].0.token -= 1;
        let taken = endings[0].1.message.as_ref().unwrap().id;
        endings[4].1.message.as_mut().unwrap().id = taken;
        let ended =
            join_all(endings.iter().map(|(fence, ending)| store.finish(fence, ending.clone())))
                .await;

        let state = async |place: usize| -> String {
            sqlx::query_scalar("select state from turn where id = $1")
                .bind(turns[place].1.job.id)
                .fetch_one(&world.admin)
                .await
                .unwrap()
        };
        let said = "select count(*) from message where role = 'assistant' and person_id = $1";
        for (place, ended) in ended.into_iter().enumerate() {
            let replies = world.count(said, turns[place].0).await;
            let seen = (state(place).await, replies);
            match (names[place], ended) {
                ("Bob", Ok(Ended::Steered(news))) => {
                    let texts: Vec<String> = news.iter().map(|message| message.text()).collect();
                    assert!(texts[0].contains("Hello Bob") && texts[1].contains("and tea"));
                    assert_eq!((texts.len(), seen), (2, ("running".into(), 1)));
                }
                ("Cy", Err(StoreError::LeaseLost)) | ("Eve", Err(StoreError::Refused(_))) => {
                    assert_eq!(seen, ("running".into(), 0));
                }
                ("Dee", Ok(Ended::Done)) => assert_eq!(seen, ("failed".into(), 1)),
                (_, Ok(Ended::Done)) => assert_eq!(seen, ("complete".into(), 1)),
                (name, ended) => panic!("{name}: {ended:?}"),
            }
        }
        let replies: i64 = sqlx::query_scalar("select count(*) from outbox")
            .fetch_one(&world.admin)
            .await
            .unwrap();
        assert_eq!(replies, 5, "one for each turn that ended");
    })
    .await;
}
