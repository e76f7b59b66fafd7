//! Listening to the bot's updates by long polls, and fetching files.

use super::client::{CallError, Client};
use super::read::{happening, number};
use super::redact::redacted;
use super::wire::{FilePath, GetUpdates, Me, Update};
use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::inbound::IN_CHATS;
use famulus_core::intake::{
    Account, Arrival, FetchError, Happening, Keep, ListenError, Listener, Press, RemoteFile,
    Written,
};
use futures::{StreamExt, stream::BoxStream};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Seconds that a poll waits; the platform cuts what is longer to this.
const POLL: u64 = 50;
const BATCH: u32 = 100;
/// What is asked for. The list is kept there, so it is told each time.
const KINDS: [&str; 4] = ["message", "edited_message", "callback_query", "my_chat_member"];
/// Between two polls that brought nothing.
const APART: Duration = Duration::from_secs(1);
/// After a poll that another process ended.
const CONFLICT: Duration = Duration::from_secs(5);
/// Characters that a press shows.
const SHOWN: usize = 200;
/// Of a message that nobody can delete any more.
const GONE: &str = "message to delete not found";
/// Bytes of a file that the platform gives.
const LARGEST: u64 = 20 * 1024 * 1024;

pub(super) struct TelegramListener {
    client: Arc<Client>,
}

/// By what an update is confirmed.
#[derive(Deserialize)]
struct Number {
    update_id: i64,
}

/// As much of an update as is needed to keep it in its order.
#[derive(Default, Deserialize)]
struct Head {
    message: Option<HeadMessage>,
    edited_message: Option<HeadMessage>,
    callback_query: Option<HeadPress>,
    my_chat_member: Option<HeadMessage>,
}

#[derive(Deserialize)]
struct HeadMessage {
    chat: HeadChat,
}

#[derive(Deserialize)]
struct HeadPress {
    from: HeadChat,
    message: Option<HeadMessage>,
}

#[derive(Deserialize)]
struct HeadChat {
    id: i64,
}

impl Head {
    /// What happens in one chat keeps its order.
    fn chat(&self) -> String {
        let message = self.message.as_ref().or(self.edited_message.as_ref());
        let message = message.or(self.my_chat_member.as_ref());
        let press = self.callback_query.as_ref();
        let of_press = || press.and_then(|press| press.message.as_ref()).map(|one| one.chat.id);
        let of_presser = || press.map(|press| press.from.id);
        let chat = message.map(|one| one.chat.id).or_else(of_press).or_else(of_presser);
        chat.unwrap_or_default().to_string()
    }
}

impl TelegramListener {
    pub(super) fn new(client: Arc<Client>) -> Self {
        Self { client }
    }

    /// What people are shown to type. Without it they are understood all the same.
    async fn show_commands(&self) {
        let commands = IN_CHATS
            .map(|(command, _behind, what)| json!({"command": command, "description": what}));
        let asked = json!({"commands": commands, "scope": {"type": "all_private_chats"}});
        let shown: Result<bool, _> =
            self.client.call("setMyCommands", &asked, Duration::ZERO).await;
        if let Err(error) = shown {
            tracing::debug!(%error, "people are not shown what they can type");
        }
    }

    /// Asks what there is, and waits for so many seconds while there is nothing.
    async fn polled(
        &self,
        place: &mut i64,
        seconds: u64,
        keep: &dyn Keep,
    ) -> Result<(), ListenError> {
        let asked =
            GetUpdates { offset: *place, limit: BATCH, timeout: seconds, allowed_updates: &KINDS };
        let updates: Vec<Box<RawValue>> = self
            .client
            .call("getUpdates", &asked, Duration::from_secs(seconds))
            .await
            .map_err(|error| ended(&error))?;
        let mut arrivals = Vec::with_capacity(updates.len());
        let mut next = *place;
        for update in &updates {
            // Without a number it cannot be confirmed, and nothing else of the answer is to be believed.
            let Ok(Number { update_id }) = serde_json::from_str(update.get()) else {
                let reason = "Telegram: an update has no number".to_owned();
                return Err(ListenError::Passing { reason, after: None });
            };
            // What is of a shape that nobody knows is kept all the same: it reads as nothing.
            let head: Head = serde_json::from_str(update.get()).unwrap_or_default();
            next = next.max(update_id + 1);
            arrivals.push(Arrival {
                key: update_id.to_string(),
                chat: head.chat(),
                body: update.get().as_bytes().to_vec(),
            });
        }
        if !arrivals.is_empty() {
            keep.keep(arrivals, Some(&next.to_string())).await?;
        }
        keep.heard().await;
        *place = next;
        Ok(())
    }
}

