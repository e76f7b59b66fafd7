//! API tokens, of which the store sees the SHA-256 only.

use crate::{
    codec::{read_enum, without_nul},
    db::Store,
    error::Error,
};
use famulus_core::{
    ids::{PersonId, TokenId},
    person::{Caller, Person, Scope},
};
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use jiff::Timestamp;

/// A token without its secret, which is kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    pub id: TokenId,
    pub person: PersonId,
    pub name: String,
    pub scope: Scope,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// What the database knows of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStanding {
    Unknown,
    Valid,
    /// For good: it is never made valid again.
    Revoked,
}

impl Store {
    /// Whether the token with this SHA-256 was ever made, and still holds.
    #[boxed]
    pub async fn token_standing(&self, hash: [u8; 32]) -> Result<TokenStanding, Error> {
        let valid = sqlx::query_scalar!(
            r#"select revoked_at is null as "valid!" from token where hash = $1"#,
            &hash[..],
        )
        .fetch_optional(&self.relaxed)
        .await
        .map_err(Error::on("look a token up"))?;
        Ok(match valid {
            None => TokenStanding::Unknown,
            Some(true) => TokenStanding::Valid,
            Some(false) => TokenStanding::Revoked,
        })
    }

    /// Who holds the token with this SHA-256; `None` when there is none, or it was revoked.
    #[boxed]
    pub async fn authenticate(&self, hash: [u8; 32]) -> Result<Option<Caller>, Error> {
        let row = sqlx::query!(
            "select t.id as token, t.scope, p.id, p.name, p.role, p.time_zone, p.language
             from token t join person p on p.id = t.person_id
             where t.hash = $1 and t.revoked_at is null",
            &hash[..],
        )
        .fetch_optional(&self.relaxed)
        .await
        .map_err(Error::on("look a token up"))?;
        row.map(|row| {
            Ok(Caller {
                token: Some(TokenId(row.token)),
                scope: read_enum("a token's scope", &row.scope)?,
                person: Person {
                    id: PersonId(row.id),
                    name: row.name,
                    role: read_enum("a person's role", &row.role)?,
                    time_zone: row.time_zone,
                    language: row.language,
                },
            })
        })
        .transpose()
    }

    /// Keeps a token, of which the store sees the SHA-256 only.
    #[boxed]
    pub async fn create_token(
        &self,
        person: PersonId,
        name: &str,
        scope: Scope,
        hash: [u8; 32],
    ) -> Result<TokenId, Error> {
        let id = TokenId::new();
        sqlx::query!(
            "insert into token (id, person_id, name, scope, hash) values ($1, $2, $3, $4, $5)",
            id.0,
            person.0,
            without_nul(name),
            scope.as_str(),
            &hash[..],
        )
        .execute(&self.durable)
        .await
        .map_err(Error::on("make a token"))?;
        Ok(id)
    }

    /// The tokens of a person, or of everybody, oldest first; revoked ones too.
    #[boxed]
    pub async fn tokens(&self, person: Option<PersonId>) -> Result<Vec<TokenInfo>, Error> {
        let rows = sqlx::query!(
            r#"select id, person_id, name, scope, created_at as "created_at: Instant",
                      revoked_at as "revoked_at: Instant"
               from token where $1::uuid is null or person_id = $1 order by created_at, id"#,
            person.map(|person| person.0),
        )
        .fetch_all(&self.relaxed)
        .await
        .map_err(Error::on("read tokens"))?;
        rows.into_iter()
            .map(|row| {
                Ok(TokenInfo {
                    id: TokenId(row.id),
                    person: PersonId(row.person_id),
                    name: row.name,
                    scope: read_enum("a token's scope", &row.scope)?,
                    created_at: row.created_at.0,
                    revoked_at: row.revoked_at.map(|at| at.0),
                })
            })
            .collect()
    }

    /// Revokes a token at once; false when there is no such token, or it was revoked before.
    #[boxed]
    pub async fn revoke_token(&self, id: TokenId) -> Result<bool, Error> {
        let done = sqlx::query!(
            "update token set revoked_at = now() where id = $1 and revoked_at is null",
            id.0,
        )
        .execute(&self.durable)
        .await
        .map_err(Error::on("revoke a token"))?;
        Ok(done.rows_affected() == 1)
    }
}
