//! Events on their way into the table. Who reads them: `event_table.rs`.
//!
//! All turns of a process share one writer with a session of its own, whose commits do not wait for
//! the disk. When that session breaks, its number (the generation) changes, and every turn stores
//! again what it has not seen confirmed by a durable step: a crash of Postgres may have forgotten it.

use crate::{
    codec::encode,
    db::{Scope, Store, persons},
    error::Error,
    opening::{Role, session_options, take_role},
};
use async_trait::async_trait;
use famulus_core::{
    StoreError, crash,
    event::{Appended, Envelope, EventLog},
    ids::PersonId,
};
use famulus_queue::hint::{Hints, Topic};
use futures::future::BoxFuture;
use sqlx::{AssertSqlSafe, Connection, PgConnection, postgres::PgConnectOptions};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Appends gathered into one statement, at most.
const GATHER: usize = 256;
/// Appends that may wait; beyond that, turns wait for a place.
const WAITING: usize = 1024;

struct Append {
    person: PersonId,
    events: Vec<Arc<Envelope>>,
    session: Option<u64>,
    stored: oneshot::Sender<Result<Appended, Arc<Error>>>,
}

impl Append {
    /// Whether what its turn stored before was stored by this session.
    fn knows(&self, session: u64) -> bool {
        self.session.is_none_or(|known| known == session)
    }
}

#[derive(Clone)]
pub(crate) struct EventWriter {
    queue: mpsc::Sender<Append>,
}

impl EventWriter {
    pub(crate) fn start(
        options: PgConnectOptions,
        role: Role,
        hints: Hints,
        shutdown: CancellationToken,
    ) -> (Self, BoxFuture<'static, ()>) {
        let (queue, waiting) = mpsc::channel(WAITING);
        let session = Session { options, role, conn: None, generation: 0 };
        (Self { queue }, Box::pin(run(session, hints, waiting, shutdown)))
    }
}

#[async_trait]
impl EventLog for Store {
    async fn append(
        &self,
        person: PersonId,
        events: Vec<Arc<Envelope>>,
        session: Option<u64>,
    ) -> Result<Appended, StoreError> {
        let gone = || StoreError::Unavailable("the event writer has stopped".into());
        let (stored, told) = oneshot::channel();
        crash::before("event.append");
        self.events
            .queue
            .send(Append { person, events, session, stored })
            .await
            .map_err(|_| gone())?;
        let appended = told
            .await
            .map_err(|_| gone())?
            .map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        crash::after("event.append");
        Ok(appended)
    }
}

struct Session {
    options: PgConnectOptions,
    role: Role,
    conn: Option<PgConnection>,
    generation: u64,
}

async fn run(
    mut session: Session,
    hints: Hints,
    mut waiting: mpsc::Receiver<Append>,
    shutdown: CancellationToken,
) {
    loop {
        let mut gathered = Vec::new();
        let count = tokio::select! {
            count = waiting.recv_many(&mut gathered, GATHER) => count,
            () = shutdown.cancelled() => {
                waiting.close();
                waiting.recv_many(&mut gathered, GATHER).await
            }
        };
        if count == 0 {
            return;
        }
        let result = session.store(&gathered).await.map_err(Arc::new);
        let generation = session.generation;
        if result.is_ok() {
            hints.announce(Topic::Event);
        } else {
            session.conn = None;
        }
        for append in gathered {
            // A turn that was cancelled meanwhile no longer waits.
            let outcome = result.clone().map(|()| {
                if append.knows(generation) {
                    Appended::Stored(generation)
                } else {
                    Appended::NewSession(generation)
                }
            });
            let _gone = append.stored.send(outcome);
        }
    }
}

impl Session {
    async fn store(&mut self, appends: &[Append]) -> Result<(), Error> {
        if self.conn.is_none() {
            let mut conn = PgConnection::connect_with(&session_options(&self.options, "off"))
                .await
                .map_err(Error::on("open a session"))?;
            take_role(&mut conn, self.role).await.map_err(Error::on("take its role"))?;
            self.conn = Some(conn);
            self.generation += 1;
        }
        let Some(conn) = self.conn.as_mut() else { return Ok(()) };
        let generation = self.generation;
        let current: Vec<&Append> =
            appends.iter().filter(|append| append.knows(generation)).collect();
        if current.is_empty() {
            return Ok(());
        }
        let people: Vec<PersonId> = current.iter().map(|append| append.person).collect();
        let statement =
            format!("begin; set local famulus.persons = '{}'", persons(Scope::Persons(&people)));
        let mut tx = conn
            .begin_with(AssertSqlSafe(statement))
            .await
            .map_err(Error::on("begin a transaction"))?;
        let events: Vec<(PersonId, Arc<Envelope>)> = current
            .iter()
            .flat_map(|append| append.events.iter().map(|event| (append.person, Arc::clone(event))))
            .collect();
        insert(&mut tx, &events).await?;
        tx.commit().await.map_err(Error::on("store events"))
    }
}

/// Inserts events whose token is still the lane's; storing one again changes nothing.
pub(crate) async fn insert(
    conn: &mut PgConnection,
    events: &[(PersonId, Arc<Envelope>)],
) -> Result<(), Error> {
    let mut conversations: Vec<Uuid> = Vec::new();
    let mut fences: Vec<i64> = Vec::new();
    let mut numbers: Vec<i64> = Vec::new();
    let mut persons: Vec<Uuid> = Vec::new();
    let mut turns: Vec<Uuid> = Vec::new();
    let mut data: Vec<Vec<u8>> = Vec::new();
    for (person, envelope) in events {
        let Some(turn) = envelope.event.turn() else { continue };
        conversations.push(envelope.conversation.0);
        fences.push(envelope.id.fence);
        numbers.push(envelope.id.number);
        persons.push(person.0);
        turns.push(turn.0);
        data.push(encode("an event", envelope.as_ref())?);
    }
    if data.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"
        insert into event (conversation_id, fence, number, person_id, turn_id, data)
        select e.* from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::uuid[],
                               $6::bytea[])
            as e (conversation, fence, number, person, turn, data)
        -- Not as a join: see `session_options`.
        where e.fence = (select l.fence from queue_lane l
                         where l.class = 'turn' and l.id = e.conversation)
        on conflict (conversation_id, fence, number) do nothing
        "#,
        &conversations,
        &fences,
        &numbers,
        &persons,
        &turns,
        &data,
    )
    .execute(conn)
    .await
    .map_err(Error::on("store events"))?;
    Ok(())
}

/// Inserts events of one person's conversation.
pub(crate) async fn insert_for(
    conn: &mut PgConnection,
    person: PersonId,
    events: Vec<Arc<Envelope>>,
) -> Result<(), Error> {
    let events: Vec<_> = events.into_iter().map(|event| (person, event)).collect();
    insert(conn, &events).await
}
