//! Tool calls in the record.

use crate::{
    approvals,
    codec::{DbLabel, decode, encode, read_enum},
    error::Error,
};
use famulus_core::{
    ids::{ApprovalId, TurnId},
    message::ToolCall,
    tool::{CallKey, ToolOutput},
    turn::{CallState, PlannedCall, RecordedApproval, RecordedCall},
};
use famulus_queue::Instant;
use sqlx::PgConnection;
use uuid::Uuid;

/// Every call of a turn, by step and position, with the approval that it waits for.
pub(crate) async fn of_turn(
    conn: &mut PgConnection,
    turn: TurnId,
) -> Result<Vec<RecordedCall>, Error> {
    let rows = sqlx::query!(
        r#"select c.step, c.call, c.item, c.provider_id, c.tool, c.arguments, c.effect, c.repeat,
                  c.state, c.output, c.sent_at as "sent_at: Instant",
                  a.id as "approval?", a.state as "approval_state?",
                  a.expires_at as "expires_at?: Instant"
           from tool_call c
           left join approval a on a.turn_id = c.turn_id and a.step = c.step and a.call = c.call
           where c.turn_id = $1 order by c.step, c.call, c.item"#,
        turn.0,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("read the turn's calls"))?;
    rows.into_iter()
        .map(|row| {
            let approval = match (row.approval, row.approval_state, row.expires_at) {
                (Some(id), Some(state), Some(expires_at)) => Some(RecordedApproval {
                    id: ApprovalId(id),
                    state: read_enum("an approval's state", &state)?,
                    expires_at: expires_at.0,
                }),
                _ => None,
            };
            Ok(RecordedCall {
                key: CallKey {
                    turn,
                    step: row.step as u32,
                    call: row.call as u32,
                    item: row.item as u32,
                },
                call: ToolCall {
                    id: row.provider_id,
                    name: row.tool,
                    arguments: String::from_utf8_lossy(&row.arguments).into_owned(),
                },
                effect: read_enum("a call's effect", &row.effect)?,
                repeat: read_enum("a call's repeat rule", &row.repeat)?,
                state: read_enum("a call's state", &row.state)?,
                sent_at: row.sent_at.map(|at| at.0),
                output: row.output.map(|output| decode("a call's output", &output)).transpose()?,
                approval,
            })
        })
        .collect()
}

/// Records the calls of a reply, and asks the questions that they raise.
pub(crate) async fn plan(
    conn: &mut PgConnection,
    host: Uuid,
    calls: &[PlannedCall],
) -> Result<(), Error> {
    let outputs: Vec<Option<Vec<u8>>> = calls
        .iter()
        .map(|call| call.output.as_ref().map(|o| encode("a call's output", o)).transpose())
        .collect::<Result<_, _>>()?;
    let state = |call: &PlannedCall| {
        if call.output.is_some() { CallState::Done } else { CallState::Planned }
    };
    sqlx::query!(
        "insert into tool_call (turn_id, step, call, item, person_id, provider_id, tool, arguments,
                                effect, repeat, state, output, done_at)
         select turn, step, call, item, $1, provider_id, tool, arguments, effect, repeat, state,
                output, case when state = 'done' then now() end
         from unnest($2::uuid[], $3::integer[], $4::integer[], $5::integer[], $6::text[],
                     $7::text[], $8::bytea[], $9::text[], $10::text[], $11::text[], $12::bytea[])
             as c (turn, step, call, item, provider_id, tool, arguments, effect, repeat, state,
                   output)",
        host,
        &calls.iter().map(|c| c.key.turn.0).collect::<Vec<_>>(),
        &calls.iter().map(|c| c.key.step as i32).collect::<Vec<_>>(),
        &calls.iter().map(|c| c.key.call as i32).collect::<Vec<_>>(),
        &calls.iter().map(|c| c.key.item as i32).collect::<Vec<_>>(),
        &calls.iter().map(|c| crate::codec::without_nul(&c.call.id)).collect::<Vec<_>>(),
        &calls.iter().map(|c| crate::codec::without_nul(&c.call.name)).collect::<Vec<_>>(),
        &calls.iter().map(|c| c.call.arguments.clone().into_bytes()).collect::<Vec<_>>(),
        &calls.iter().map(|c| c.effect.label().to_owned()).collect::<Vec<_>>(),
        &calls.iter().map(|c| c.repeat.label().to_owned()).collect::<Vec<_>>(),
        &calls.iter().map(|c| state(c).label().to_owned()).collect::<Vec<_>>(),
        &outputs as &[Option<Vec<u8>>],
    )
    .execute(&mut *conn)
    .await
    .map_err(Error::on("record calls"))?;
    for call in calls {
        if let Some(approval) = &call.approval {
            approvals::ask(conn, host, call.key, approval, &call.call.arguments).await?;
        }
    }
    Ok(())
}

pub(crate) async fn sent(conn: &mut PgConnection, key: CallKey) -> Result<(), Error> {
    sqlx::query!(
        "update tool_call set state = 'sent', sent_at = coalesce(sent_at, now())
         where turn_id = $1 and step = $2 and call = $3 and item = $4 and state <> 'done'",
        key.turn.0,
        key.step as i32,
        key.call as i32,
        key.item as i32,
    )
    .execute(conn)
    .await
    .map_err(Error::on("mark a call as sent"))?;
    Ok(())
}

/// Records outputs; one that is recorded already stays as it is.
pub(crate) async fn done(
    conn: &mut PgConnection,
    outputs: &[(CallKey, &ToolOutput)],
) -> Result<(), Error> {
    let encoded: Vec<Vec<u8>> = outputs
        .iter()
        .map(|(_, output)| encode("a call's output", output))
        .collect::<Result<_, _>>()?;
    sqlx::query!(
        "update tool_call c set state = 'done', output = v.output, done_at = now()
         from unnest($1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::bytea[])
             as v (turn, step, call, item, output)
         where c.turn_id = v.turn and c.step = v.step and c.call = v.call and c.item = v.item
           and c.turn_id = any($1::uuid[]) and c.state <> 'done'",
        &outputs.iter().map(|(key, _)| key.turn.0).collect::<Vec<_>>(),
        &outputs.iter().map(|(key, _)| key.step as i32).collect::<Vec<_>>(),
        &outputs.iter().map(|(key, _)| key.call as i32).collect::<Vec<_>>(),
        &outputs.iter().map(|(key, _)| key.item as i32).collect::<Vec<_>>(),
        &encoded,
    )
    .execute(conn)
    .await
    .map_err(Error::on("record outputs"))?;
    Ok(())
}
