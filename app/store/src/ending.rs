//! How a turn ends: its last message, its state, its reply on the way out, and its lease, in one
//! transaction.

use crate::{
    db::{Scope, Store},
    error::Error,
    events, history, outbox, schedules,
};
use famulus_core::{
    crash,
    event::EventId,
    ids::{PersonId, TurnId},
    inbound::Address,
    message::MessageRole,
    turn::{Ended, Ending, Fence, TurnState},
};
use famulus_queue::{Class, hint::Topic, lane, lane::Progress};
use sqlx::PgConnection;

pub(crate) async fn finish(store: &Store, fence: &Fence, ending: Ending) -> Result<Ended, Error> {
    let turn = ending.turn;
    let mut tx = store.begin(Scope::Person(fence.person)).await?;
    // From here nothing can join the turn: accepting takes the same row.
    let (place, seq) = history::place(&mut tx, turn).await?;
    lane::guard(&mut tx, Class::Turn, fence, Progress::Ends).await?;
    let steering = if ending.state == TurnState::Complete {
        history::take_steering(&mut tx, place).await?
    } else {
        Vec::new()
    };
    let mut stored = Vec::new();
    if let Some(message) = ending.message {
        let model = ending.model.as_deref();
        stored.push(
            history::append(&mut tx, place, seq, MessageRole::Assistant, message, model).await?,
        );
    }
    let goes_on = !steering.is_empty();
    let row = sqlx::query!(
        "update turn set
             state = case when $2 then state else $3 end,
             steps = $4, model = coalesce($5, model), input_tokens = $6, output_tokens = $7,
             error = $8, shown_fence = $9, shown_number = $10,
             ended_at = case when $2 then null else now() end
         where id = $1
         returning schedule_id, origin",
        turn.0,
        goes_on,
        ending.state.as_str(),
        ending.steps as i32,
        ending.model,
        ending.usage.input_tokens.map(|n| n as i64),
        ending.usage.output_tokens.map(|n| n as i64),
        ending.error,
        ending.shown.fence,
        ending.shown.number,
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(Error::on("end the turn"))?;
    let host = PersonId(place.host);
    events::insert_for(&mut tx, host, ending.events).await?;
    if goes_on {
        crash::before("turn.finish");
        tx.commit().await.map_err(Error::on("record a reply"))?;
        crash::after("turn.finish");
        stored.extend(steering);
        return Ok(Ended::Steered(stored));
    }

    sqlx::query!(
        "update conversation set live_turn = null, live_ord = null, live_person = null
         where id = $1 and live_turn = $2",
        place.conversation,
        turn.0,
    )
    .execute(&mut *tx)
    .await
    .map_err(Error::on("end the turn"))?;
    // Nothing may stay open behind a turn that ended.
    sqlx::query!(
        "update approval set state = 'superseded', decided_at = now()
         where turn_id = $1 and state in ('pending', 'approved')",
        turn.0
    )
    .execute(&mut *tx)
    .await
    .map_err(Error::on("close approvals"))?;
    events::insert_for(&mut tx, host, vec![ending.complete]).await?;
    let mut delivery = false;
    let origin: Option<Address> = row
        .origin
        .map(serde_json::from_value)
        .transpose()
        .map_err(Error::unreadable("an address"))?;
    if let (Some(reply), Some(to)) = (&ending.reply, &origin)
        && to.channel != "none"
        && !reached(&mut tx, turn, to).await?
    {
        outbox::send(&mut tx, host, place.conversation, turn, to, reply).await?;
        delivery = true;
    }
    if let Some(schedule) = row.schedule_id {
        let failed = match ending.state {
            TurnState::Failed => Some(ending.error.as_deref().unwrap_or("the turn failed")),
            TurnState::Complete
            | TurnState::Cancelled
            | TurnState::Queued
            | TurnState::Running
            | TurnState::Waiting => None,
        };
        delivery |= schedules::outcome(&mut tx, schedule, failed).await?;
    }
    lane::complete(&mut tx, Class::Turn, fence, turn.0).await?;
    crash::before("turn.finish");
    tx.commit().await.map_err(Error::on("end the turn"))?;
    crash::after("turn.finish");
    store.hints.announce(Topic::Event);
    if delivery {
        store.hints.announce(Topic::Delivery);
    }
    Ok(Ended::Done)
}

/// Whether a tool of this turn has already reached the place where the reply would go.
async fn reached(conn: &mut PgConnection, turn: TurnId, to: &Address) -> Result<bool, Error> {
    sqlx::query_scalar!(
        r#"select exists (select 1 from reached
            where turn_id = $1 and channel = $2 and account = $3 and chat = $4) as "reached!""#,
        turn.0,
        to.channel,
        to.account,
        to.chat,
    )
    .fetch_one(conn)
    .await
    .map_err(Error::on("see whom tools reached"))
}

pub(crate) async fn set_shown(
    conn: &mut PgConnection,
    turn: TurnId,
    shown: EventId,
) -> Result<(), Error> {
    sqlx::query!(
        "update turn set shown_fence = $2, shown_number = $3 where id = $1",
        turn.0,
        shown.fence,
        shown.number,
    )
    .execute(conn)
    .await
    .map_err(Error::on("note what was shown"))?;
    Ok(())
}
