//! How turns end: their last messages, their states, their replies on the way out, and their leases.
//! Turns that end at the same time end in one transaction.

use crate::{
    db::{Scope, begin},
    ending::{Last, close},
    error::Error,
    events,
    gather::{Bounds, Work},
    history::{self, Appended, Place},
};
use famulus_core::{
    crash,
    event::Envelope,
    ids::PersonId,
    message::{Message, MessageRole},
    turn::{Ended, Ending, Fence, TurnState},
};
use famulus_queue::{Class, hint::Hints, lane, lane::Progress};
use sqlx::{PgConnection, PgPool};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use uuid::Uuid;

/// The end of a turn is a dozen statements, which cost about the same for one turn as for many.
pub(crate) const BOUNDS: Bounds =
    Bounds { batch: 64, at_once: 2, patience: Duration::from_millis(50), waiting: 1024 };

/// Ends turns.
pub(crate) struct Endings {
    /// Its commits wait for the disk.
    pub(crate) pool: PgPool,
    pub(crate) hints: Hints,
}

impl Work for Endings {
    type Item = (Fence, Ending);
    type Answer = Result<Ended, Error>;

    const OPERATION: &'static str = "end the turn";

    async fn commit(
        &self,
        _slot: usize,
        items: &[(Fence, Ending)],
    ) -> Result<Vec<Result<Ended, Error>>, Error> {
        let people: Vec<PersonId> = items.iter().map(|(fence, _)| fence.person).collect();
        let fences: Vec<Fence> = items.iter().map(|(fence, _)| *fence).collect();
        let mut tx = begin(&self.pool, Scope::Persons(&people)).await?;
        // From here nothing can join the turns: accepting takes the same rows.
        history::lock(&mut tx, &fences).await?;
        let mut answers: Vec<Result<Ended, Error>> =
            lane::guard_many(&mut tx, Class::Turn, &fences, Progress::Relies)
                .await?
                .into_iter()
                .map(|held| held.map(|()| Ended::Done).map_err(Error::from))
                .collect();
        // A lease ends one turn.
        let mut lanes = HashSet::new();
        for (fence, answer) in fences.iter().zip(&mut answers) {
            if answer.is_ok() && !lanes.insert(fence.lane) {
                *answer = Err(Error::LeaseLost);
            }
        }
        let held: Vec<&(Fence, Ending)> =
            items.iter().zip(&answers).filter(|(_, held)| held.is_ok()).map(|(i, _)| i).collect();
        let mut turns = read(&mut tx, &held).await?;
        for (turn, answer) in turns.iter().zip(answers.iter_mut().filter(|held| held.is_ok())) {
            if turn.stopped {
                *answer = Ok(Ended::Stopped);
            }
        }
        turns.retain(|turn| !turn.stopped);
        append(&mut tx, &mut turns).await?;
        record(&mut tx, &turns).await?;
        store_events(&mut tx, &turns).await?;
        let ending: Vec<&Turn<'_>> = turns.iter().filter(|turn| !turn.goes_on).collect();
        let lasts: Vec<Last<'_>> = ending.iter().map(|turn| turn.last()).collect();
        let news = if lasts.is_empty() { None } else { Some(close(&mut tx, &lasts).await?) };
        let jobs: Vec<(Fence, Uuid)> =
            ending.iter().map(|turn| (*turn.fence, turn.ending.turn.0)).collect();
        if lane::complete_many(&mut tx, Class::Turn, &jobs).await? != jobs.len() as u64 {
            // Their rows are held since the proof: nobody could take one.
            return Err(Error::LeaseLost);
        }
        crash::before("turn.finish");
        tx.commit().await.map_err(Error::on("end the turn"))?;
        crash::after("turn.finish");
        if let Some(news) = news {
            news.announce(&self.hints);
        }
        let mut turns = turns.into_iter();
        for answer in answers.iter_mut().filter(|answer| matches!(answer, Ok(Ended::Done))) {
            if let Some(turn) = turns.next().filter(|turn| turn.goes_on) {
                *answer = Ok(Ended::Steered(turn.stored));
            }
        }
        Ok(answers)
    }
}

/// A turn that ends, unless there is something that it has not seen.
struct Turn<'a> {
    fence: &'a Fence,
    ending: &'a Ending,
    place: Place,
    /// A turn that is complete goes on with messages that joined it meanwhile.
    goes_on: bool,
    /// A stop that came before a failure is what the turn ends with: whatever was accepted before the
    /// stop ends with it, and its senders are told so.
    stopped: bool,
    /// What it has written last, and what it goes on with.
    stored: Vec<Arc<Message>>,
    origin: Option<serde_json::Value>,
    schedule: Option<Uuid>,
}

impl Turn<'_> {
    fn last(&self) -> Last<'_> {
        Last {
            place: self.place,
            state: self.ending.state,
            error: self.ending.error.as_deref(),
            reply: self.ending.reply.as_deref(),
            delivering: &self.ending.delivering,
            origin: self.origin.as_ref(),
            schedule: self.schedule,
        }
    }
}

