//! Whose an account on a platform is, and strangers who asked to be let in.

use crate::{
    codec::{read_enum, without_nul},
    db::Store,
    error::Error,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError, crash,
    ids::{IdentityId, PersonId},
    pairing::{Asked, Identities, Known, MINUTES, PENDING, Stranger},
    person::{Person, Role},
};
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;

/// A stranger who has a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub stranger: Stranger,
    pub since: Timestamp,
    pub until: Timestamp,
}

/// Whom a stranger becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// Another account of somebody who is known.
    Person(PersonId),
    /// Somebody new, by this name, else by the one that they show.
    Newcomer { role: Role, name: Option<String> },
}

/// What came of a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paired {
    Done {
        person: Person,
        stranger: Box<Stranger>,
    },
    /// There is no such code, or its time is over.
    NoCode,
    NoPerson,
}

fn hash(code: &str) -> [u8; 32] {
    Sha256::digest(code.trim().to_uppercase()).into()
}

#[async_trait]
impl Identities for Store {
    async fn whose(
        &self,
        channel: &str,
        account: &str,
        external_id: &str,
    ) -> Result<Option<Known>, StoreError> {
        let mut conn = self.relaxed.acquire().await.map_err(Error::on("look an account up"))?;
        Ok(known(&mut conn, channel, account, external_id).await?)
    }

    async fn seen(&self, identity: IdentityId, chat: &str) -> Result<(), StoreError> {
        Ok(self.note_chat(identity, chat).await?)
    }

    async fn at_home(&self, identity: IdentityId) -> Result<(), StoreError> {
        Ok(self.note_home(identity).await?)
    }

    async fn kept_within_a_day(&self, person: PersonId) -> Result<u64, StoreError> {
        Ok(self.blob_bytes_within_a_day(person).await?)
    }

    async fn ask_in(&self, stranger: &Stranger, code: &str) -> Result<Asked, StoreError> {
        Ok(self.give_code(stranger, code).await?)
    }

    async fn join(&self, stranger: &Stranger, secret: &str) -> Result<Option<Known>, StoreError> {
        Ok(self.join_by(stranger, secret).await?)
    }

    async fn let_in(&self, stranger: &Stranger) -> Result<Known, StoreError> {
        Ok(self.newcomer(stranger).await?)
    }
}

