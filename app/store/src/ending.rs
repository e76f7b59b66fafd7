//! What every end of a turn settles, and the end of a turn that no worker could finish.

use crate::{
    codec::decode_parts,
    db::{Scope, Store},
    error::Error,
    events,
    hand_over::hand_over,
    history::{self, Place},
    outbox::{self, Sending},
    schedules,
};
use famulus_core::{
    crash,
    event::{Envelope, Event, EventId, VERSION},
    ids::{ConversationId, MessageId, PersonId, TurnId},
    inbound::Address,
    message::{MessageRole, Part, Sentinel, visible_text},
    turn::{Burial, Fence, NewMessage, TurnState},
};
use famulus_queue::{
    Class,
    hint::{Hints, Topic},
    lane,
    lane::Progress,
};
use sqlx::PgConnection;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use uuid::Uuid;

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
    let text = broken_off(&mut tx, place).await?;
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
    let complete =
        Event::Complete { turn, state: TurnState::Failed, message: Some(message.id), text };
    let events: Vec<Arc<Envelope>> = (1..)
        .zip([Event::Resumed { turn, last }, complete])
        .map(|(number, event)| {
            let conversation = ConversationId(place.conversation);
            Arc::new(Envelope { v: VERSION, id: id(number), conversation, at: burial.at, event })
        })
        .collect();
    let last = Last {
        place,
        state: TurnState::Failed,
        error: Some(&burial.reason),
        reply: Some(&burial.reply),
        delivering: &burial.delivering,
        origin: row.origin.as_ref(),
        schedule: row.schedule_id,
    };
    let news = close(&mut tx, &[last]).await?;
    events::insert_for(&mut tx, PersonId(place.host), events.clone()).await?;
    lane::bury(&mut tx, Class::Turn, fence, turn.0, &burial.reason).await?;
    crash::before("turn.bury");
    tx.commit().await.map_err(Error::on("bury the turn"))?;
    crash::after("turn.bury");
    tracing::error!(turn.id = %turn, reason = burial.reason, "a turn was moved to the dead letters");
    store.hints.announce(Topic::Control);
    news.announce(&store.hints);
    Ok(events)
}

/// What stands of replies that broke off behind the last one that was whole.
async fn broken_off(conn: &mut PgConnection, place: Place) -> Result<String, Error> {
    let messages = sqlx::query_scalar!(
        "with said as (
             select seq, parts, model from message
             where conversation_id = $1 and turn_ord = $2 and turn_id = $3 and role = 'assistant'
         )
         select parts from said
         where seq > coalesce((select max(seq) from said where model is not null), 0)
         order by seq",
        place.conversation,
        place.ord,
        place.turn.0,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("read what the turn said"))?;
    messages.iter().map(|parts| Ok(visible_text(&decode_parts(parts)?))).collect()
}

/// The end of a turn.
pub(crate) struct Last<'a> {
    pub(crate) place: Place,
    pub(crate) state: TurnState,
    pub(crate) error: Option<&'a str>,
    pub(crate) reply: Option<&'a str>,
    pub(crate) delivering: &'a [String],
    pub(crate) origin: Option<&'a serde_json::Value>,
    pub(crate) schedule: Option<Uuid>,
}

/// What others are to be told once the end is committed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    delivery: bool,
    turn: bool,
}

impl News {
    pub(crate) fn announce(self, hints: &Hints) {
        hints.announce(Topic::Event);
        if self.delivery {
            hints.announce(Topic::Delivery);
        }
        if self.turn {
            hints.announce(Topic::Turn);
        }
    }
}

/// Settles what every end of a turn settles. The caller holds the conversations' rows.
pub(crate) async fn close(conn: &mut PgConnection, ends: &[Last<'_>]) -> Result<News, Error> {
    let turns: Vec<Uuid> = ends.iter().map(|last| last.place.turn.0).collect();
    let conversations: Vec<Uuid> = ends.iter().map(|last| last.place.conversation).collect();
    sqlx::query!(
        "update conversation set live_turn = null, live_ord = null, live_person = null
         where id = any($1) and live_turn = any($2)",
        &conversations,
        &turns,
    )
    .execute(&mut *conn)
    .await
    .map_err(Error::on("end the turn"))?;
    // Nothing may stay open behind a turn that ended.
    sqlx::query!(
        "update approval set state = 'superseded', decided_at = now()
         where turn_id = any($1) and state in ('pending', 'approved')",
        &turns,
    )
    .execute(&mut *conn)
    .await
    .map_err(Error::on("close approvals"))?;
    let mut news = News::default();
    for last in ends {
        let place = last.place;
        let successor = match last.state {
            TurnState::Failed | TurnState::Cancelled => hand_over(conn, place).await?,
            TurnState::Complete | TurnState::Queued | TurnState::Running | TurnState::Waiting => {
                None
            }
        };
        news.turn |= successor.is_some();
        if let Some(schedule) = last.schedule {
            let failed =
                (last.state == TurnState::Failed).then(|| last.error.unwrap_or("the turn failed"));
            news.delivery |= schedules::outcome(conn, schedule, failed).await?;
        }
    }
    news.delivery |= deliver(conn, ends).await?;
    Ok(news)
}

/// Puts replies on their way to each place that a message of their turn came from; returns whether
/// there was one.
async fn deliver(conn: &mut PgConnection, ends: &[Last<'_>]) -> Result<bool, Error> {
    let replying: Vec<&Last<'_>> =
        ends.iter().filter(|last| last.reply.is_some() && !last.delivering.is_empty()).collect();
    if replying.is_empty() {
        return Ok(false);
    }
    let mut addresses = addresses(conn, &replying).await?;
    let mut sent = false;
    for last in replying {
        let Place { turn, conversation, host, ord: _ } = last.place;
        let from = addresses.remove(&turn.0).unwrap_or_default();
        for to in senders(from, last.origin)? {
            if last.delivering.contains(&to.channel) && !reached(conn, turn, &to).await? {
                let sending = Sending {
                    host: PersonId(host),
                    conversation,
                    turn,
                    to: &to,
                    markdown: last.reply.unwrap_or_default(),
                    attachments: &[],
                };
                outbox::send(conn, &sending).await?;
                sent = true;
            }
        }
    }
    Ok(sent)
}

/// Where the messages of turns came from, in their order; `None` is where the turn came from.
async fn addresses(
    conn: &mut PgConnection,
    ends: &[&Last<'_>],
) -> Result<HashMap<Uuid, Vec<Option<serde_json::Value>>>, Error> {
    let rows = sqlx::query!(
        "select turn_id, reply_to from message
         where conversation_id = any($1) and turn_ord = any($2) and turn_id = any($3)
           and role = 'user'
         order by seq",
        &ends.iter().map(|last| last.place.conversation).collect::<Vec<_>>(),
        &ends.iter().map(|last| last.place.ord).collect::<Vec<_>>(),
        &ends.iter().map(|last| last.place.turn.0).collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("see who waits for the reply"))?;
    let mut addresses: HashMap<Uuid, Vec<_>> = HashMap::new();
    for row in rows {
        addresses.entry(row.turn_id).or_default().push(row.reply_to);
    }
    Ok(addresses)
}

/// Each place once.
fn senders(
    addresses: Vec<Option<serde_json::Value>>,
    origin: Option<&serde_json::Value>,
) -> Result<Vec<Address>, Error> {
    let mut known = HashSet::new();
    let mut senders = Vec::new();
    for address in addresses {
        let Some(address) = address.or_else(|| origin.cloned()) else { continue };
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
