//! What the assistant knows of a person: memories and scratchpad pages.

use crate::{
    codec::{DbLabel, read_enum, without_nul},
    db::{Scope, Store},
    error::Error,
    idempotency,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    ids::{KnowledgeId, PersonId},
    knowledge::{Knowledge, KnowledgeKind, KnowledgeStore, Upsert},
    message::Provenance,
    schedule::knowledge_id_of,
    tool::CallKey,
};
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use sqlx::PgConnection;
use std::collections::HashMap;
use uuid::Uuid;

struct Row {
    id: Uuid,
    kind: String,
    title: String,
    body: String,
    created_at: Instant,
    updated_at: Instant,
}

impl TryFrom<Row> for Knowledge {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: KnowledgeId(row.id),
            kind: read_enum("the kind of knowledge", &row.kind)?,
            title: row.title,
            body: row.body,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
        })
    }
}

/// What is known of each of these people, without the text of scratchpad pages.
pub(crate) async fn digests(
    conn: &mut PgConnection,
    people: &[PersonId],
) -> Result<HashMap<PersonId, Vec<Knowledge>>, Error> {
    let rows = sqlx::query!(
        r#"select person_id, id, kind, title,
                  case when kind = 'scratchpad' then '' else body end as "body!",
                  created_at as "created_at: Instant", updated_at as "updated_at: Instant"
           from knowledge where person_id = any($1) order by created_at, id"#,
        &people.iter().map(|person| person.0).collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("read knowledge"))?;
    let mut digests: HashMap<PersonId, Vec<Knowledge>> = HashMap::new();
    for row in rows {
        let entry = Row {
            id: row.id,
            kind: row.kind,
            title: row.title,
            body: row.body,
            created_at: row.created_at,
            updated_at: row.updated_at,
        };
        digests.entry(PersonId(row.person_id)).or_default().push(entry.try_into()?);
    }
    Ok(digests)
}

/// For the model: writes carry the call's key.
#[async_trait]
impl KnowledgeStore for Store {
    async fn digest(&self, person: PersonId) -> Result<Vec<Knowledge>, StoreError> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let mut found = digests(&mut tx, &[person]).await?;
        tx.commit().await.map_err(Error::on("read knowledge"))?;
        Ok(found.remove(&person).unwrap_or_default())
    }

    async fn read(
        &self,
        person: PersonId,
        id: KnowledgeId,
    ) -> Result<Option<Knowledge>, StoreError> {
        Ok(self.knowledge_entry(person, id).await?)
    }

    async fn upsert(
        &self,
        person: PersonId,
        key: CallKey,
        entry: Upsert,
    ) -> Result<Option<Knowledge>, StoreError> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        if let Some(earlier) = idempotency::take(&mut tx, person, key).await? {
            return Ok(earlier);
        }
        let by = Provenance::Assistant;
        let stored = match entry.id {
            Some(id) => replace(&mut tx, person, id, &entry, by).await?,
            None => Some(insert(&mut tx, person, knowledge_id_of(key), &entry, by).await?),
        };
        idempotency::commit(tx, key, &stored).await?;
        Ok(stored)
    }

    async fn delete(
        &self,
        person: PersonId,
        key: CallKey,
        id: KnowledgeId,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        if let Some(earlier) = idempotency::take(&mut tx, person, key).await? {
            return Ok(earlier);
        }
        let was_there = delete(&mut tx, person, id).await?;
        idempotency::commit(tx, key, &was_there).await?;
        Ok(was_there)
    }
}

/// For people.
impl Store {
    /// Everything of a person, in order of creation, bodies included.
    #[boxed]
    pub async fn knowledge(&self, person: PersonId) -> Result<Vec<Knowledge>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let rows = sqlx::query_as!(
            Row,
            r#"select id, kind, title, body,
                      created_at as "created_at: Instant", updated_at as "updated_at: Instant"
               from knowledge where person_id = $1 order by created_at, id"#,
            person.0,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read knowledge"))?;
        tx.commit().await.map_err(Error::on("read knowledge"))?;
        rows.into_iter().map(Knowledge::try_from).collect()
    }

