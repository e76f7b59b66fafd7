//! How the turns of a schedule end, and what three failures in a row lead to.

use super::read_address;
use crate::{
    codec::without_nul,
    db::{Scope, persons},
    error::Error,
    history,
    outbox::{self, Sending},
    sweep::NOWHERE,
};
use famulus_core::{
    ids::{MessageId, PersonId, ScheduleId, TurnId},
    inbound::Address,
    message::{MessageRole, Part},
    schedule::FAILURES_UNTIL_DISABLED,
    turn::NewMessage,
};
use sqlx::PgConnection;
use uuid::Uuid;

/// Notes how a turn of the schedule ended, in the transaction that ends it. The third failure in a
/// row switches the schedule off and says so where it spoke last; returns whether it did.
pub(crate) async fn outcome(
    conn: &mut PgConnection,
    schedule: Uuid,
    failed: Option<&str>,
) -> Result<bool, Error> {
    // The turn is its host's, but the schedule belongs to whoever made it, and in a group that may
    // be somebody else: for this one row the transaction looks beyond its person.
    let scope = sqlx::query_scalar!(r#"select current_setting('famulus.persons') as "scope!""#)
        .fetch_one(&mut *conn)
        .await
        .map_err(Error::on("read the scope"))?;
    set_scope(conn, &persons(Scope::System)).await?;
    let off = match failed {
        None => went_well(conn, schedule).await.map(|()| None),
        Some(reason) => went_badly(conn, schedule, &without_nul(reason)).await,
    }?;
    set_scope(conn, &scope).await?;
    let Some(off) = off else { return Ok(false) };
    tracing::warn!(schedule.id = %schedule, "a schedule failed too often and is switched off");
    let origin = off.origin.filter(|to| to.channel != NOWHERE);
    if let Some(turn) = off.turn {
        // In the conversation too: a channel without delivery has no other place for it.
        let (place, seq) = history::place(conn, turn).await?;
        let parts = vec![Part::system_text(off.notice.clone())];
        let notice = NewMessage { id: MessageId::new(), parts, blocks: None };
        history::append(conn, place, seq, MessageRole::Assistant, notice, None).await?;
    }
    if let (Some(to), Some(turn)) = (origin, off.turn) {
        let sending = Sending {
            host: off.host,
            conversation: off.conversation,
            turn,
            to: &to,
            markdown: &off.notice,
            attachments: &[],
        };
        outbox::send(conn, &sending).await?;
    }
    Ok(true)
}

async fn set_scope(conn: &mut PgConnection, persons: &str) -> Result<(), Error> {
    sqlx::query_scalar!("select set_config('famulus.persons', $1, true)", persons)
        .fetch_one(conn)
        .await
        .map_err(Error::on("set the scope"))?;
    Ok(())
}

async fn went_well(conn: &mut PgConnection, schedule: Uuid) -> Result<(), Error> {
    sqlx::query!(
        "update schedule set failures = 0, last_error = null
         where id = $1 and (failures <> 0 or last_error is not null)",
        schedule,
    )
    .execute(conn)
    .await
    .map_err(Error::on("note that a schedule went well"))?;
    Ok(())
}

/// A schedule that its failures have just switched off.
struct SwitchedOff {
    host: PersonId,
    conversation: Uuid,
    /// The latest turn that it started.
    turn: Option<TurnId>,
    origin: Option<Address>,
    notice: String,
}

/// `None` as well when the schedule was deleted while its turn ran.
async fn went_badly(
    conn: &mut PgConnection,
    schedule: Uuid,
    reason: &str,
) -> Result<Option<SwitchedOff>, Error> {
    let row = sqlx::query!(
        r#"
        with before as (
            select id, enabled from schedule where id = $1 for no key update
        )
        update schedule s set
            failures = s.failures + 1,
            last_error = $2,
            enabled = s.enabled and s.failures + 1 < $3,
            next_due = case when s.failures + 1 < $3 then s.next_due end
        from before b, conversation c
        where s.id = b.id and c.id = s.conversation_id
        returning b.enabled and not s.enabled as "switched_off!", s.name, s.note,
                  coalesce((select t.origin from schedule_slot l join turn t on t.id = l.turn_id
                            where l.schedule_id = s.id and t.origin ->> 'channel' <> $4
                            order by l.due_at desc limit 1), s.origin) as origin,
                  c.id as conversation, c.person_id as host,
                  (select l.turn_id from schedule_slot l
                      where l.schedule_id = s.id and l.turn_id is not null
                      order by l.due_at desc limit 1) as turn
        "#,
        schedule,
        reason,
        FAILURES_UNTIL_DISABLED,
        NOWHERE,
    )
    .fetch_optional(conn)
    .await
    .map_err(Error::on("note that a schedule failed"))?;
    let Some(row) = row.filter(|row| row.switched_off) else { return Ok(None) };
    Ok(Some(SwitchedOff {
        host: PersonId(row.host),
        conversation: row.conversation,
        turn: row.turn.map(TurnId),
        origin: read_address(row.origin)?,
        notice: switched_off(ScheduleId(schedule), row.name.as_deref(), &row.note, reason),
    }))
}

fn switched_off(id: ScheduleId, name: Option<&str>, note: &str, reason: &str) -> String {
    let name = name.map(|name| format!("{name}, ")).unwrap_or_default();
    format!(
        "A schedule failed {FAILURES_UNTIL_DISABLED} times in a row, so I switched it off.\n\n\
         - Schedule: {name}{id}\n- Its note: {note}\n- The last failure: {reason}\n\n\
         Once the cause is gone, ask me to switch it on again."
    )
}
