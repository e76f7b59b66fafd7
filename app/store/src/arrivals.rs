//! What platforms told, as the worker of arrivals takes it up and settles it.

use crate::{
    db::{Scope, Store},
    error::Error,
};
use famulus_core::{approval::CODE_LENGTH, crash, turn::Fence};
use famulus_lifecycle::boxed;
use famulus_queue::{Class, lane};
use std::time::Duration;
use uuid::Uuid;

/// Something that a platform told and nobody has read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredArrival {
    pub id: Uuid,
    pub channel: String,
    pub account: String,
    pub chat: String,
    pub body: Vec<u8>,
    /// What a code is made of, if it comes to one.
    pub random: [u8; CODE_LENGTH],
    /// How long ago it was stored.
    pub age: Duration,
}

impl Store {
    /// The arrival of a job, and what has come behind it in the same chat, oldest first; empty when it
    /// is gone.
    #[boxed]
    pub async fn arrivals_from(&self, id: Uuid, limit: i64) -> Result<Vec<StoredArrival>, Error> {
        let rows = sqlx::query!(
            r#"select a.id, a.channel, a.account, a.chat, a.body, a.random,
                      extract(epoch from clock_timestamp() - a.created_at)::float8 as "age!"
               from arrival f join arrival a
                   on (a.channel, a.account, a.chat) = (f.channel, f.account, f.chat) and a.id >= f.id
               where f.id = $1 order by a.id limit $2"#,
            id,
            limit,
        )
        .fetch_all(&self.relaxed)
        .await
        .map_err(Error::on("read what a platform told"))?;
        let arrivals = rows.into_iter().map(|row| StoredArrival {
            id: row.id,
            channel: row.channel,
            account: row.account,
            chat: row.chat,
            body: row.body,
            random: row.random.try_into().unwrap_or_default(),
            age: Duration::try_from_secs_f64(row.age).unwrap_or_default(),
        });
        Ok(arrivals.collect())
    }

    /// Forgets arrivals that were read, of which the first is that of the lease, and ends its job. Those
    /// of the others end when they come: what they are about is gone.
    #[boxed]
    pub async fn arrivals_read(&self, fence: &Fence, job: Uuid, ids: &[Uuid]) -> Result<(), Error> {
        let failed = || Error::on("settle what a platform told");
        let mut tx = self.begin(Scope::System).await?;
        lane::complete(&mut tx, Class::Arrival, fence, job).await?;
        sqlx::query!("delete from arrival where id = any($1)", ids)
            .execute(&mut *tx)
            .await
            .map_err(failed())?;
        crash::before("arrival.settle");
        tx.commit().await.map_err(failed())?;
        crash::after("arrival.settle");
        Ok(())
    }

    /// Gives up on an arrival, which stays for whoever looks for the cause.
    #[boxed]
    pub async fn bury_arrival(&self, fence: &Fence, job: Uuid, why: &str) -> Result<(), Error> {
        let mut tx = self.begin(Scope::System).await?;
        lane::bury(&mut tx, Class::Arrival, fence, job, &crate::codec::without_nul(why)).await?;
        crash::before("arrival.bury");
        tx.commit().await.map_err(Error::on("give up on what a platform told"))?;
        crash::after("arrival.bury");
        Ok(())
    }
}
