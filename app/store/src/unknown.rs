//! Messages of which nobody knows whether they arrived, so that somebody is told.

use crate::{
    codec::decode,
    db::{Scope, Store},
    error::Error,
};
use famulus_core::{ids::OutboundId, inbound::Address};
use famulus_lifecycle::boxed;
use serde::Deserialize;

/// A reply that may have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOutcome {
    pub id: OutboundId,
    pub to: Address,
    /// For whom it is: whoever holds the account in that chat, else whose conversation it is.
    pub person: String,
    pub markdown: String,
    /// How often it was begun to be sent: it is told again when it is unknown again.
    pub attempts: i32,
    /// It tells of something itself: telling of it could go on for ever.
    pub is_notice: bool,
}

#[derive(Deserialize)]
struct Body {
    markdown: String,
}

impl Store {
    /// Replies of which nobody knows whether they arrived, and of which nobody was told.
    #[boxed]
    pub async fn untold_outcomes(&self, limit: i64) -> Result<Vec<UnknownOutcome>, Error> {
        let failed = || Error::on("look for messages that may have arrived");
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let rows = sqlx::query!(
            r#"select o.id, o.address, o.body, o.attempts,
                      coalesce((select r.name from identity i join person r on r.id = i.person_id
                                where i.channel = o.address ->> 'channel'
                                    and i.account = o.address ->> 'account'
                                    and i.chat = o.address ->> 'chat' limit 1), p.name)
                          as "name!",
                      exists (select 1 from message m
                              where m.conversation_id = t.conversation_id and m.turn_ord = t.ord
                                  and m.turn_id = t.id and m.provenance = 'system'
                                  and m.external_id like 'notice %')
                          as "is_notice!"
               from outbox o join person p on p.id = o.person_id join turn t on t.id = o.turn_id
               where o.state = 'unknown' and not o.outcome_told and o.turn_id is not null
               order by o.id limit $1"#,
            limit,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        rows.into_iter()
            .map(|row| {
                let Body { markdown, .. } = decode("an outbound message", &row.body)?;
                Ok(UnknownOutcome {
                    id: OutboundId(row.id),
                    to: serde_json::from_value(row.address)
                        .map_err(Error::unreadable("an address"))?,
                    person: row.name,
                    markdown,
                    attempts: row.attempts,
                    is_notice: row.is_notice,
                })
            })
            .collect()
    }

    /// Records that somebody was told, or need not be.
    #[boxed]
    pub async fn outcome_told(&self, id: OutboundId) -> Result<(), Error> {
        let mut tx = self.begin(Scope::System).await?;
        sqlx::query!("update outbox set outcome_told = true where id = $1", id.0)
            .execute(&mut *tx)
            .await
            .map_err(Error::on("record what was told of a message"))?;
        tx.commit().await.map_err(Error::on("record what was told of a message"))
    }
}
