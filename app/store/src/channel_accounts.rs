//! Accounts of ours on platforms: which process listens to one, and from where.

use crate::{db::Store, error::Error};
use famulus_core::{
    StoreError,
    approval::CODE_LENGTH,
    inbound::Address,
    intake::{Account, Arrival},
};
use famulus_lifecycle::boxed;
use famulus_queue::{Class, Instant, Job, hint::Topic, lane};
use jiff::Timestamp;
use sqlx::PgConnection;
use std::time::Duration;
use uuid::Uuid;

/// The right of this process to listen to an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    pub channel: String,
    pub account: String,
    token: i64,
    /// Where to go on, in the platform's words.
    pub place: Option<String>,
}

struct Taken {
    fence: i64,
    place: Option<String>,
}

/// How an account stands, whichever process listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountStanding {
    pub channel: String,
    pub account: String,
    /// As the platform shows it.
    pub name: Option<String>,
    /// Somebody listens now.
    pub is_listened_to: bool,
    /// Why nothing is heard.
    pub down: Option<String>,
    pub since: Timestamp,
}

impl Store {
    /// Takes an account for this process, if nobody listens to it.
    #[boxed]
    pub async fn take_account(
        &self,
        channel: &str,
        account: &Account,
        lease: Duration,
    ) -> Result<Option<Listening>, Error> {
        let Account { id: account, name, link } = account;
        let failed = || Error::on("take an account of a channel");
        let free = sqlx::query_as!(
            Taken,
            "update channel_account set
                 listener = $3, listens_until = now() + $4 * interval '1 second',
                 fence = greatest(fence + 1, (extract(epoch from clock_timestamp()) * 1e6)::bigint),
                 name = $5, link = $6
             where channel = $1 and account = $2
                 and (listener is null or listener = $3 or listens_until < now())
             returning fence, place",
            channel,
            account,
            self.queue.worker.0,
            lease.as_secs_f64(),
            name.as_deref(),
            link.as_deref(),
        )
        .fetch_optional(&self.durable)
        .await
        .map_err(failed())?;
        // Of an account that another process has nothing is written: who stands by asks each second.
        let taken = match free {
            Some(taken) => Some(taken),
            None => sqlx::query_as!(
                Taken,
                "insert into channel_account
                     (channel, account, listener, listens_until, fence, name, link)
                 values ($1, $2, $3, now() + $4 * interval '1 second',
                         (extract(epoch from clock_timestamp()) * 1e6)::bigint, $5, $6)
                 on conflict (channel, account) do nothing
                 returning fence, place",
                channel,
                account,
                self.queue.worker.0,
                lease.as_secs_f64(),
                name.as_deref(),
                link.as_deref(),
            )
            .fetch_optional(&self.durable)
            .await
            .map_err(failed())?,
        };
        if taken.is_some() {
            // Which account it is is known now.
            sqlx::query!(
                "delete from channel_account where channel = $1 and account = ''",
                channel
            )
            .execute(&self.durable)
            .await
            .map_err(failed())?;
        }
        Ok(taken.map(|Taken { fence, place }| Listening {
            channel: channel.to_owned(),
            account: account.clone(),
            token: fence,
            place,
        }))
    }

