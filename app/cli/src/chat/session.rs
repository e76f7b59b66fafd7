//! What lasts from one message to the next: the conversation, the place in its events, and the
//! streams of this process. Sends messages; what comes back is followed in [`super::follow`].

use famulus_core::event::EventId;
use famulus_core::ids::{ConversationId, MessageId, TurnId};
use famulus_core::model::Usage;
use reqwest::Method;
use serde_json::json;

use crate::client::Client;
use crate::error::Error;
use crate::feed::Feed;
use crate::input::Lines;
use crate::interrupts::Interrupts;
use crate::output::Output;
use crate::timeouts::{LONGEST_ASKED, Timeouts};
use crate::wire::{Accepted, Conversation, Me, Meeting, NewMessage};

/// The conversation that every person has.
pub(crate) const MAIN: &str = "main";
/// Times that a message is sent before it is given up; the key makes it count once.
const ATTEMPTS: u32 = 5;

pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) me: Me,
    pub(crate) output: Output,
    pub(crate) interrupts: Interrupts,
    pub(crate) timeouts: Timeouts,
    /// Messages of a pipe, and the answers to approvals.
    pub(crate) input: Lines,
    /// Whether somebody sits there who can be asked.
    pub(crate) asks: bool,
    pub(crate) reasoning: bool,
    /// An id, or [`MAIN`].
    pub(crate) conversation: String,
    /// The last event that was seen of the conversation.
    pub(crate) position: EventId,
    pub(crate) last_turn: Option<TurnId>,
    /// Tokens used by the turns that this session followed.
    pub(crate) spent: Usage,
    /// The conversations of the last list, in its order.
    pub(crate) listed: Vec<ConversationId>,
}

/// Something for the conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outgoing<'a> {
    Message {
        text: &'a str,
        meeting: Option<Meeting>,
    },
    /// Go on with a turn that a limit ended.
    Continue(TurnId),
}

/// What was accepted, and the events that tell what comes of it.
pub(crate) struct SentMessage {
    pub(crate) accepted: Accepted,
    pub(crate) feed: Feed,
}

impl Session {
    /// Sends something to the conversation, whose events are opened first, so that no turn is so
    /// fast that its progress is missed. `None` when Ctrl-C came before the answer.
    pub(crate) async fn send(
        &mut self,
        outgoing: Outgoing<'_>,
    ) -> Result<Option<SentMessage>, Error> {
        self.interrupts.forget();
        let sending = async {
            let feed = open(&self.client, &self.conversation, self.position, self.timeouts).await?;
            let accepted = post(&self.client, &self.conversation, outgoing, self.timeouts).await?;
            Ok((feed, accepted))
        };
        let (feed, accepted) = tokio::select! {
            sent = sending => sent?,
            () = self.interrupts.next() => return Ok(None),
        };
        self.conversation = accepted.conversation_id.to_string();
        let feed = feed.unwrap_or_else(|| self.feed());
        Ok(Some(SentMessage { accepted, feed }))
    }

    /// The events of the conversation from where this session is.
    pub(crate) fn feed(&self) -> Feed {
        Feed::open(&self.client, &self.conversation, self.position, self.timeouts)
    }

    /// Goes on in another conversation.
    pub(crate) fn enter(&mut self, conversation: String) {
        self.conversation = conversation;
        self.position = EventId::START;
        self.last_turn = None;
    }

    pub(crate) async fn begin(&self, title: Option<&str>) -> Result<Conversation, Error> {
        let body = title.map_or_else(|| json!({}), |title| json!({ "title": title }));
        self.client.send(Method::POST, &["v1", "conversations"], &body, "a conversation").await
    }

    pub(crate) async fn find(&self, conversation: &str) -> Result<Conversation, Error> {
        find(&self.client, conversation).await
    }
}

/// Reads a conversation by its id or by the name `main`.
pub(crate) async fn find(client: &Client, given: &str) -> Result<Conversation, Error> {
    let missing = || Error::NoConversation { given: crate::clean::one_line(given) };
    if given != MAIN && given.parse::<ConversationId>().is_err() {
        return Err(missing());
    }
    let found = client.get(&["v1", "conversations", given], &[], "a conversation").await;
    found.map_err(|error| if error.status() == Some(404) { missing() } else { error })
}

/// `None` for a main conversation that its first message has yet to open.
async fn open(
    client: &Client,
    conversation: &str,
    position: EventId,
    timeouts: Timeouts,
) -> Result<Option<Feed>, Error> {
    let mut feed = Feed::open(client, conversation, position, timeouts);
    match feed.opened().await {
        Ok(()) => Ok(Some(feed)),
        Err(error) if error.status() == Some(404) && conversation == MAIN => Ok(None),
        Err(error) => Err(error),
    }
}

async fn post(
    client: &Client,
    conversation: &str,
    outgoing: Outgoing<'_>,
    timeouts: Timeouts,
) -> Result<Accepted, Error> {
    const WHAT: &str = "an accepted message";
    let key = MessageId::new().to_string();
    let mut failures = 0;
    loop {
        let answer = match outgoing {
            Outgoing::Message { text, meeting } => {
                let path = ["v1", "conversations", conversation, "messages"];
                client.post_once(&path, &key, &NewMessage { text, meeting }, WHAT).await
            }
            Outgoing::Continue(turn) => {
                let turn = turn.to_string();
                let path = ["v1", "turns", turn.as_str(), "continue"];
                client.post_once(&path, &key, &json!({}), WHAT).await
            }
        };
        let error = match answer {
            Ok(accepted) => return Ok(accepted),
            Err(error) => error,
        };
        failures += 1;
        let too_long = error.retry_after().is_some_and(|asked| asked > LONGEST_ASKED);
        if failures >= ATTEMPTS || too_long || !error.is_passing() {
            return Err(error);
        }
        tokio::time::sleep(timeouts.pause(failures, error.retry_after())).await;
    }
}
