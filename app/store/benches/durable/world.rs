//! A database with people and their conversations, and the product's store on it, once or twice.

use anyhow::{Context, Result};
use famulus_core::{
    conversation::ConversationKey,
    ids::{ConversationId, PersonId},
};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_store::{Connect, MAIN_AGENT, Store};
use sqlx::{
    Executor, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{str::FromStr, time::Duration};
use uuid::Uuid;

/// Sessions for what stands in for the work of turns, and for counting.
const SESSIONS: u32 = 8;

/// How many people share the conversations evenly.
const PEOPLE: usize = 100;

pub(crate) struct World {
    /// Sessions of the superuser, whose commits wait for the disk.
    pub(crate) bench: PgPool,
    pub(crate) tasks: Tasks,
    url: String,
}

/// A conversation and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) person: PersonId,
    pub(crate) conversation: ConversationId,
    pub(crate) key: ConversationKey,
}

impl World {
    /// The schema comes from the product's own start; beside it stands the table in which a run
    /// notes what it has worked.
    pub(crate) async fn open(url: &str) -> Result<(Self, Store)> {
        // Planned as the product's sessions plan.
        let options = PgConnectOptions::from_str(url)?.options([("enable_seqscan", "off")]);
        let bench = PgPoolOptions::new().max_connections(SESSIONS).connect_lazy_with(options);
        let world = Self { bench, tasks: Tasks::new(), url: url.to_owned() };
        let store = world.instance().await?;
        world.bench.execute("create table bench_effect (job uuid primary key)").await?;
        Ok((world, store))
    }

    /// What another process of the product would be, as the product opens it.
    pub(crate) async fn instance(&self) -> Result<Store> {
        let connect = Connect::new(self.url.clone());
        let (store, background) =
            Store::connect(connect, self.tasks.token()).await.context("cannot open the store")?;
        for (name, task) in background.tasks {
            self.tasks.spawn(name, OnExit::ShutDown, task);
        }
        Ok(store)
    }

    /// Opens titled conversations that nothing was said in.
    pub(crate) async fn conversations(&self, count: usize) -> Result<Vec<Place>> {
        let people: Vec<PersonId> = (0..PEOPLE.min(count)).map(|_| PersonId::new()).collect();
        sqlx::query(
            "insert into person (id, name, role, time_zone, language)
             select id, 'somebody', 'member', 'Europe/Berlin', 'en' from unnest($1::uuid[]) as p (id)",
        )
        .bind(people.iter().map(|person| person.0).collect::<Vec<Uuid>>())
        .execute(&self.bench)
        .await?;
        let place = |number: usize| {
            let conversation = ConversationId::new();
            let key = ConversationKey(format!("agent={MAIN_AGENT}/chat={conversation}"));
            Place { person: people[number % people.len()], conversation, key }
        };
        let places: Vec<Place> = (0..count).map(place).collect();
        sqlx::query(
            "insert into conversation (id, person_id, agent_id, key, title)
             select id, person, $1, key, 'Counting sheep at night'
             from unnest($2::uuid[], $3::uuid[], $4::text[]) as c (id, person, key)",
        )
        .bind(MAIN_AGENT.0)
        .bind(places.iter().map(|place| place.conversation.0).collect::<Vec<Uuid>>())
        .bind(places.iter().map(|place| place.person.0).collect::<Vec<Uuid>>())
        .bind(places.iter().map(|place| place.key.0.clone()).collect::<Vec<String>>())
        .execute(&self.bench)
        .await?;
        self.bench.execute("vacuum analyze person, conversation").await?;
        Ok(places)
    }

    pub(crate) async fn close(self, stores: impl IntoIterator<Item = Store>) {
        let drained = self.tasks.drain(Duration::from_secs(10)).await;
        if !drained.stragglers.is_empty() {
            eprintln!("tasks did not end: {}", drained.stragglers.join(", "));
        }
        for store in stores {
            store.close().await;
        }
        self.bench.close().await;
    }
}
