//! People, their accounts on channels, and their tokens.
//!
//! These tables are the ground on which row-level security stands, so they are not under it: who
//! may read or change them is decided by the caller's scope, in front of the store.

mod tokens;

pub use tokens::{TokenInfo, TokenStanding};

use crate::{
    codec::{read_enum, without_nul},
    db::{Scope, Store},
    error::Error,
    schedules::{Rezoned, rezone},
};
use famulus_core::{
    ids::{IdentityId, PersonId},
    person::{Identity, Person, Role},
    schedule::RuleError,
};
use famulus_lifecycle::boxed;
use famulus_queue::hint::Topic;
use jiff::tz::TimeZone;
use sqlx::PgConnection;
use uuid::Uuid;

/// What a person is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPerson {
    pub name: String,
    pub role: Role,
    /// IANA name.
    pub time_zone: String,
    /// BCP 47 tag.
    pub language: String,
}

/// What may be changed of a person; `None` leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonChange {
    pub name: Option<String>,
    /// Moves the person's wall-clock schedules along, from now on.
    pub time_zone: Option<String>,
    pub language: Option<String>,
}

/// A person was not stored.
#[derive(Debug, thiserror::Error)]
pub enum PersonError {
    #[error(transparent)]
    Zone(RuleError),
    #[error(transparent)]
    Store(#[from] Error),
}

struct Row {
    id: Uuid,
    name: String,
    role: String,
    time_zone: String,
    language: String,
}

impl TryFrom<Row> for Person {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: PersonId(row.id),
            name: row.name,
            role: read_enum("a person's role", &row.role)?,
            time_zone: row.time_zone,
            language: row.language,
        })
    }
}

impl Store {
    /// The owner of this installation, made now if there is none; the second value says whether.
    ///
    /// Processes that start at the same time agree on one owner.
    #[boxed]
    pub async fn ensure_owner(
        &self,
        name: &str,
        time_zone: &str,
    ) -> Result<(Person, bool), PersonError> {
        check_zone(time_zone)?;
        let mut tx = self.durable.begin().await.map_err(Error::on("look for the owner"))?;
        if let Some(owner) = owner(&mut tx).await? {
            return Ok((owner, false));
        }
        // Shuts out others that would make an owner, not those that refer to people.
        sqlx::query!("lock table person in share row exclusive mode")
            .execute(&mut *tx)
            .await
            .map_err(Error::on("make the owner"))?;
        if let Some(owner) = owner(&mut tx).await? {
            return Ok((owner, false));
        }
        let new = NewPerson {
            name: name.to_owned(),
            role: Role::Owner,
            time_zone: time_zone.to_owned(),
            language: "en".to_owned(),
        };
        let person = insert(&mut tx, new).await?;
        tx.commit().await.map_err(Error::on("make the owner"))?;
        Ok((person, true))
    }

    /// The person, or `None`.
    #[boxed]
    pub async fn person(&self, id: PersonId) -> Result<Option<Person>, Error> {
        sqlx::query_as!(
            Row,
            "select id, name, role, time_zone, language from person where id = $1",
            id.0,
        )
        .fetch_optional(&self.relaxed)
        .await
        .map_err(Error::on("read a person"))?
        .map(Person::try_from)
        .transpose()
    }

    /// Everybody, in the order in which they were made.
    #[boxed]
    pub async fn people(&self) -> Result<Vec<Person>, Error> {
        sqlx::query_as!(
            Row,
            "select id, name, role, time_zone, language from person order by created_at, id",
        )
        .fetch_all(&self.relaxed)
        .await
        .map_err(Error::on("read people"))?
        .into_iter()
        .map(Person::try_from)
        .collect()
    }

    /// Adds a person.
    ///
    /// # Errors
    /// [`PersonError::Zone`] when the time zone is not one.
    #[boxed]
    pub async fn create_person(&self, new: NewPerson) -> Result<Person, PersonError> {
        check_zone(&new.time_zone)?;
        let mut conn = self.durable.acquire().await.map_err(Error::on("add a person"))?;
        Ok(insert(&mut conn, new).await?)
    }

    /// Changes a person; `None` when there is no such person. A new time zone takes the person's
    /// wall-clock schedules with it in the same transaction: those that were read in the old zone
    /// are due by the new one from now on.
    ///
    /// # Errors
    /// [`PersonError::Zone`] when the time zone is not one.
    #[boxed]
    pub async fn change_person(
        &self,
        id: PersonId,
        change: PersonChange,
    ) -> Result<Option<Person>, PersonError> {
        if let Some(zone) = &change.time_zone {
            check_zone(zone)?;
        }
        // A slot that is due belongs to the old zone: it is fired before the zone moves.
        for _ in 0..3 {
            match self.try_change(id, &change).await? {
                Changed::Done(person) => return Ok(person),
                Changed::SlotsAreDue => {
                    let now = self.queue.now().await.map_err(Error::from)?;
                    self.fire_due(now, 100).await?;
                }
            }
        }
        Err(PersonError::Store(Error::Unavailable {
            operation: "move the schedules while they fall due",
            source: sqlx::Error::RowNotFound,
        }))
    }

