//! What a start does to a database: to an empty one, and to a schema that is already there.

use crate::support::{World, with_database, with_store};
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
async fn processes_that_start_together_agree_on_schema_and_owner() {
    with_database("", async |url| {
        let start = async |_| {
            let connect = Connect::new(url.to_owned());
            let (store, _background) =
                Store::connect(connect, CancellationToken::new()).await.unwrap();
            let owner = store.ensure_owner("Ada", "Europe/Berlin").await.unwrap();
            store.close().await;
            owner
        };
        let owners = futures::future::join_all((0..4).map(start)).await;
        assert_eq!(owners.iter().filter(|(_, made)| *made).count(), 1);
        assert!(owners.iter().all(|(owner, _)| owner.id == owners[0].0.id));
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
        if let Ok(store) = &opened {
            store.close().await;
        }
        execute(format!("drop role {role}")).await;
        let error = refused.err().expect("it is refused").to_string();
        assert!(error.contains(&format!("GRANT famulus_app TO \"{role}\"")), "{error}");
        assert!(opened.is_ok(), "with the remedy it starts: {:?}", opened.err());
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