impl Store {
    async fn give_code(&self, stranger: &Stranger, code: &str) -> Result<Asked, Error> {
        let failed = || Error::on("give a stranger a code");
        let Stranger { channel, account, chat, external_id, name, language } = stranger;
        let mut tx = self.durable.begin().await.map_err(failed())?;
        // One after the other, so that they are counted.
        sqlx::query!("lock table pairing in share row exclusive mode")
            .execute(&mut *tx)
            .await
            .map_err(failed())?;
        sqlx::query!("delete from pairing where expires_at <= now()")
            .execute(&mut *tx)
            .await
            .map_err(failed())?;
        sqlx::query!(
            "insert into pairing
                 (channel, account, external_id, name, language, code_hash, expires_at, chat)
             select $1, $2, $3, $4, $5, $6, now() + $7 * interval '1 minute', $9
             where (select count(*) from pairing where channel = $1 and account = $2) < $8
             on conflict do nothing",
            channel,
            account,
            external_id,
            without_nul(name),
            language.as_deref().map(without_nul),
            &hash(code)[..],
            MINUTES as f64,
            PENDING,
            chat.as_deref(),
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        let theirs = sqlx::query_scalar!(
            "select code_hash from pairing
             where channel = $1 and account = $2 and external_id = $3",
            channel,
            account,
            external_id,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed())?;
        crash::before("pairing.ask");
        tx.commit().await.map_err(failed())?;
        crash::after("pairing.ask");
        let is_theirs = theirs.is_some_and(|theirs| theirs == hash(code));
        Ok(if is_theirs { Asked::Coded } else { Asked::Silent })
    }

    async fn newcomer(&self, stranger: &Stranger) -> Result<Known, Error> {
        let failed = || Error::on("let somebody in");
        let Stranger { channel, account, external_id, .. } = stranger;
        let mut tx = self.durable.begin().await.map_err(failed())?;
        let becomes = Becomes::Newcomer { role: Role::Contact, name: None };
        link(&mut tx, stranger, &becomes).await?;
        let known = known(&mut tx, channel, account, external_id).await?;
        crash::before("pairing.let_in");
        tx.commit().await.map_err(failed())?;
        crash::after("pairing.let_in");
        known.ok_or(Error::Refused {
            operation: "let somebody in",
            source: sqlx::Error::RowNotFound,
        })
    }

    /// Strangers who have a code, the latest first.
    #[boxed]
    pub async fn pairings(&self) -> Result<Vec<Waiting>, Error> {
        let rows = sqlx::query!(
            r#"select channel, account, chat, external_id, name, language,
                      created_at as "since: Instant", expires_at as "until: Instant"
               from pairing where expires_at > now() order by created_at desc"#
        )
        .fetch_all(&self.relaxed)
        .await
        .map_err(Error::on("read who asked to be let in"))?;
        let waiting = rows.into_iter().map(|row| Waiting {
            stranger: Stranger {
                channel: row.channel,
                account: row.account,
                chat: row.chat,
                external_id: row.external_id,
                name: row.name,
                language: row.language,
            },
            since: row.since.0,
            until: row.until.0,
        });
        Ok(waiting.collect())
    }

    /// Lets in the stranger who was told this code, and uses it up.
    #[boxed]
    pub async fn pair(&self, code: &str, becomes: &Becomes) -> Result<Paired, Error> {
        let failed = || Error::on("let somebody in");
        let mut tx = self.durable.begin().await.map_err(failed())?;
        let row = sqlx::query!(
            "delete from pairing where code_hash = $1 and expires_at > now()
             returning channel, account, chat, external_id, name, language",
            &hash(code)[..],
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed())?;
        let Some(row) = row else { return Ok(Paired::NoCode) };
        let stranger = Stranger {
            channel: row.channel,
            account: row.account,
            chat: row.chat,
            external_id: row.external_id,
            name: row.name,
            language: row.language,
        };
        let Some(person) = link(&mut tx, &stranger, becomes).await? else {
            // The code is good for another try.
            return Ok(Paired::NoPerson);
        };
        crash::before("pairing.let_in");
        tx.commit().await.map_err(failed())?;
        crash::after("pairing.let_in");
        let person = self.person(person).await?;
        Ok(person.map_or(Paired::NoPerson, |person| Paired::Done {
            person,
            stranger: Box::new(stranger),
        }))
    }
}

pub(crate) async fn known(
    conn: &mut PgConnection,
    channel: &str,
    account: &str,
    external_id: &str,
) -> Result<Option<Known>, Error> {
    let row = sqlx::query!(
        r#"select i.id as identity, p.id, p.name, p.role, p.time_zone, p.language,
                  p.disabled_at is not null as "is_disabled!"
           from identity i join person p on p.id = i.person_id
           where i.channel = $1 and i.account = $2 and i.external_id = $3"#,
        channel,
        account,
        external_id,
    )
    .fetch_optional(&mut *conn)
    .await
    .map_err(Error::on("look an account up"))?;
    row.map(|row| {
        Ok(Known {
            identity: IdentityId(row.identity),
            person: Person {
                id: PersonId(row.id),
                name: row.name,
                role: read_enum("a person's role", &row.role)?,
                time_zone: row.time_zone,
                language: row.language,
            },
            is_disabled: row.is_disabled,
        })
    })
    .transpose()
}

/// Links an account to a person, who is made if they are new; `None` when there is no such person. An
/// account that is linked stays as it is.
pub(crate) async fn link(
    conn: &mut PgConnection,
    stranger: &Stranger,
    becomes: &Becomes,
) -> Result<Option<PersonId>, Error> {
    let failed = || Error::on("let somebody in");
    let Stranger { channel, account, chat, external_id, name, language } = stranger;
    let taken = known(conn, channel, account, external_id).await?;
    if let Some(known) = taken {
        return Ok(Some(known.person.id));
    }
    let person = match becomes {
        Becomes::Person(person) => {
            let found = sqlx::query_scalar!("select id from person where id = $1", person.0);
            found.fetch_optional(&mut *conn).await.map_err(failed())?
        }
        Becomes::Newcomer { role, name: chosen } => {
            let name = chosen.as_ref().unwrap_or(name);
            // Until theirs is known it is the owner's zone.
            sqlx::query_scalar!(
                "insert into person (id, name, role, time_zone, language)
                 select $1, $2, $3, owner.time_zone, coalesce($4, owner.language)
                 from person owner where owner.role = 'owner'
                 order by owner.created_at, owner.id limit 1
                 returning id",
                PersonId::new().0,
                without_nul(name),
                role.as_str(),
                language.as_deref().map(without_nul),
            )
            .fetch_optional(&mut *conn)
            .await
            .map_err(failed())?
        }
    };
    let Some(person) = person else { return Ok(None) };
    sqlx::query!(
        "insert into identity (id, person_id, channel, account, external_id, chat, used_at)
         values ($1, $2, $3, $4, $5, $6, now())",
        IdentityId::new().0,
        person,
        channel,
        account,
        external_id,
        chat.as_deref(),
    )
    .execute(&mut *conn)
    .await
    .map_err(failed())?;
    Ok(Some(PersonId(person)))
}
