//! What a start does to a database: to an empty one, and to a schema that is already there.

use crate::{
    support::{World, with_store},
    talk,
};
use famulus_queue::Class;
use famulus_store::{Connect, ConnectError, Store};
use sqlx::AssertSqlSafe;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_start_on_a_current_schema_writes_nothing_and_waits_for_nobody() {
    with_store(async |world| {
        let before = catalogue(world).await;
        let mut other = world.admin.begin().await.unwrap();
        sqlx::query("lock table famulus_start in access exclusive mode")
            .execute(&mut *other)
            .await
            .unwrap();
        let store = timeout(PATIENCE, world.another_store()).await.expect("it does not wait");
        store.close().await;
        other.rollback().await.unwrap();
        assert_eq!(catalogue(world).await, before);
    })
    .await;
}

#[tokio::test]
async fn a_start_gives_back_a_right_that_was_lost() {
    with_store(async |world| {
        for (take, asked) in [
            (
                "revoke delete on message from famulus_app",
                "select has_table_privilege('famulus_app', 'message', 'delete')",
            ),
            (
                "revoke usage on schema public from famulus_app, public",
                "select has_schema_privilege('famulus_app', 'public', 'usage')",
            ),
        ] {
            sqlx::query(take).execute(&world.admin).await.unwrap();
            assert!(!is(world, asked).await, "{take}");
            world.another_store().await.close().await;
            assert!(is(world, asked).await, "{take}");
        }
        assert!(
            !is(world, "select has_table_privilege('famulus_app', 'famulus_start', 'select')")
                .await
        );
    })
    .await;
}

#[tokio::test]
async fn a_start_refuses_powers_that_it_cannot_give_up() {
    with_store(async |world| {
        let role = format!("powerful_{}", Uuid::now_v7().simple());
        let execute = async |statement: String| {
            sqlx::query(AssertSqlSafe(statement)).execute(&world.admin).await.unwrap();
        };
        execute(format!("create role {role} login bypassrls password 'secret'")).await;
        let (_, server) =
            world.url.split_once('@').expect("FAMULUS_TEST_DATABASE_URL names a user");
        let url = format!("postgres://{role}:secret@{server}");
        let open = async || {
            Store::connect(Connect::new(url.clone()), CancellationToken::new())
                .await
                .map(|(store, _background)| store)
        };
        let refused = open().await;
        execute(format!("grant famulus_app to {role}")).await;
        let opened = open().await;
        let mut facts = None;
        if let Ok(store) = &opened {
            facts = Some(store.database_facts().await);
            store.close().await;
        }
        execute(format!("drop role {role}")).await;
        let error = refused.err().expect("it is refused").to_string();
        assert!(error.contains(&format!("GRANT famulus_app TO \"{role}\"")), "{error}");
        assert!(opened.is_ok(), "with the remedy it starts: {:?}", opened.err());
        assert_eq!(facts.unwrap().unwrap().role, "famulus_app");
    })
    .await;
}

/// Postgres lets a superuser take every role, so its start has nothing to refuse.
#[tokio::test]
async fn a_superuser_serves_without_its_powers() {
    with_store(async |world| {
        let store = &world.store;
        assert!(is(world, "select rolsuper from pg_roles where rolname = current_user").await);
        // One table for each kind of session that writes, and who wrote.
        for table in ["person", "message", "event"] {
            let add = format!("alter table {table} add writer text default current_user");
            sqlx::query(AssertSqlSafe(add)).execute(&world.admin).await.unwrap();
        }
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "a").await;
        talk::say(world, ada, conversation, "hello", Vec::new()).await;
        let lease = talk::claim(store, Class::Turn).await;
        talk::show(store, &lease, 1).await;
        let writers: Vec<String> = sqlx::query_scalar(
            "(select writer from person order by created_at desc limit 1)
             union all select writer from message union all select writer from event",
        )
        .fetch_all(&world.admin)
        .await
        .unwrap();
        assert_eq!(writers, ["famulus_app"; 3]);
        let facts = store.database_facts().await.unwrap();
        assert_eq!(facts.role, "famulus_app");
        assert!(!facts.is_superuser && !facts.bypasses_rls, "{facts:?}");
    })
    .await;
}

#[tokio::test]
async fn a_start_refuses_a_migration_that_is_not_the_one_it_knows() {
    with_store(async |world| {
        sqlx::query("update _sqlx_migrations set checksum = 'another' where version = 2")
            .execute(&world.admin)
            .await
            .unwrap();
        let opened =
            Store::connect(Connect::new(world.url.clone()), CancellationToken::new()).await;
        let error = opened.err().expect("it is refused");
        assert!(matches!(error, ConnectError::Foreign(2)), "{error}");
    })
    .await;
}

/// Where every row of the catalogue's list of tables lies: a row that is written moves.
async fn catalogue(world: &World) -> Vec<(String, String)> {
    sqlx::query_as(
        "select relname::text, ctid::text from pg_class
         where relnamespace = 'public'::regnamespace order by relname",
    )
    .fetch_all(&world.admin)
    .await
    .unwrap()
}

async fn is(world: &World, query: &'static str) -> bool {
    sqlx::query_scalar(query).fetch_one(&world.admin).await.unwrap()
}