    #[boxed]
    pub async fn knowledge_entry(
        &self,
        person: PersonId,
        id: KnowledgeId,
    ) -> Result<Option<Knowledge>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let row = sqlx::query_as!(
            Row,
            r#"select id, kind, title, body,
                      created_at as "created_at: Instant", updated_at as "updated_at: Instant"
               from knowledge where id = $1 and person_id = $2"#,
            id.0,
            person.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("read knowledge"))?;
        tx.commit().await.map_err(Error::on("read knowledge"))?;
        row.map(Knowledge::try_from).transpose()
    }

    /// Adds or replaces an entry in a person's own words; `None` when the id to replace is not
    /// there. `provenance` says who wrote it.
    #[boxed]
    pub async fn write_knowledge(
        &self,
        person: PersonId,
        entry: Upsert,
        provenance: Provenance,
    ) -> Result<Option<Knowledge>, Error> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        let stored = match entry.id {
            Some(id) => replace(&mut tx, person, id, &entry, provenance).await?,
            None => Some(insert(&mut tx, person, KnowledgeId::new(), &entry, provenance).await?),
        };
        tx.commit().await.map_err(Error::on("store knowledge"))?;
        Ok(stored)
    }

    /// Deletes an entry; false when it was not there.
    #[boxed]
    pub async fn delete_knowledge(&self, person: PersonId, id: KnowledgeId) -> Result<bool, Error> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        let was_there = delete(&mut tx, person, id).await?;
        tx.commit().await.map_err(Error::on("delete knowledge"))?;
        Ok(was_there)
    }
}

async fn insert(
    conn: &mut PgConnection,
    person: PersonId,
    id: KnowledgeId,
    entry: &Upsert,
    provenance: Provenance,
) -> Result<Knowledge, Error> {
    sqlx::query_as!(
        Row,
        r#"insert into knowledge (id, person_id, kind, title, body, provenance)
           values ($1, $2, $3, $4, $5, $6)
           returning id, kind, title, body, created_at as "created_at: Instant",
                     updated_at as "updated_at: Instant""#,
        id.0,
        person.0,
        entry.kind.as_str(),
        title_of(entry),
        without_nul(&entry.body),
        provenance.label(),
    )
    .fetch_one(conn)
    .await
    .map_err(Error::on("store knowledge"))?
    .try_into()
}

/// New content for an old entry, which keeps its id and its place, and is now whoever's wrote it.
async fn replace(
    conn: &mut PgConnection,
    person: PersonId,
    id: KnowledgeId,
    entry: &Upsert,
    provenance: Provenance,
) -> Result<Option<Knowledge>, Error> {
    sqlx::query_as!(
        Row,
        r#"update knowledge set kind = $3, title = $4, body = $5, provenance = $6, updated_at = now()
           where id = $1 and person_id = $2
           returning id, kind, title, body, created_at as "created_at: Instant",
                     updated_at as "updated_at: Instant""#,
        id.0,
        person.0,
        entry.kind.as_str(),
        title_of(entry),
        without_nul(&entry.body),
        provenance.label(),
    )
    .fetch_optional(conn)
    .await
    .map_err(Error::on("store knowledge"))?
    .map(Knowledge::try_from)
    .transpose()
}

/// A memory has no title.
fn title_of(entry: &Upsert) -> String {
    match entry.kind {
        KnowledgeKind::Memory => String::new(),
        KnowledgeKind::Scratchpad => without_nul(&entry.title),
    }
}

async fn delete(conn: &mut PgConnection, person: PersonId, id: KnowledgeId) -> Result<bool, Error> {
    let done =
        sqlx::query!("delete from knowledge where id = $1 and person_id = $2", id.0, person.0)
            .execute(conn)
            .await
            .map_err(Error::on("delete knowledge"))?;
    Ok(done.rows_affected() == 1)
}