    /// Goes on listening for so long from now.
    ///
    /// # Errors
    /// [`Error::LeaseLost`]: another process listens, or may.
    #[boxed]
    pub async fn hold_account(&self, listening: &Listening, lease: Duration) -> Result<(), Error> {
        let done = sqlx::query!(
            "update channel_account set listens_until = now() + $5 * interval '1 second'
             where channel = $1 and account = $2 and listener = $3 and fence = $4",
            listening.channel,
            listening.account,
            self.queue.worker.0,
            listening.token,
            lease.as_secs_f64(),
        )
        .execute(&self.relaxed)
        .await
        .map_err(Error::on("hold an account of a channel"))?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(Error::LeaseLost) }
    }

    /// Lets another process listen at once.
    #[boxed]
    pub async fn leave_account(&self, listening: &Listening) -> Result<(), Error> {
        sqlx::query!(
            "update channel_account set listener = null, listens_until = null
             where channel = $1 and account = $2 and listener = $3 and fence = $4",
            listening.channel,
            listening.account,
            self.queue.worker.0,
            listening.token,
        )
        .execute(&self.durable)
        .await
        .map_err(Error::on("leave an account of a channel"))?;
        Ok(())
    }

    /// Says why nothing is heard of a channel of which it is not known which account it is. Where one
    /// is listened to it is said of that one.
    #[boxed]
    pub async fn channel_is_down(&self, channel: &str, down: &str) -> Result<(), Error> {
        sqlx::query!(
            "insert into channel_account (channel, account, down)
             select $1, '', $2
             where not exists (select 1 from channel_account where channel = $1 and account <> '')
             on conflict (channel, account) do update set
                 since = case when channel_account.down is distinct from excluded.down then now()
                              else channel_account.since end,
                 down = excluded.down",
            channel,
            down,
        )
        .execute(&self.relaxed)
        .await
        .map_err(Error::on("say how a channel stands"))?;
        sqlx::query!(
            "update channel_account set since = now(), down = $2
             where channel = $1 and account <> '' and down is distinct from $2
                 and (listens_until is null or listens_until < now())",
            channel,
            down,
        )
        .execute(&self.relaxed)
        .await
        .map_err(Error::on("say how a channel stands"))?;
        Ok(())
    }

    /// Says why nothing is heard, or that all is well.
    #[boxed]
    pub async fn account_is(&self, listening: &Listening, down: Option<&str>) -> Result<(), Error> {
        sqlx::query!(
            "update channel_account set
                 since = case when down is distinct from $5 then now() else since end, down = $5
             where channel = $1 and account = $2 and listener = $3 and fence = $4
                 and down is distinct from $5",
            listening.channel,
            listening.account,
            self.queue.worker.0,
            listening.token,
            down,
        )
        .execute(&self.relaxed)
        .await
        .map_err(Error::on("say how an account of a channel stands"))?;
        Ok(())
    }

    /// How the channels stand: of each the account that was taken last. Who changes a bot has an older one,
    /// which nobody will listen to again.
    #[boxed]
    pub async fn accounts(&self) -> Result<Vec<AccountStanding>, Error> {
        let rows = sqlx::query!(
            r#"select distinct on (channel) channel, account, name, down, since as "since: Instant",
                      coalesce(listens_until > now(), false) as "is_listened_to!"
               from channel_account order by channel, fence desc"#
        )
        .fetch_all(&self.relaxed)
        .await
        .map_err(Error::on("read the accounts of channels"))?;
        let standing = rows.into_iter().map(|row| AccountStanding {
            channel: row.channel,
            account: row.account,
            name: row.name,
            is_listened_to: row.is_listened_to,
            down: row.down,
            since: row.since.0,
        });
        Ok(standing.collect())
    }

    /// Stores what was heard, each once, with the place behind it. After this the platform may forget it. What
    /// has no place is told to nobody again, and is stored whoever listens.
    ///
    /// # Errors
    /// Nothing was stored. [`StoreError::LeaseLost`]: another process listens, and there is a place.
    #[boxed]
    pub async fn keep_arrivals(
        &self,
        listening: &Listening,
        arrivals: &[Arrival],
        place: Option<&str>,
    ) -> Result<(), StoreError> {
        self.keep(listening, arrivals, place).await.map_err(StoreError::from)
    }

    async fn keep(
        &self,
        listening: &Listening,
        arrivals: &[Arrival],
        place: Option<&str>,
    ) -> Result<(), Error> {
        let failed = || Error::on("keep what a platform told");
        let Listening { channel, account, .. } = listening;
        let mut tx = self.durable.begin().await.map_err(failed())?;
        if let Some(place) = place {
            self.go_on(&mut tx, listening, place).await?;
        }
        let ids: Vec<Uuid> = arrivals.iter().map(|_| Uuid::now_v7()).collect();
        let stored = sqlx::query!(
            "insert into arrival (id, channel, account, key, chat, body, random)
             select a.id, $1, $2, a.key, a.chat, a.body, a.random
             from unnest($3::uuid[], $4::text[], $5::text[], $6::bytea[], $7::bytea[])
                 as a (id, key, chat, body, random)
             on conflict (channel, account, key) do nothing
             returning id, chat",
            channel,
            account,
            &ids,
            &arrivals.iter().map(|one| one.key.clone()).collect::<Vec<_>>(),
            &arrivals.iter().map(|one| one.chat.clone()).collect::<Vec<_>>(),
            &arrivals.iter().map(|one| one.body.clone()).collect::<Vec<_>>(),
            &arrivals.iter().map(|_| random().to_vec()).collect::<Vec<_>>(),
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(failed())?;
        let mut jobs: Vec<Job> = stored
            .into_iter()
            .map(|row| Job {
                id: row.id,
                class: Class::Arrival,
                lane: lane_of(channel, account, &row.chat),
                person: crate::NOBODY,
            })
            .collect();
        // In the order in which they were told.
        jobs.sort_by_key(|job| job.id);
        lane::enqueue(&mut tx, Class::Arrival, &jobs).await?;
        famulus_core::crash::before("arrival.keep");
        tx.commit().await.map_err(failed())?;
        famulus_core::crash::after("arrival.keep");
        self.hints.announce(Topic::Arrival);
        Ok(())
    }

    /// Moves the place. Only whoever listens may.
    async fn go_on(
        &self,
        conn: &mut PgConnection,
        listening: &Listening,
        place: &str,
    ) -> Result<(), Error> {
        let Listening { channel, account, token, .. } = listening;
        let held = sqlx::query!(
            "update channel_account set place = $5
             where channel = $1 and account = $2 and listener = $3 and fence = $4",
            channel,
            account,
            self.queue.worker.0,
            token,
            place,
        )
        .execute(conn)
        .await
        .map_err(Error::on("keep what a platform told"))?;
        if held.rows_affected() == 1 { Ok(()) } else { Err(Error::LeaseLost) }
    }
}

/// What a code is made of.
fn random() -> [u8; CODE_LENGTH] {
    rand::random()
}

/// What happens in one chat is read in its order.
fn lane_of(channel: &str, account: &str, chat: &str) -> Uuid {
    let address = Address {
        channel: channel.to_owned(),
        account: account.to_owned(),
        chat: chat.to_owned(),
        thread: None,
        reply_to: None,
    };
    address.lane()
}
