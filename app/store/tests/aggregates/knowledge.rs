//! Knowledge: written once for a call, seen by its person only.

use crate::support::with_store;
use famulus_core::{
    ids::TurnId,
    knowledge::{KnowledgeKind, KnowledgeStore, Upsert},
    message::Provenance,
    schedule::knowledge_id_of,
    tool::CallKey,
};

fn key(call: u32) -> CallKey {
    CallKey { turn: TurnId(uuid::Uuid::from_u128(9)), step: 0, call, item: 0 }
}

fn memory(body: &str) -> Upsert {
    Upsert {
        id: None,
        kind: KnowledgeKind::Memory,
        title: "no title of a memory is kept".into(),
        body: body.into(),
    }
}

#[tokio::test]
async fn a_call_writes_once_however_often_it_is_repeated() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let first = store.upsert(ada, key(0), memory("likes tea")).await.unwrap().unwrap();
        assert_eq!(first.id, knowledge_id_of(key(0)));
        assert_eq!(first.title, "");
        // The repeat returns what the call returned, even when its words differ.
        let again = store.upsert(ada, key(0), memory("likes coffee")).await.unwrap();
        assert_eq!(again, Some(first.clone()));
        let at_once = (0..6).map(|_| store.upsert(ada, key(1), memory("has a cat")));
        let at_once = futures::future::join_all(at_once).await;
        for outcome in &at_once {
            assert_eq!(outcome.as_ref().unwrap(), at_once[0].as_ref().unwrap());
        }
        assert_eq!(store.knowledge(ada).await.unwrap().len(), 2);

        assert!(store.delete(ada, key(2), first.id).await.unwrap());
        assert!(store.delete(ada, key(2), first.id).await.unwrap(), "the same call");
        assert!(!store.delete(ada, key(3), first.id).await.unwrap(), "another call");
        assert_eq!(store.read(ada, first.id).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn an_entry_is_replaced_in_its_place() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let page = Upsert {
            id: None,
            kind: KnowledgeKind::Scratchpad,
            title: "Plan".into(),
            body: "one\0two".into(),
        };
        let stored = store.write_knowledge(ada, page, Provenance::Member).await.unwrap().unwrap();
        assert_eq!(stored.body, "one\u{fffd}two", "Postgres text knows no NUL");
        store.write_knowledge(ada, memory("later"), Provenance::Member).await.unwrap();
        let new = Upsert {
            id: Some(stored.id),
            kind: KnowledgeKind::Scratchpad,
            title: "Plan B".into(),
            body: "three".into(),
        };
        let replaced = store.upsert(ada, key(0), new.clone()).await.unwrap().unwrap();
        assert_eq!((replaced.id, replaced.created_at), (stored.id, stored.created_at));
        let provenance: String =
            sqlx::query_scalar("select provenance from knowledge where id = $1")
                .bind(stored.id.0)
                .fetch_one(&world.admin)
                .await
                .unwrap();
        assert_eq!(provenance, "assistant", "whoever wrote the words answers for them");

        let digest = store.digest(ada).await.unwrap();
        assert_eq!(digest[0].title, "Plan B");
        assert_eq!(digest[0].body, "", "pages are read on demand");
        assert_eq!(digest[1].body, "later");
        let missing = Upsert { id: Some(famulus_core::ids::KnowledgeId::new()), ..new };
        assert_eq!(store.upsert(ada, key(1), missing).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn nobody_reads_or_changes_what_somebody_else_knows() {
    with_store(async |world| {
        let store = &world.store;
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        let hers = store.upsert(ada, key(0), memory("secret")).await.unwrap().unwrap();
        assert_eq!(store.digest(bob).await.unwrap(), vec![]);
        assert_eq!(store.read(bob, hers.id).await.unwrap(), None);
        let theft = Upsert { id: Some(hers.id), ..memory("mine") };
        assert_eq!(store.upsert(bob, key(1), theft).await.unwrap(), None);
        assert!(!store.delete_knowledge(bob, hers.id).await.unwrap());
        assert_eq!(store.read(ada, hers.id).await.unwrap(), Some(hers));
    })
    .await;
}