async fn read<'a>(
    conn: &mut PgConnection,
    held: &[&'a (Fence, Ending)],
) -> Result<Vec<Turn<'a>>, Error> {
    let ids: Vec<Uuid> = held.iter().map(|(_, ending)| ending.turn.0).collect();
    let rows = sqlx::query!(
        r#"select t.id, t.conversation_id, t.person_id, t.ord, t.schedule_id, t.origin,
                  t.cancel_requested_at is not null as "cancel!",
                  coalesce((select true from message m
                            where m.conversation_id = t.conversation_id and m.turn_ord = t.ord
                              and m.turn_id = t.id and not m.seen
                            limit 1), false) as "unread!"
           from turn t where t.id = any($1)"#,
        &ids,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("find the turn's place"))?;
    let mut rows: HashMap<Uuid, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let turn = |(fence, ending): &&'a (Fence, Ending)| {
        let row = rows
            .remove(&ending.turn.0)
            .ok_or_else(|| Error::on("find the turn's place")(sqlx::Error::RowNotFound))?;
        let place = Place {
            turn: ending.turn,
            conversation: row.conversation_id,
            host: row.person_id,
            ord: row.ord,
        };
        Ok(Turn {
            fence,
            ending,
            place,
            goes_on: ending.state == TurnState::Complete && row.unread,
            stopped: ending.state == TurnState::Failed && row.cancel,
            stored: Vec::new(),
            origin: row.origin,
            schedule: row.schedule_id,
        })
    };
    held.iter().map(turn).collect()
}

/// Appends the last messages, and behind them what the turns go on with.
async fn append(conn: &mut PgConnection, turns: &mut [Turn<'_>]) -> Result<(), Error> {
    let places: Vec<Place> = turns.iter().map(|turn| turn.place).collect();
    let seqs = history::next_seq_of(conn, &places).await?;
    let mut writers = Vec::new();
    let mut messages = Vec::new();
    for (turn, seq) in turns.iter_mut().zip(seqs) {
        let Some(message) = turn.ending.message.clone() else { continue };
        let (place, model) = (turn.place, turn.ending.model.as_deref());
        messages.push(Appended { place, seq, role: MessageRole::Assistant, message, model });
        writers.push(turn);
    }
    for (turn, message) in writers.into_iter().zip(history::append_many(conn, messages).await?) {
        turn.stored.push(message);
    }
    for turn in turns.iter_mut().filter(|turn| turn.goes_on) {
        turn.stored.extend(history::take_steering(conn, turn.place).await?);
    }
    Ok(())
}

async fn record(conn: &mut PgConnection, turns: &[Turn<'_>]) -> Result<(), Error> {
    let endings = || turns.iter().map(|turn| turn.ending);
    sqlx::query!(
        "update turn t set
             state = case when e.goes_on then t.state else e.state end,
             steps = e.steps, model = coalesce(e.model, t.model),
             input_tokens = e.input_tokens, output_tokens = e.output_tokens, error = e.error,
             shown_fence = e.shown_fence, shown_number = e.shown_number,
             ended_at = case when e.goes_on then null else now() end
         from unnest($1::uuid[], $2::bool[], $3::text[], $4::int[], $5::text[], $6::bigint[],
                     $7::bigint[], $8::text[], $9::bigint[], $10::bigint[])
             as e (id, goes_on, state, steps, model, input_tokens, output_tokens, error,
                   shown_fence, shown_number)
         where t.id = any($1) and t.id = e.id",
        &endings().map(|e| e.turn.0).collect::<Vec<_>>(),
        &turns.iter().map(|turn| turn.goes_on).collect::<Vec<_>>(),
        &endings().map(|e| e.state.as_str()).collect::<Vec<_>>() as &[&str],
        &endings().map(|e| e.steps as i32).collect::<Vec<_>>(),
        &endings().map(|e| e.model.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &endings().map(|e| e.usage.input_tokens.map(|n| n as i64)).collect::<Vec<_>>()
            as &[Option<i64>],
        &endings().map(|e| e.usage.output_tokens.map(|n| n as i64)).collect::<Vec<_>>()
            as &[Option<i64>],
        &endings().map(|e| e.error.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &endings().map(|e| e.shown.fence).collect::<Vec<_>>(),
        &endings().map(|e| e.shown.number).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await
    .map_err(Error::on("end the turn"))?;
    Ok(())
}

/// What viewers were shown, and of turns that end that they have.
async fn store_events(conn: &mut PgConnection, turns: &[Turn<'_>]) -> Result<(), Error> {
    let mut events: Vec<(PersonId, Arc<Envelope>)> = Vec::new();
    for turn in turns {
        let complete = (!turn.goes_on).then_some(&turn.ending.complete);
        let all = turn.ending.events.iter().chain(complete);
        events.extend(all.map(|event| (PersonId(turn.place.host), Arc::clone(event))));
    }
    events::insert(conn, &events).await
}
