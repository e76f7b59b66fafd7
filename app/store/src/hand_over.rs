//! What a turn leaves unread goes to another turn.
//!
//! A message may join a turn that runs. If that turn then fails, the message has been read by nobody:
//! it moves to a new turn, behind everything that is queued. *Read* means that a reply was recorded
//! behind the message; the model gets to see it before, and may answer nothing. A message moves once,
//! and the message that began a turn stays with it: its sender is told how the turn ended.

use crate::{
    db::{Scope, Store},
    error::Error,
    history::{self, Place},
};
use famulus_core::ids::{PersonId, TurnId};
use famulus_lifecycle::boxed;
use famulus_queue::{Class, Job, hint::Topic, lane};
use sqlx::PgConnection;
use uuid::Uuid;

/// Moves what the turn leaves unread (`left_unread` of the migrations) to a new turn, and returns
/// that. The turn has ended, and the caller holds the conversation's row.
pub(crate) async fn hand_over(
    conn: &mut PgConnection,
    from: Place,
) -> Result<Option<TurnId>, Error> {
    let unread = sqlx::query_scalar!(
        r#"select message as "message!" from left_unread($1) order by seq"#,
        from.turn.0,
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(Error::on("look for what the turn did not read"))?;
    let Some(first) = unread.first() else { return Ok(None) };
    let seqs = history::next_seqs(conn, from.conversation, unread.len()).await?;
    let to = TurnId::new();
    sqlx::query!(
        "insert into turn (id, conversation_id, person_id, actor_id, agent_id, ord, began_by, origin,
                           state)
         select $1, t.conversation_id, t.person_id, t.actor_id, t.agent_id, $2, m.provenance,
                coalesce(m.reply_to, t.origin), 'queued'
         from turn t, message m where t.id = $3 and m.id = $4",
        to.0,
        seqs[0],
        from.turn.0,
        first,
    )
    .execute(&mut *conn)
    .await
    .map_err(Error::on("begin a turn with what was not read"))?;
    sqlx::query!(
        "update message m
         set turn_id = $1, turn_ord = $2, seq = v.seq, seen = true, moved_from = $3
         from unnest($4::uuid[], $5::bigint[]) as v (id, seq)
         where m.conversation_id = $6 and m.turn_ord = $7 and m.id = v.id",
        to.0,
        seqs[0],
        from.turn.0,
        &unread,
        &seqs,
        from.conversation,
        from.ord,
    )
    .execute(&mut *conn)
    .await
    .map_err(Error::on("move what was not read"))?;
    sqlx::query!("update turn set successor_id = $2 where id = $1", from.turn.0, to.0)
        .execute(&mut *conn)
        .await
        .map_err(Error::on("name the turn that goes on"))?;
    let host = PersonId(from.host);
    let job = Job { id: to.0, class: Class::Turn, lane: from.conversation, person: host };
    lane::enqueue(conn, Class::Turn, &[job]).await?;
    tracing::info!(turn.id = %from.turn, successor.id = %to, messages = unread.len(),
        "what a turn did not read goes to another");
    Ok(Some(to))
}

/// Turns whose unread messages the sweep hands over at once.
const AT_ONCE: i64 = 50;

impl Store {
    /// Hands over what turns left unread that a release without this ended in the last day. Returns
    /// how many turns began.
    #[boxed]
    pub async fn hand_over_leftovers(&self) -> Result<u64, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let left: Vec<Uuid> = sqlx::query_scalar!(
            "select t.id from turn t
             where t.state in ('failed', 'cancelled') and t.successor_id is null
               and t.ended_at > now() - interval '1 day'
               and exists (select 1 from left_unread(t.id))
             order by t.ended_at limit $1",
            AT_ONCE,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("look for turns that left something unread"))?;
        tx.commit().await.map_err(Error::on("look for turns that left something unread"))?;
        let mut begun = 0;
        for turn in left {
            let mut tx = self.begin(Scope::System).await?;
            let (place, _) = history::place(&mut tx, TurnId(turn)).await?;
            begun += u64::from(hand_over(&mut tx, place).await?.is_some());
            tx.commit().await.map_err(Error::on("hand over what a turn did not read"))?;
        }
        if begun > 0 {
            self.hints.announce(Topic::Turn);
        }
        Ok(begun)
    }
}
