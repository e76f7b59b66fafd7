//! Replies that grow in a chat while they are written.
//!
//! ```text
//! text of a turn ─► kept here ─► shown, as often as the channel likes ─► the reply, delivered as always
//! ```
//!
//! Nothing of it is recorded: what is shown goes when the reply comes, and whoever takes a turn over shows it
//! anew. Where a channel can show it, each turn costs a look at where it came from; it is waited for by nobody.

use famulus_agent::Channels;
use famulus_core::{
    event::{DeltaKind, Envelope, Event, EventId, List, Status, Viewers},
    ids::{ConversationId, PersonId, TurnId},
    inbound::Address,
    outbound::{Channel, SendError},
};
use famulus_errors::chain;
use famulus_store::Store;
use famulus_viewers::Hub;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    future::{Future, pending},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Between two looks at what there is to show.
const STEP: Duration = Duration::from_secs(1);
/// Platforms forget after five seconds that somebody writes.
const WRITES: Duration = Duration::from_secs(4);
/// After a channel did not take it.
const PAUSE: Duration = Duration::from_secs(5);

/// Shows events to viewers, and what is said in turns to the chats that asked.
pub(crate) struct Growing {
    hub: Arc<Hub>,
    store: Store,
    channels: Channels,
    turns: Mutex<HashMap<TurnId, Said>>,
}

/// What a turn has said since its last whole message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    text: String,
    /// The tool that runs.
    tool: Option<String>,
    /// It was said whole: nothing is shown until something else is said.
    is_whole: bool,
}

impl Growing {
    pub(crate) fn new(hub: Arc<Hub>, store: Store, channels: Channels) -> Self {
        Self { hub, store, channels, turns: Mutex::default() }
    }

    /// Works a turn, and shows beside it what it says.
    pub(crate) async fn beside<T>(&self, turn: TurnId, work: impl Future<Output = T>) -> T {
        if !self.channels.values().any(|channel| channel.grows()) {
            return work.await;
        }
        self.turns.lock().insert(turn, Said::default());
        let _forgotten = Forget { growing: self, turn };
        tokio::select! {
            biased;
            done = work => done,
            () = self.show(turn) => pending().await,
        }
    }

    /// Never ends.
    async fn show(&self, turn: TurnId) {
        let Some((to, channel)) = self.chat(turn).await else {
            self.turns.lock().remove(&turn);
            return pending().await;
        };
        let mut shown = Said::default();
        let mut told_at: Option<Instant> = None;
        loop {
            let said = self.turns.lock().get(&turn).cloned().unwrap_or_default();
            let is_old = told_at.is_none_or(|at| at.elapsed() > WRITES);
            let pause = if said.is_whole || (said == shown && !is_old) {
                STEP
            } else {
                told_at = Some(Instant::now());
                match channel.grow(&to, turn, &said.words()).await {
                    Ok(()) => {
                        shown = said;
                        STEP
                    }
                    Err(error) => pause_after(&error),
                }
            };
            sleep(pause).await;
        }
    }

    /// The chat that a turn came from, where its channel can show something.
    async fn chat(&self, turn: TurnId) -> Option<(Address, Arc<dyn Channel>)> {
        let origin = match self.store.origin_of(turn).await {
            Ok(origin) => origin?,
            Err(error) => {
                tracing::debug!(turn.id = %turn, error = %chain(&error), "a turn does not grow");
                return None;
            }
        };
        let channel = self.channels.get(&origin.channel).filter(|channel| channel.grows())?;
        Some((origin, Arc::clone(channel)))
    }

    fn take(&self, event: &Event) {
        let Some(turn) = event.turn() else { return };
        let mut turns = self.turns.lock();
        let Some(said) = turns.get_mut(&turn) else { return };
        match event {
            Event::Delta { kind: DeltaKind::Text, text, .. } => {
                (said.tool, said.is_whole) = (None, false);
                said.text.push_str(text);
            }
            Event::Status { status: Status::ToolRunning { tool, .. }, .. } => {
                (said.tool, said.is_whole) = (Some(tool.clone()), false);
            }
            Event::Message { .. } => *said = Said { is_whole: true, ..Said::default() },
            Event::Resumed { .. } => *said = Said::default(),
            Event::Delta { .. }
            | Event::Status { .. }
            | Event::Usage { .. }
            | Event::Complete { .. }
            | Event::ListChanged { .. } => {}
        }
    }
}

impl Said {
    /// As it is shown.
    fn words(&self) -> String {
        match &self.tool {
            None => self.text.clone(),
            Some(tool) if self.text.is_empty() => format!("_{}…_", tool.replace('_', " ")),
            Some(tool) => format!("{}\n\n_{}…_", self.text, tool.replace('_', " ")),
        }
    }
}

fn pause_after(error: &SendError) -> Duration {
    tracing::debug!(%error, "what a turn says was not shown");
    match error {
        SendError::NotSent { after: Some(after), .. } => (*after).max(PAUSE),
        SendError::NotSent { .. }
        | SendError::Unknown { .. }
        | SendError::Refused { .. }
        | SendError::Unreachable { .. } => PAUSE,
    }
}

/// Forgets what a turn said, however its work ends.
struct Forget<'a> {
    growing: &'a Growing,
    turn: TurnId,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.growing.turns.lock().remove(&self.turn);
    }
}

impl Viewers for Growing {
    fn publish(&self, envelope: &Arc<Envelope>) {
        self.hub.publish(envelope);
        self.take(&envelope.event);
    }

    fn stored(&self, conversation: ConversationId, up_to: EventId) {
        self.hub.stored(conversation, up_to);
    }

    fn list_changed(&self, person: PersonId, list: List) {
        self.hub.list_changed(person, list);
    }
}
