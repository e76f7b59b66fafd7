//! How a turn ends: its last message, its state, its replies on the way out, and its lease, in one
//! transaction.

use crate::{
    db::{Scope, Store},
    error::Error,
    events,
    hand_over::hand_over,
    history::{self, Place},
    outbox, schedules,
};
use famulus_core::{
    crash,
    event::{Envelope, Event, EventId, VERSION},
    ids::{ConversationId, MessageId, PersonId, TurnId},
    inbound::Address,
    message::{MessageRole, Part, Sentinel},
    turn::{Burial, Ended, Ending, Fence, NewMessage, TurnState},
};
use famulus_queue::{Class, hint::Topic, lane, lane::Progress};
use sqlx::PgConnection;
use std::{collections::HashSet, sync::Arc};
use uuid::Uuid;

pub(crate) async fn finish(store: &Store, fence: &Fence, ending: Ending) -> Result<Ended, Error> {
    let turn = ending.turn;
    let mut tx = store.begin(Scope::Person(fence.person)).await?;
    // From here nothing can join the turn: accepting takes the same row.
    let (place, seq) = history::place(&mut tx, turn).await?;
    lane::guard(&mut tx, Class::Turn, fence, Progress::Relies).await?;
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
    events::insert_for(&mut tx, PersonId(place.host), ending.events).await?;
    if goes_on {
        crash::before("turn.finish");
        tx.commit().await.map_err(Error::on("record a reply"))?;
        crash::after("turn.finish");
        stored.extend(steering);
        return Ok(Ended::Steered(stored));
    }
    let news = Last {
        state: ending.state,
        error: ending.error.as_deref(),
        reply: ending.reply.as_deref(),
        delivering: &ending.delivering,
        origin: row.origin,
        schedule: row.schedule_id,
    }
    .close(&mut tx, place)
    .await?;
    events::insert_for(&mut tx, PersonId(place.host), vec![ending.complete]).await?;
    lane::complete(&mut tx, Class::Turn, fence, turn.0).await?;
    crash::before("turn.finish");
    tx.commit().await.map_err(Error::on("end the turn"))?;
    crash::after("turn.finish");
    news.announce(store);
    Ok(Ended::Done)
}

/// Fails a turn that no worker could finish. Its job goes to the dead letters.
pub(crate) async fn bury(
    store: &Store,
    fence: &Fence,
    burial: Burial,
) -> Result<Vec<Arc<Envelope>>, Error> {
    let turn = burial.turn;
    let mut tx = store.begin(Scope::Person(fence.person)).await?;
    let (place, seq) = history::place(&mut tx, turn).await?;
    lane::guard(&mut tx, Class::Turn, fence, Progress::None).await?;
    let message = NewMessage {
        id: MessageId::new(),
        parts: vec![Part::sentinel(Sentinel::Failed)],
        blocks: None,
    };
    let message =
        history::append(&mut tx, place, seq, MessageRole::Assistant, message, None).await?;
    // Viewers drop what the last workers showed and never recorded, and are told the end.
    let id = |number| EventId { fence: fence.token, number };
    let row = sqlx::query!(
        r#"update turn t
           set state = 'failed', error = $2, ended_at = now(), shown_fence = $3, shown_number = 1
           from turn o where t.id = $1 and o.id = t.id
           returning t.schedule_id, t.origin, o.shown_fence, o.shown_number"#,
        turn.0,
        burial.reason,
        fence.token,
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(Error::on("fail the turn"))?;
    let last = EventId { fence: row.shown_fence, number: row.shown_number };
    let complete = Event::Complete {
        turn,
        state: TurnState::Failed,
        message: Some(message.id),
        text: String::new(),
    };
    let events: Vec<Arc<Envelope>> = (1..)
        .zip([Event::Resumed { turn, last }, complete])
        .map(|(number, event)| {
            let conversation = ConversationId(place.conversation);
            Arc::new(Envelope { v: VERSION, id: id(number), conversation, at: burial.at, event })
        })
        .collect();
    let news = Last {
        state: TurnState::Failed,
        error: Some(&burial.reason),
        reply: Some(&burial.reply),
        delivering: &burial.delivering,
        origin: row.origin,
        schedule: row.schedule_id,
    }
    .close(&mut tx, place)
    .await?;
    events::insert_for(&mut tx, PersonId(place.host), events.clone()).await?;
    lane::bury(&mut tx, Class::Turn, fence, turn.0, &burial.reason).await?;
    tx.commit().await.map_err(Error::on("bury the turn"))?;
    tracing::error!(turn.id = %turn, reason = burial.reason, "a turn was moved to the dead letters");
    store.hints.announce(Topic::Control);
    news.announce(store);
    Ok(events)
}

/// What every end of a turn settles.
struct Last<'a> {
    state: TurnState,
    error: Option<&'a str>,
    reply: Option<&'a str>,
    delivering: &'a [String],
    origin: Option<serde_json::Value>,
    schedule: Option<Uuid>,
}

