//! Messages that their senders want gone: they go when their time is over, with what was answered.
//!
//! The time runs from the end of the turn: by then it was read. A reply that is still on its way is waited
//! for. The turn itself stays, without a word of it, and so does what somebody had remembered.

use crate::{
    db::{Scope, Store, Tx},
    error::Error,
};
use famulus_core::ids::MessageId;
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use jiff::Timestamp;
use std::{collections::BTreeSet, time::Duration};
use uuid::Uuid;

/// Turns of one transaction.
const BATCH: i64 = 100;

/// How much vanished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vanished {
    pub turns: u64,
    pub messages: u64,
    pub files: u64,
}

impl Store {
    /// See [`famulus_core::accept::Accept::vanishes`].
    pub(crate) async fn let_vanish(
        &self,
        message: MessageId,
        after: Duration,
    ) -> Result<(), Error> {
        let failed = || Error::on("note that a message is to vanish");
        let mut tx = self.begin(Scope::System).await?;
        sqlx::query!(
            "update message set vanishes_after = $2 where id = $1",
            message.0,
            i32::try_from(after.as_secs()).unwrap_or(i32::MAX).max(1),
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())
    }

    /// Deletes what is to be gone at `now`, by batches.
    #[boxed]
    pub async fn vanish(&self, now: Timestamp) -> Result<Vanished, Error> {
        let mut all = Vanished::default();
        loop {
            // What a crash brings back goes next time.
            let mut tx = self.begin_relaxed(Scope::System).await?;
            let gone = some(&mut tx, Instant(now)).await?;
            tx.commit().await.map_err(failed())?;
            all.turns += gone.turns;
            all.messages += gone.messages;
            all.files += gone.files;
            if gone.turns < BATCH as u64 {
                return Ok(all);
            }
        }
    }
}

fn failed() -> impl FnOnce(sqlx::Error) -> Error {
    Error::on("let messages vanish")
}

async fn some(tx: &mut Tx, now: Instant) -> Result<Vanished, Error> {
    let due = sqlx::query!(
        r#"select distinct t.id as "turn!", t.conversation_id as "conversation!"
           from message m join turn t on t.id = m.turn_id
           where m.vanishes_after is not null
             and t.ended_at + m.vanishes_after * interval '1 second' <= $1
             and not exists (select 1 from outbox o where o.turn_id = t.id and o.ended_at is null)
           limit $2"#,
        now as _,
        BATCH,
    )
    .fetch_all(&mut **tx)
    .await
    .map_err(failed())?;
    if due.is_empty() {
        return Ok(Vanished::default());
    }
    let turns: Vec<Uuid> = due.iter().map(|row| row.turn).collect();
    let conversations: Vec<Uuid> = due.iter().map(|row| row.conversation).collect();
    sqlx::query_scalar!(
        r#"select 1 as "one!" from conversation where id = any($1) order by id for no key update"#,
        &conversations,
    )
    .fetch_all(&mut **tx)
    .await
    .map_err(failed())?;
    // One that is tried again has not ended any more.
    let going = sqlx::query!(
        "select m.id, m.turn_id from message m join turn t on t.id = m.turn_id
         where m.turn_id = any($1) and t.ended_at is not null
           and (m.role <> 'user' or t.ended_at + m.vanishes_after * interval '1 second' <= $2)",
        &turns,
        now as _,
    )
    .fetch_all(&mut **tx)
    .await
    .map_err(failed())?;
    let messages: Vec<Uuid> = going.iter().map(|row| row.id).collect();
    let turns: BTreeSet<Uuid> = going.iter().map(|row| row.turn_id).collect();
    let turns: Vec<Uuid> = turns.into_iter().collect();
    let files = said(tx, &messages).await?;
    done(tx, &turns, &conversations).await?;
    Ok(Vanished { turns: turns.len() as u64, messages: messages.len() as u64, files })
}

/// Deletes messages, and files that only they had. How many files.
async fn said(tx: &mut Tx, messages: &[Uuid]) -> Result<u64, Error> {
    let files = sqlx::query_scalar!(
        "delete from message_blob where message_id = any($1) returning blob_id",
        messages,
    )
    .fetch_all(&mut **tx)
    .await
    .map_err(failed())?;
    sqlx::query!("delete from message where id = any($1)", messages)
        .execute(&mut **tx)
        .await
        .map_err(failed())?;
    let gone = sqlx::query!(
        "delete from blob b where b.id = any($1)
           and not exists (select 1 from message_blob m where m.blob_id = b.id)",
        &files,
    )
    .execute(&mut **tx)
    .await
    .map_err(failed())?;
    Ok(gone.rows_affected())
}

/// Deletes what was done in turns, and what was shown and sent of it.
async fn done(tx: &mut Tx, turns: &[Uuid], conversations: &[Uuid]) -> Result<(), Error> {
    // What a keyed write returned is asked for by a turn that is taken up again, which this one is not.
    sqlx::query!(
        "with calls as (
             delete from tool_call where turn_id = any($1) returning turn_id, step, call, item)
         delete from effect
         where key in (select concat_ws('.', turn_id, step, call, item) from calls)",
        turns,
    )
    .execute(&mut **tx)
    .await
    .map_err(failed())?;
    sqlx::query!("delete from approval where turn_id = any($1)", turns)
        .execute(&mut **tx)
        .await
        .map_err(failed())?;
    sqlx::query!(
        "delete from event where conversation_id = any($1) and turn_id = any($2)",
        conversations,
        turns,
    )
    .execute(&mut **tx)
    .await
    .map_err(failed())?;
    // What nobody could deliver, or answer, is not tried again either.
    sqlx::query!(
        "with gone as (delete from outbox where turn_id = any($1) returning id)
         delete from queue_job where dead and (id = any($1) or id in (select id from gone))",
        turns,
    )
    .execute(&mut **tx)
    .await
    .map_err(failed())?;
    Ok(())
}
