//! Where people are reached: the chat of each account, when it was used last, and which are closed.

use crate::{
    db::{Scope, Store, Tx},
    error::Error,
};
use famulus_core::{
    ids::{IdentityId, PersonId, TurnId},
    inbound::Address,
};
use famulus_lifecycle::boxed;
use famulus_queue::hint::Topic;
use sqlx::PgConnection;

/// The channels, as far as the store goes by them.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    /// Where people are reached.
    pub chats: Vec<String>,
    /// Whose replies stay in their conversations.
    pub kept: Vec<String>,
}

impl Store {
    /// Says which channels there are, once. Until then what schedules say goes where they were made.
    pub fn know_homes(&self, homes: Homes) {
        let _known_already = self.homes.set(homes);
    }

    pub(crate) fn homes(&self) -> Homes {
        self.homes.get().cloned().unwrap_or_default()
    }

    /// Notes that somebody wrote in the chat that is theirs alone.
    pub(crate) async fn note_chat(&self, identity: IdentityId, chat: &str) -> Result<(), Error> {
        sqlx::query!(
            "update identity set chat = $2, used_at = now(), unreachable_at = null
             where id = $1 and (chat is distinct from $2 or unreachable_at is not null
                 or used_at is null or used_at < now() - interval '1 minute')",
            identity.0,
            chat,
        )
        .execute(&self.relaxed)
        .await
        .map_err(Error::on("note where somebody wrote"))?;
        Ok(())
    }

    /// Notes that somebody wants to be reached by this account first.
    pub(crate) async fn note_home(&self, identity: IdentityId) -> Result<(), Error> {
        sqlx::query!(
            "update person p set home = i.id from identity i
             where i.id = $1 and p.id = i.person_id and p.home is distinct from i.id",
            identity.0,
        )
        .execute(&self.relaxed)
        .await
        .map_err(Error::on("note where somebody is at home"))?;
        Ok(())
    }

    /// Where a person is reached on one of these channels: their home, else where they wrote last.
    #[boxed]
    pub async fn home_of(
        &self,
        person: PersonId,
        channels: &[String],
    ) -> Result<Option<Address>, Error> {
        let mut conn = self.relaxed.acquire().await.map_err(Error::on("find where to send"))?;
        reached(&mut conn, channels, person).await
    }

    /// Notes that somebody lets us write to them again, or does not. What they are asked in a chat that
    /// they closed is asked where else they are reached.
    #[boxed]
    pub async fn may_reach(
        &self,
        channel: &str,
        account: &str,
        chat: &str,
        may: bool,
    ) -> Result<(), Error> {
        let mut tx = self.begin(Scope::System).await?;
        set_reach(&mut tx, channel, account, chat, may).await?;
        if !may {
            ask_elsewhere(&mut tx, channel, account, chat).await?;
        }
        tx.commit().await.map_err(Error::on("note who is reached"))?;
        self.hints.announce(Topic::Control);
        Ok(())
    }

    /// Where a turn came from.
    #[boxed]
    pub async fn origin_of(&self, turn: TurnId) -> Result<Option<Address>, Error> {
        let mut tx: Tx = self.begin_relaxed(Scope::System).await?;
        let origin = sqlx::query_scalar!("select origin from turn where id = $1", turn.0)
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::on("see where a turn came from"))?;
        tx.commit().await.map_err(Error::on("see where a turn came from"))?;
        let origin = origin.flatten().map(serde_json::from_value).transpose();
        origin.map_err(Error::unreadable("an address"))
    }
}

/// Their home, else where they wrote last, if it lets anything through.
pub(crate) async fn reached(
    conn: &mut PgConnection,
    channels: &[String],
    person: PersonId,
) -> Result<Option<Address>, Error> {
    let row = sqlx::query!(
        r#"select i.channel, i.account, i.chat as "chat!"
           from identity i join person p on p.id = i.person_id
           where p.id = $1 and i.channel = any($2) and i.chat is not null
               and i.unreachable_at is null
           order by i.id is not distinct from p.home desc, i.used_at desc nulls last
           limit 1"#,
        person.0,
        channels,
    )
    .fetch_optional(conn)
    .await
    .map_err(Error::on("find where to send"))?;
    Ok(row.map(|row| Address {
        channel: row.channel,
        account: row.account,
        chat: row.chat,
        thread: None,
        reply_to: None,
    }))
}

/// Has the open questions of a chat asked anew, of those who are reached in another.
async fn ask_elsewhere(
    conn: &mut PgConnection,
    channel: &str,
    account: &str,
    chat: &str,
) -> Result<(), Error> {
    sqlx::query!(
        "update approval a set question = null from outbox o
         where a.question = o.id and a.state = 'pending'
             and o.address ->> 'channel' = $1 and o.address ->> 'account' = $2
             and o.address ->> 'chat' = $3
             and exists (select 1 from identity i
                         where i.person_id = o.person_id and i.chat is not null
                             and i.unreachable_at is null)",
        channel,
        account,
        chat,
    )
    .execute(conn)
    .await
    .map_err(Error::on("have a question asked elsewhere"))?;
    Ok(())
}

/// A chat that is closed is nobody's home until they write there again.
pub(crate) async fn set_reach(
    conn: &mut PgConnection,
    channel: &str,
    account: &str,
    chat: &str,
    may: bool,
) -> Result<(), Error> {
    sqlx::query!(
        "update identity set unreachable_at = case when $4 then null else now() end
         where channel = $1 and account = $2 and chat = $3",
        channel,
        account,
        chat,
        may,
    )
    .execute(conn)
    .await
    .map_err(Error::on("note who is reached"))?;
    Ok(())
}