#[async_trait]
impl Listener for TelegramListener {
    async fn account(&self) -> Result<Account, ListenError> {
        let me: Me = self
            .client
            .call("getMe", &json!({}), Duration::ZERO)
            .await
            .map_err(|error| ended(&error))?;
        let link = |name: &String| format!("https://t.me/{name}?start=");
        Ok(Account {
            id: me.id.to_string(),
            link: me.username.as_ref().map(link),
            name: me.username.map(|name| format!("@{name}")),
        })
    }

    async fn listen(&self, place: Option<String>, keep: &dyn Keep) -> ListenError {
        self.show_commands().await;
        let mut place = place.and_then(|place| place.parse().ok()).unwrap_or_default();
        // Whether the platform hears us is known at once.
        let mut seconds = 0;
        loop {
            let (before, begun) = (place, Instant::now());
            if let Err(error) = self.polled(&mut place, seconds, keep).await {
                return error;
            }
            seconds = POLL;
            // Who answers an empty poll at once is not asked in a circle.
            if place == before {
                sleep_until(begun + APART).await;
            }
        }
    }

    fn read(&self, account: &str, body: &[u8]) -> Happening {
        match serde_json::from_slice::<Update>(body) {
            Ok(update) => happening(account, update),
            Err(error) => {
                tracing::warn!(%error, "an update could not be read");
                Happening::Nothing
            }
        }
    }

    fn redacted(&self, _: &str, body: &[u8]) -> Option<Vec<u8>> {
        redacted(body)
    }

    async fn answer_press(&self, press: &Press, told: Option<&str>) -> Result<(), ListenError> {
        let shown: String = told.unwrap_or_default().chars().take(SHOWN).collect();
        let asked = json!({"callback_query_id": press.id, "text": shown});
        let answered: Result<bool, _> =
            self.client.call("answerCallbackQuery", &asked, Duration::ZERO).await;
        answered.map(drop).map_err(|error| ended(&error))
    }

    async fn leave(&self, chat: &str) -> Result<(), ListenError> {
        let asked = json!({"chat_id": chat});
        let left: Result<bool, _> = self.client.call("leaveChat", &asked, Duration::ZERO).await;
        left.map(drop).map_err(|error| ended(&error))
    }

    async fn delete(&self, written: &Written) -> Result<(), ListenError> {
        let asked = json!({"chat_id": written.chat.id, "message_id": number(written)});
        let deleted: Result<bool, _> =
            self.client.call("deleteMessage", &asked, Duration::ZERO).await;
        match deleted {
            Err(CallError::Refused { description, .. }) if description.contains(GONE) => Ok(()),
            other => other.map(drop).map_err(|error| ended(&error)),
        }
    }

    async fn fetch(
        &self,
        file: &RemoteFile,
    ) -> Result<BoxStream<'static, io::Result<Bytes>>, FetchError> {
        if file.size.is_some_and(|size| size > LARGEST) {
            return Err(too_large());
        }
        let asked = json!({"file_id": file.handle});
        let found: FilePath = self
            .client
            .call("getFile", &asked, Duration::ZERO)
            .await
            .map_err(|error| unfetched(&error))?;
        if found.file_size.is_some_and(|size| size > LARGEST) {
            return Err(too_large());
        }
        let path = found.file_path.ok_or_else(|| FetchError::Lasting {
            reason: "Telegram names no path for it".to_owned(),
        })?;
        let pieces = self.client.download(&path).await.map_err(|error| unfetched(&error))?;
        Ok(pieces.boxed())
    }
}

fn too_large() -> FetchError {
    FetchError::Lasting { reason: "it is larger than 20 MB, which bots are given".to_owned() }
}

fn unfetched(error: &CallError) -> FetchError {
    let reason = error.to_string();
    match error {
        CallError::Refused { .. } => FetchError::Lasting { reason },
        CallError::Unreached(_)
        | CallError::Unanswered(_)
        | CallError::Busy { .. }
        | CallError::Unauthorized(_)
        | CallError::Conflict(_)
        | CallError::Down(_) => FetchError::Passing { reason },
    }
}

fn ended(error: &CallError) -> ListenError {
    let reason = format!("Telegram: {error}");
    match error {
        CallError::Unreached(_) | CallError::Unanswered(_) | CallError::Down(_) => {
            ListenError::Passing { reason, after: None }
        }
        CallError::Busy { after } => ListenError::Passing { reason, after: Some(*after) },
        CallError::Conflict(said) if said.contains("webhook") => ListenError::Lasting {
            reason,
            remedy: "the bot sends its updates to a webhook; remove it with deleteWebhook"
                .to_owned(),
        },
        CallError::Conflict(_) => ListenError::Passing { reason, after: Some(CONFLICT) },
        CallError::Unauthorized(_) => ListenError::Lasting {
            reason,
            remedy: "correct `channels.telegram.token`, or make a new one with BotFather"
                .to_owned(),
        },
        CallError::Refused { .. } => {
            ListenError::Lasting { reason, remedy: "see docs/CHANNELS.md".to_owned() }
        }
    }
}
