//! Waiting for the turn that answers a message, whichever process runs it.

use crate::{app::App, problem::Problem};
use famulus_core::{
    ids::{MessageId, PersonId, TurnId},
    turn::{STOPPED, TurnState},
};
use famulus_viewers::{Progress, Waiter};
use std::time::Duration;
use tokio::time::Instant;

/// First pause before a turn that runs elsewhere is asked after; it doubles.
const FIRST_LOOK: Duration = Duration::from_millis(250);
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// A turn that runs here reports its end itself; asking is for a worker that lost its lease.
const LOOK_HERE: Duration = Duration::from_secs(5);

/// How a turn ended.
pub(crate) struct End {
    pub(crate) turn: TurnId,
    pub(crate) state: TurnState,
    pub(crate) text: String,
}

/// The end of the turn that answers a message: one that failed may have handed it to another.
pub(crate) async fn answer_to(
    app: &App,
    person: PersonId,
    message: MessageId,
    mut turn: TurnId,
) -> Result<Option<End>, Problem> {
    loop {
        let mut waiter = app.api.hub.wait_for(turn);
        let end = end_of(app, person, turn, &mut waiter).await?;
        if end.as_ref().is_some_and(|end| end.state == TurnState::Complete) {
            return Ok(end);
        }
        match app.api.store.turn_of(person, message).await {
            Ok(Some(now)) if now != turn => turn = now,
            Ok(_) => return Ok(end),
            // What it moved to is found once the database is back.
            Err(error) if error.is_passing() => tokio::time::sleep(FIRST_LOOK).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The end of a turn, whoever runs it: reported when it runs here, otherwise found in its row.
async fn end_of(
    app: &App,
    person: PersonId,
    turn: TurnId,
    waiter: &mut Waiter,
) -> Result<Option<End>, Problem> {
    let mut pause = FIRST_LOOK;
    let mut look_at = Instant::now() + pause;
    loop {
        tokio::select! {
            progress = waiter.changed() => match progress {
                Progress::Done { state: TurnState::Complete, text, .. } if !text.is_empty() => {
                    return Ok(Some(End { turn, state: TurnState::Complete, text }));
                }
                // The row says why.
                Progress::Done { .. } => look_at = Instant::now(),
                Progress::Here | Progress::Unseen => {}
            },
            () = tokio::time::sleep_until(look_at) => {
                if let Some(end) = look(app, person, turn).await? {
                    return Ok(Some(end));
                }
                pause = match waiter.progress() {
                    Progress::Here => LOOK_HERE,
                    Progress::Unseen | Progress::Done { .. } => (pause * 2).min(LONGEST_LOOK),
                };
                look_at = Instant::now() + pause;
            }
        }
    }
}

async fn look(app: &App, person: PersonId, turn: TurnId) -> Result<Option<End>, Problem> {
    let view = match app.api.store.turn(person, turn).await {
        Ok(view) => view,
        // The message is safe; the database will be back.
        Err(error) if error.is_passing() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let view = view.ok_or_else(|| Problem::missing("the turn", "GET /v1/conversations"))?;
    if !view.state.is_final() {
        return Ok(None);
    }
    // What was said before a failure or a stop, and the failure or the stop.
    let said = view.text.filter(|text| !text.trim().is_empty());
    let why = match view.state {
        TurnState::Cancelled => Some(STOPPED.to_owned()),
        TurnState::Complete
        | TurnState::Failed
        | TurnState::Queued
        | TurnState::Running
        | TurnState::Waiting => view.error,
    };
    let text = said.into_iter().chain(why).collect::<Vec<_>>().join("\n\n");
    Ok(Some(End { turn, state: view.state, text }))
}
