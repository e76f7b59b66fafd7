//! Waiting for one turn's end without watching its conversation.

use crate::hub::Hub;
use famulus_core::{
    event::Event,
    ids::{MessageId, TurnId},
    turn::TurnState,
};
use std::{collections::HashMap, sync::Arc};
use tokio::sync::watch;

/// How far this process has seen a turn come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It runs elsewhere, or not yet.
    Unseen,
    /// It runs here: its end will be seen.
    Here,
    Done {
        state: TurnState,
        message: Option<MessageId>,
        text: String,
    },
}

/// Hears of a turn's end.
pub struct Waiter {
    hub: Arc<Hub>,
    turn: TurnId,
    /// `None` only while it is being dropped.
    progress: Option<watch::Receiver<Progress>>,
}

impl Waiter {
    pub(crate) fn new(hub: Arc<Hub>, turn: TurnId, progress: watch::Receiver<Progress>) -> Self {
        Self { hub, turn, progress: Some(progress) }
    }

    /// Waits for the next news and returns how far the turn is. Cancel safe.
    pub async fn changed(&mut self) -> Progress {
        let Some(progress) = &mut self.progress else { return Progress::Unseen };
        if progress.changed().await.is_err() {
            // The hub keeps the sender while a waiter is there.
            std::future::pending::<()>().await;
        }
        progress.borrow_and_update().clone()
    }

    pub fn progress(&self) -> Progress {
        self.progress.as_ref().map_or(Progress::Unseen, |progress| progress.borrow().clone())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.progress = None;
        let mut inner = self.hub.inner.lock();
        if inner.waiters.get(&self.turn).is_some_and(|sender| sender.receiver_count() == 0) {
            inner.waiters.remove(&self.turn);
        }
    }
}

/// Passes an event on to who waits for its turn.
pub(crate) fn tell(waiters: &HashMap<TurnId, watch::Sender<Progress>>, event: &Event) {
    let (turn, progress) = match event {
        Event::Complete { turn, state, message, text } => {
            (turn, Progress::Done { state: *state, message: *message, text: text.clone() })
        }
        Event::Delta { turn, .. }
        | Event::Status { turn, .. }
        | Event::Usage { turn, .. }
        | Event::Resumed { turn, .. }
        | Event::Message { turn, .. } => (turn, Progress::Here),
        Event::ListChanged { .. } => return,
    };
    if let Some(sender) = waiters.get(turn) {
        sender.send_if_modified(|known| {
            let news = *known != progress;
            *known = progress;
            news
        });
    }
}
