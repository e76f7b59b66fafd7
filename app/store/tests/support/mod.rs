//! A store on a database of its own for every test, dropped when the test ends, however it ends.

use famulus_core::{ids::PersonId, person::Person};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_store::{Connect, NewPerson, Store};
use famulus_test_database::{Database, server};
use futures::FutureExt;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    str::FromStr,
    time::Duration,
};

/// What a test works with.
pub(crate) struct World {
    pub(crate) store: Store,
    /// Sessions of the superuser in the test's database, to whom row-level security does not apply.
    pub(crate) admin: PgPool,
    /// Where the test's database is.
    pub(crate) url: String,
    tasks: Tasks,
}

/// Runs a test in a fresh database.
pub(crate) async fn with_store<T: AsyncFnOnce(&World)>(test: T) {
    let database = Database::migrated(&server()).await.unwrap();
    let world = World::open(&database.url).await;
    let outcome = AssertUnwindSafe(test(&world)).catch_unwind().await;
    world.close().await;
    database.drop().await.unwrap();
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

impl World {
    async fn open(url: &str) -> Self {
        let url = url.to_owned();
        let tasks = Tasks::new();
        let store = open(&url, &tasks, &[]).await;
        let admin = PgPoolOptions::new()
            .max_connections(3)
            .connect_lazy_with(PgConnectOptions::from_str(&url).unwrap());
        Self { store, admin, url, tasks }
    }

    /// Another process on the same database.
    pub(crate) async fn another_store(&self) -> Store {
        open(&self.url, &self.tasks, &[]).await
    }

    /// Another process whose announcements never arrive.
    pub(crate) async fn mute_store(&self) -> Store {
        open(&self.url, &self.tasks, &["queue.notifier"]).await
    }

    /// A new person in Berlin.
    pub(crate) async fn person(&self, name: &str) -> Person {
        let new = NewPerson {
            name: name.to_owned(),
            role: famulus_core::person::Role::Member,
            time_zone: "Europe/Berlin".to_owned(),
            language: "en".to_owned(),
        };
        self.store.create_person(new).await.unwrap()
    }

    /// One number, as the superuser sees it.
    pub(crate) async fn count(&self, query: &'static str, person: PersonId) -> i64 {
        sqlx::query_scalar(query).bind(person.0).fetch_one(&self.admin).await.unwrap()
    }

    async fn close(self) {
        self.tasks.shutdown();
        let _drained = self.tasks.drain(Duration::from_secs(5)).await;
        self.store.close().await;
        self.admin.close().await;
    }
}

async fn open(url: &str, tasks: &Tasks, without: &[&str]) -> Store {
    let connect =
        Connect { durable_sessions: 4, relaxed_sessions: 3, ..Connect::new(url.to_owned()) };
    let (store, background) = Store::connect(connect, tasks.token()).await.unwrap();
    for (name, task) in background.tasks {
        if without.contains(&name) {
            continue;
        }
        tasks.spawn(name, OnExit::Log, task);
    }
    store
}