/// What others are to be told once the end is committed.
struct News {
    delivery: bool,
    turn: bool,
}

impl News {
    fn announce(&self, store: &Store) {
        store.hints.announce(Topic::Event);
        if self.delivery {
            store.hints.announce(Topic::Delivery);
        }
        if self.turn {
            store.hints.announce(Topic::Turn);
        }
    }
}

impl Last<'_> {
    async fn close(self, conn: &mut PgConnection, place: Place) -> Result<News, Error> {
        let turn = place.turn;
        sqlx::query!(
            "update conversation set live_turn = null, live_ord = null, live_person = null
             where id = $1 and live_turn = $2",
            place.conversation,
            turn.0,
        )
        .execute(&mut *conn)
        .await
        .map_err(Error::on("end the turn"))?;
        // Nothing may stay open behind a turn that ended.
        sqlx::query!(
            "update approval set state = 'superseded', decided_at = now()
             where turn_id = $1 and state in ('pending', 'approved')",
            turn.0
        )
        .execute(&mut *conn)
        .await
        .map_err(Error::on("close approvals"))?;
        let successor = match self.state {
            TurnState::Failed | TurnState::Cancelled => hand_over(conn, place).await?,
            TurnState::Complete | TurnState::Queued | TurnState::Running | TurnState::Waiting => {
                None
            }
        };
        let mut delivery = false;
        if let Some(reply) = self.reply.filter(|_| !self.delivering.is_empty()) {
            for to in senders(conn, place, self.origin).await? {
                if self.delivering.contains(&to.channel) && !reached(conn, turn, &to).await? {
                    let host = PersonId(place.host);
                    outbox::send(conn, host, place.conversation, turn, &to, reply).await?;
                    delivery = true;
                }
            }
        }
        if let Some(schedule) = self.schedule {
            let failed =
                (self.state == TurnState::Failed).then(|| self.error.unwrap_or("the turn failed"));
            delivery |= schedules::outcome(conn, schedule, failed).await?;
        }
        Ok(News { delivery, turn: successor.is_some() })
    }
}

/// Where the messages of a turn came from, each place once.
async fn senders(
    conn: &mut PgConnection,
    place: Place,
    origin: Option<serde_json::Value>,
) -> Result<Vec<Address>, Error> {
    let addresses = sqlx::query_scalar!(
        "select coalesce(reply_to, $4) from message
         where conversation_id = $1 and turn_ord = $2 and turn_id = $3 and role = 'user'
         order by seq",
        place.conversation,
        place.ord,
        place.turn.0,
        origin,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("see who waits for the reply"))?;
    let mut known = HashSet::new();
    let mut senders = Vec::new();
    for address in addresses.into_iter().flatten() {
        let to: Address =
            serde_json::from_value(address).map_err(Error::unreadable("an address"))?;
        let chat = (to.channel.clone(), to.account.clone(), to.chat.clone(), to.thread.clone());
        if known.insert(chat) {
            senders.push(to);
        }
    }
    Ok(senders)
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
