//! Links by which somebody's own account becomes known, without a code.

use crate::{
    db::Store,
    error::Error,
    pairings::{Becomes, known, link},
};
use famulus_core::{
    crash,
    ids::PersonId,
    pairing::{INVITATION_MINUTES, Known, Stranger},
};
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// An invitation, as its link is made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// What the link begins with.
    pub link: String,
    pub until: Timestamp,
}

/// What came of inviting somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invited {
    Done(Invitation),
    /// Nobody has heard yet how its links begin, or it has none.
    NoLink,
    NoPerson,
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

impl Store {
    /// Lets whoever says the secret first, on the channel's account that was taken last, be this person.
    /// An earlier invitation of theirs there is void.
    #[boxed]
    pub async fn invite(
        &self,
        channel: &str,
        person: PersonId,
        secret: &str,
    ) -> Result<Invited, Error> {
        let failed = || Error::on("invite somebody");
        if self.person(person).await?.is_none() {
            return Ok(Invited::NoPerson);
        }
        let row = sqlx::query!(
            r#"with ours as (
                   select account, link from channel_account
                   where channel = $1 order by fence desc limit 1
               ),
               made as (
                   insert into invitation (secret_hash, channel, account, person_id, expires_at)
                   select $2, $1, account, $3, now() + $4 * interval '1 minute'
                   from ours where link is not null
                   on conflict (channel, account, person_id) do update set
                       secret_hash = excluded.secret_hash, created_at = excluded.created_at,
                       expires_at = excluded.expires_at
                   returning expires_at
               )
               select ours.link as "link!", made.expires_at as "until!: Instant" from ours, made"#,
            channel,
            &hash(secret)[..],
            person.0,
            INVITATION_MINUTES as f64,
        )
        .fetch_optional(&self.durable)
        .await
        .map_err(failed())?;
        Ok(row.map_or(Invited::NoLink, |row| {
            Invited::Done(Invitation { link: row.link, until: row.until.0 })
        }))
    }

    /// Lets a stranger be whom the secret invites, and uses it up.
    pub(crate) async fn join_by(
        &self,
        stranger: &Stranger,
        secret: &str,
    ) -> Result<Option<Known>, Error> {
        let failed = || Error::on("let somebody in by an invitation");
        let Stranger { channel, account, external_id, .. } = stranger;
        let mut tx = self.durable.begin().await.map_err(failed())?;
        let person = sqlx::query_scalar!(
            "delete from invitation
             where secret_hash = $1 and channel = $2 and account = $3 and expires_at > now()
             returning person_id",
            &hash(secret)[..],
            channel,
            account,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed())?;
        let Some(person) = person else { return Ok(None) };
        link(&mut tx, stranger, &Becomes::Person(PersonId(person))).await?;
        // A code that they were told is good for nothing any more.
        sqlx::query!(
            "delete from pairing where channel = $1 and account = $2 and external_id = $3",
            channel,
            account,
            external_id,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        let known = known(&mut tx, channel, account, external_id).await?;
        crash::before("invitation.join");
        tx.commit().await.map_err(failed())?;
        crash::after("invitation.join");
        Ok(known)
    }
}
