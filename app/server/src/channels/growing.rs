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
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// Between two texts: more of them no platform takes.
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
    turns: Mutex<HashMap<TurnId, watch::Sender<Said>>>,
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
        let (sender, said) = watch::channel(Said::default());
        self.turns.lock().insert(turn, sender);
        let _forgotten = Forget { growing: self, turn };
        tokio::select! {
            biased;
            done = work => done,
            () = self.show(turn, said) => pending().await,
        }
    }

    /// Never ends.
    async fn show(&self, turn: TurnId, told: watch::Receiver<Said>) {
        if let Some((to, channel)) = self.chat(turn).await {
            grow(&to, &*channel, turn, told).await;
        } else {
            self.turns.lock().remove(&turn);
        }
        pending::<()>().await;
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
        let turns = self.turns.lock();
        if let Some(said) = turns.get(&turn) {
            said.send_modify(|said| said.take(event));
        }
    }
}

impl Said {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Delta { kind: DeltaKind::Text, text, .. } => {
                (self.tool, self.is_whole) = (None, false);
                self.text.push_str(text);
            }
            Event::Status { status: Status::ToolRunning { tool, .. }, .. } => {
                (self.tool, self.is_whole) = (Some(tool.clone()), false);
            }
            Event::Message { .. } => *self = Self { is_whole: true, ..Self::default() },
            Event::Resumed { .. } => *self = Self::default(),
            Event::Delta { .. }
            | Event::Status { .. }
            | Event::Usage { .. }
            | Event::Complete { .. }
            | Event::ListChanged { .. } => {}
        }
    }

    /// As it is shown.
    fn words(&self) -> String {
        match &self.tool {
            None => self.text.clone(),
            Some(tool) if self.text.is_empty() => format!("_{}…_", tool.replace('_', " ")),
            Some(tool) => format!("{}\n\n_{}…_", self.text, tool.replace('_', " ")),
        }
    }
}

/// Shows what a turn says, until no more of it is told.
async fn grow(to: &Address, channel: &dyn Channel, turn: TurnId, mut told: watch::Receiver<Said>) {
    let mut shown = None;
    loop {
        let more = told.wait_for(|said| !said.is_whole && shown.as_ref() != Some(said));
        let is_over = matches!(timeout(WRITES, more).await, Ok(Err(_)));
        if is_over {
            return;
        }
        let said = told.borrow().clone();
        if said.is_whole {
            continue;
        }
        let words = said.words();
        match channel.grow(to, turn, &words).await {
            // Of *typing* there is not too much: first words follow it at once.
            Ok(()) if words.is_empty() => shown = Some(said),
            Ok(()) => {
                shown = Some(said);
                sleep(STEP).await;
            }
            Err(error) => sleep(pause_after(&error)).await,
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

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::ids::MessageId;
    use famulus_core::message::MessageRole;
    use famulus_core::outbound::{Capabilities, Delivered, Outbound, ReplyRule};
    use tokio::time::Instant;

    /// What was shown, and after how many milliseconds.
    struct Wall {
        begun: Instant,
        shown: Mutex<Vec<(u128, String)>>,
        /// How often it does not take it.
        refuses: Mutex<usize>,
    }

    #[async_trait::async_trait]
    impl Channel for Wall {
        fn name(&self) -> &'static str {
            "wall"
        }

        fn capabilities(&self) -> Capabilities {
            let (limit, reply) = (None, ReplyRule::Text);
            Capabilities { limit, attachments: false, threads: false, idempotent: true, reply }
        }

        async fn send(&self, _message: &Outbound, _piece: usize) -> Result<Delivered, SendError> {
            Ok(Delivered::default())
        }

        async fn grow(&self, _to: &Address, _turn: TurnId, text: &str) -> Result<(), SendError> {
            let mut left = self.refuses.lock();
            if *left > 0 {
                *left -= 1;
                let (channel, reason) = ("wall".to_owned(), "busy".to_owned());
                return Err(SendError::NotSent { channel, reason, after: None });
            }
            // A timer may ring a millisecond late.
            let after = self.begun.elapsed().as_millis() / 10 * 10;
            self.shown.lock().push((after, text.to_owned()));
            Ok(())
        }
    }

    /// What is seen of a turn of which this is told, each after so many milliseconds.
    async fn seen(refuses: usize, told: &[(u64, Event)]) -> Vec<(u128, String)> {
        let (begun, shown, refuses) = (Instant::now(), Mutex::default(), Mutex::new(refuses));
        let wall = Wall { begun, shown, refuses };
        let to = Address {
            channel: "wall".to_owned(),
            account: String::new(),
            chat: "7".to_owned(),
            thread: None,
            reply_to: None,
        };
        let (sender, said) = watch::channel(Said::default());
        let tell = async {
            for (after, event) in told {
                tokio::time::sleep_until(begun + Duration::from_millis(*after)).await;
                sender.send_modify(|said| said.take(event));
            }
            drop(sender);
        };
        tokio::join!(grow(&to, &wall, TurnId::new(), said), tell);
        wall.shown.into_inner()
    }

    fn text(text: &str) -> Event {
        Event::Delta { turn: TurnId::new(), kind: DeltaKind::Text, text: text.to_owned() }
    }

    fn whole() -> Event {
        let (turn, message) = (TurnId::new(), MessageId::new());
        Event::Message { turn, message, role: MessageRole::Assistant }
    }

    fn shown(expected: &[(u128, &str)]) -> Vec<(u128, String)> {
        expected.iter().map(|(after, text)| (*after, (*text).to_owned())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn first_words_are_shown_at_once_and_further_ones_once_a_second() {
        let told =
            [(300, text("One")), (310, text(" two")), (900, text(" three")), (1500, whole())];
        let seen = seen(0, &told).await;
        assert_eq!(seen, shown(&[(0, ""), (300, "One"), (1300, "One two three")]));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_shown_behind_a_whole_message_until_something_else_is_said() {
        let told = [(100, text("One")), (200, whole()), (20_000, text("Two")), (20_500, whole())];
        let seen = seen(0, &told).await;
        assert_eq!(seen, shown(&[(0, ""), (100, "One"), (20_000, "Two")]));
    }

    #[tokio::test(start_paused = true)]
    async fn that_somebody_writes_is_said_again_before_it_goes() {
        let seen = seen(0, &[(9000, text("One")), (9500, whole())]).await;
        assert_eq!(seen, shown(&[(0, ""), (4000, ""), (8000, ""), (9000, "One")]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_take_it_is_left_alone_for_a_while() {
        let seen = seen(1, &[(1000, text("One")), (6000, text(" two")), (6500, whole())]).await;
        assert_eq!(seen, shown(&[(5000, "One"), (6000, "One two")]));
    }
}