    async fn try_change(&self, id: PersonId, change: &PersonChange) -> Result<Changed, Error> {
        let failed = || Error::on("change a person");
        let mut tx = self.begin(Scope::Person(id)).await?;
        let Some(before) = sqlx::query_scalar!(
            "select time_zone from person where id = $1 for no key update",
            id.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed())?
        else {
            return Ok(Changed::Done(None));
        };
        let person = sqlx::query_as!(
            Row,
            "update person set
                 name = coalesce($2, name),
                 time_zone = coalesce($3, time_zone),
                 language = coalesce($4, language)
             where id = $1
             returning id, name, role, time_zone, language",
            id.0,
            change.name.as_deref().map(without_nul),
            change.time_zone,
            change.language.as_deref().map(without_nul),
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(failed())?;
        if person.time_zone != before {
            match rezone(&mut tx, id, &before, &person.time_zone).await? {
                Rezoned::Done => {}
                Rezoned::SlotsAreDue => {
                    // A sweep passes over what another transaction has locked.
                    tx.rollback().await.map_err(failed())?;
                    return Ok(Changed::SlotsAreDue);
                }
            }
        }
        tx.commit().await.map_err(failed())?;
        self.hints.announce(Topic::Control);
        Ok(Changed::Done(Some(person.try_into()?)))
    }

    /// Links an account on a channel to a person. An account that is linked stays as it is: the
    /// result says whose it is.
    #[boxed]
    pub async fn link_identity(
        &self,
        person: PersonId,
        channel: &str,
        account: &str,
        external_id: &str,
    ) -> Result<Identity, Error> {
        let failed = || Error::on("link an account");
        let mut tx = self.durable.begin().await.map_err(failed())?;
        sqlx::query!(
            "insert into identity (id, person_id, channel, account, external_id)
             values ($1, $2, $3, $4, $5)
             on conflict (channel, account, external_id) do nothing",
            IdentityId::new().0,
            person.0,
            channel,
            account,
            external_id,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        let row = sqlx::query!(
            "select id, person_id from identity
             where channel = $1 and account = $2 and external_id = $3",
            channel,
            account,
            external_id,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        Ok(Identity {
            id: IdentityId(row.id),
            person: PersonId(row.person_id),
            channel: channel.to_owned(),
            account: account.to_owned(),
            external_id: external_id.to_owned(),
        })
    }

    /// Whose account this is.
    #[boxed]
    pub async fn identity(
        &self,
        channel: &str,
        account: &str,
        external_id: &str,
    ) -> Result<Option<Person>, Error> {
        sqlx::query_as!(
            Row,
            "select p.id, p.name, p.role, p.time_zone, p.language
             from identity i join person p on p.id = i.person_id
             where i.channel = $1 and i.account = $2 and i.external_id = $3",
            channel,
            account,
            external_id,
        )
        .fetch_optional(&self.relaxed)
        .await
        .map_err(Error::on("look an account up"))?
        .map(Person::try_from)
        .transpose()
    }
}

/// What came of one try to change a person.
enum Changed {
    Done(Option<Person>),
    SlotsAreDue,
}

fn check_zone(zone: &str) -> Result<(), PersonError> {
    match TimeZone::get(zone) {
        Ok(_) => Ok(()),
        Err(_) => Err(PersonError::Zone(RuleError::Zone { zone: zone.to_owned() })),
    }
}

async fn owner(conn: &mut PgConnection) -> Result<Option<Person>, Error> {
    sqlx::query_as!(
        Row,
        "select id, name, role, time_zone, language from person where role = 'owner'
         order by created_at, id limit 1",
    )
    .fetch_optional(conn)
    .await
    .map_err(Error::on("look for the owner"))?
    .map(Person::try_from)
    .transpose()
}

async fn insert(conn: &mut PgConnection, new: NewPerson) -> Result<Person, Error> {
    let person = Person {
        id: PersonId::new(),
        name: without_nul(&new.name),
        role: new.role,
        time_zone: new.time_zone,
        language: without_nul(&new.language),
    };
    sqlx::query!(
        "insert into person (id, name, role, time_zone, language) values ($1, $2, $3, $4, $5)",
        person.id.0,
        person.name,
        person.role.as_str(),
        person.time_zone,
        person.language,
    )
    .execute(conn)
    .await
    .map_err(Error::on("add a person"))?;
    Ok(person)
}
