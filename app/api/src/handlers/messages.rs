//! Messages of a conversation: read back, and sent without waiting for the reply.

use crate::{
    app::App,
    body::{Authenticated, Json, QueryParams},
    handlers::{Answer, commands::said, conversations, json, ok, page},
    object::Object,
    problem::Problem,
    words::WRITTEN,
};
use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
};
use famulus_channels::http::entry;
use famulus_core::{
    accept,
    clock::Rfc3339,
    ids::{BlobId, ConversationId, MessageId, TurnId},
    inbound::{Meeting, Source},
    message::{MessageRole, Part},
    person::Caller,
    place,
    sent::Sent,
};
use famulus_reception::{File, Received, STEERED};
use famulus_store::{MAIN_AGENT, MessageCursor, MessageView};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Characters of an `Idempotency-Key`.
const KEY: usize = 255;
/// What it looks like.
pub(crate) const KEY_PATTERN: &str = "^[!-~]{1,255}$";
/// Attachments of one message.
pub(crate) const ATTACHMENTS: usize = 32;
/// Messages that one request lists.
const LISTED: i64 = 200;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    /// At most this many, 50 unless told.
    #[schemars(range(min = 1, max = LISTED))]
    limit: Option<i64>,
    /// The cursor of the page that was received.
    #[schemars(regex(pattern = place::PATTERN))]
    before: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Messages {
    /// Oldest first.
    messages: Vec<Message>,
    /// Where the page before this one ends; null when there is none.
    before: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Message {
    id: MessageId,
    seq: i64,
    role: MessageRole,
    turn_id: TurnId,
    parts: Vec<Part>,
    /// The text parts, joined.
    text: String,
    has_text: bool,
    model: Option<String>,
    #[schemars(with = "Rfc3339")]
    created_at: Timestamp,
}

impl From<MessageView> for Message {
    fn from(view: MessageView) -> Self {
        Self {
            id: view.id,
            seq: view.seq,
            role: view.role,
            turn_id: view.turn,
            parts: view.parts,
            text: view.text,
            has_text: view.has_text,
            model: view.model,
            created_at: view.created_at,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [
    {"required": ["text"], "properties": {"text": {"pattern": WRITTEN}}},
    {"required": ["attachments"], "properties": {"attachments": {"minItems": 1}}},
]))]
pub(crate) struct NewMessage {
    #[serde(default)]
    text: String,
    /// Files that were stored with `POST /v1/blobs`.
    #[serde(default)]
    #[schemars(length(max = ATTACHMENTS))]
    attachments: Vec<Object<Attached>>,
    /// How it meets a turn that runs: joins it, or waits for its own.
    #[serde(default)]
    meeting: Meeting,
}

/// A stored file that goes with a message.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Attached {
    blob: Object<AttachedBlob>,
    /// How it is shown; never a path.
    #[serde(default)]
    name: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
struct AttachedBlob {
    id: BlobId,
}

/// A message that was stored.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Accepted {
    pub(crate) conversation_id: ConversationId,
    /// Null for a command, which is not kept.
    pub(crate) message_id: Option<MessageId>,
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) disposition: Disposition,
    /// What to tell the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Disposition {
    Started,
    Steered,
    Duplicate,
    /// It was a command, and is done.
    Command,
}

impl From<accept::Disposition> for Disposition {
    fn from(disposition: accept::Disposition) -> Self {
        match disposition {
            accept::Disposition::Started => Self::Started,
            accept::Disposition::Steered => Self::Steered,
            accept::Disposition::Duplicate => Self::Duplicate,
        }
    }
}

impl From<Received> for Accepted {
    fn from(received: Received) -> Self {
        match received {
            Received::Obeyed { conversation, outcome } => Self {
                conversation_id: conversation,
                message_id: None,
                turn_id: None,
                disposition: Disposition::Command,
                notice: Some(said(&outcome)),
            },
            Received::Accepted(accepted) => {
                let disposition = Disposition::from(accepted.disposition);
                Self {
                    conversation_id: accepted.conversation,
                    message_id: Some(accepted.message),
                    turn_id: Some(accepted.turn),
                    disposition,
                    notice: (disposition == Disposition::Steered).then(|| STEERED.to_owned()),
                }
            }
        }
    }
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<ListQuery>,
) -> Answer {
    let before =
        asked.before.map(|text| text.parse::<MessageCursor>()).transpose().map_err(|error| {
            Problem::bad(error.to_string(), "send the cursor as it was received")
        })?;
    let id = conversations::existing(&app, &caller.person, &id).await?;
    let limit = page(asked.limit, LISTED)?;
    let found = app.api.store.messages(caller.person.id, id, before, limit).await?;
    ok(&Messages {
        messages: found.items.into_iter().map(Into::into).collect(),
        before: found.before.map(|cursor| cursor.to_string()),
    })
}

pub(crate) async fn send(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(new, _held): Json<NewMessage>,
) -> Answer {
    let conversation = conversations::named(&id)?;
    let key = key(&headers)?;
    let NewMessage { text, attachments, meeting } = new;
    if text.trim().is_empty() && attachments.is_empty() {
        return Err(Problem::bad(
            "the message has neither text nor attachments",
            "write something into `text`, or attach a stored file",
        ));
    }
    let sent = Sent {
        text,
        attachments: Vec::new(),
        sender: None,
        source: Source::Http,
        conversation,
        agent: MAIN_AGENT,
        key,
        meeting,
        continues: None,
    };
    let entry = entry(&caller.person);
    let received = app.api.reception.receive(&caller, entry, sent, attached(attachments)?).await?;
    json(StatusCode::ACCEPTED, &Accepted::from(received))
}

/// Stores what is known to be a message; when this returns it is safe.
pub(crate) async fn accept(app: &App, caller: &Caller, sent: Sent) -> Result<Accepted, Problem> {
    let accepted = app.api.reception.accept(caller, entry(&caller.person), sent).await?;
    Ok(Received::Accepted(accepted).into())
}

/// The request's `Idempotency-Key`.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let visible = !value.is_empty()
        && value.len() <= KEY
        && value.as_bytes().iter().all(u8::is_ascii_graphic);
    match value.to_str() {
        Ok(key) if visible => Ok(Some(key.to_owned())),
        Ok(_) | Err(_) => Err(Problem::bad(
            format!("the Idempotency-Key is not 1 to {KEY} visible ASCII characters"),
            "send a UUID, for example",
        )),
    }
}

/// Stored files that go with a message.
pub(crate) fn attached(files: Vec<Object<Attached>>) -> Result<Vec<File<'static>>, Problem> {
    if files.len() > ATTACHMENTS {
        return Err(Problem::bad(
            format!("the message has more than {ATTACHMENTS} attachments"),
            "send several messages",
        ));
    }
    let stored = |Object(Attached { blob: Object(blob), name })| File::Stored { id: blob.id, name };
    Ok(files.into_iter().map(stored).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_key_is_short_visible_ascii() {
        let check = |value: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("idempotency-key", HeaderValue::from_bytes(value.as_bytes()).unwrap());
            assert_eq!(key(&headers).is_ok(), expected, "{value}");
        };
        check("0190-a", true);
        check(&"k".repeat(255), true);
        check(&"k".repeat(256), false);
        check("a b", false);
        check("", false);
        check("é", false);
        assert_eq!(key(&HeaderMap::new()).unwrap(), None);
    }
}
