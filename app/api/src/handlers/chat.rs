//! `POST /chat`: a message in, the reply out.
//!
//! ```text
//! body ─► checks ─► command? ─► files become blobs ─► accepted ─► wait for the turn ─► reply
//! ```
//!
//! As lenient as bridges need it: a field of a wrong type counts as absent, except `async`.

use crate::{
    app::App,
    body::{Authenticated, BufferedBody, collect, parse},
    files::{InlineFile, unreadable},
    handlers::{
        Answer, conversations, json,
        messages::{self, ATTACHMENTS, Accepted, Attached, Disposition},
        ok,
        reply::{End, answer_to},
    },
    object::Object,
    problem::Problem,
};
use axum::{
    extract::{Request, State},
    http::StatusCode,
};
use famulus_channels::http::entry;
use famulus_core::{
    ids::{ConversationId, MessageId, PersonId, TurnId},
    inbound::{Meeting, Source},
    sent::Sent,
    turn::TurnState,
};
use famulus_reception::STEERED;
use famulus_store::MAIN_AGENT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};

/// The body as it is read: each field is looked at by itself.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    sender: Option<&'a RawValue>,
    #[serde(borrow, default)]
    attachments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    files: Option<&'a RawValue>,
    #[serde(borrow, default)]
    audio: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "audioContentType")]
    audio_content_type: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "async")]
    is_async: Option<&'a RawValue>,
    #[serde(borrow, default)]
    conversation_id: Option<&'a RawValue>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ChatReply {
    response: String,
    conversation_id: ConversationId,
    message_id: Option<MessageId>,
    turn_id: Option<TurnId>,
    state: Option<TurnState>,
    /// Set when the message joined a turn that was running.
    #[serde(skip_serializing_if = "Option::is_none")]
    steered: Option<bool>,
}

/// The answer to a message whose reply is not waited for.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AcceptedReply {
    accepted: bool,
    conversation_id: ConversationId,
    message_id: Option<MessageId>,
    turn_id: Option<TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

pub(crate) async fn chat(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    request: Request,
) -> Answer {
    let key = messages::key(request.headers())?;
    let limit = app.api.config.chat_body_bytes;
    let BufferedBody { bytes, held } = collect(request, limit, "api.chat_body_bytes", &app).await?;
    let body: Body<'_> = parse(&bytes)?;
    let wait = !is_async(body.is_async)?;
    let conversation = match text(body.conversation_id) {
        Some(named) => conversations::named(&named)?,
        None => None,
    };
    let message = text(body.message);
    let stored: Vec<Object<Attached>> = items(body.attachments);
    let mut inline: Vec<Object<InlineFile<'_>>> = items(body.files);
    if inline.len() > ATTACHMENTS {
        return Err(Problem::bad(
            format!("the message has more than {ATTACHMENTS} files"),
            "send several messages",
        ));
    }
    if let Some(audio) = text(body.audio).filter(|audio| !audio.is_empty()) {
        let declared = text(body.audio_content_type);
        inline.push(Object(InlineFile::spoken(audio, declared.as_deref())?));
    }
    if message.as_deref().is_none_or(|text| text.trim().is_empty())
        && stored.is_empty()
        && inline.is_empty()
    {
        return Err(Problem::bad(
            "the request has none of `message`, `audio`, `attachments` and `files`",
            "send {\"message\": \"...\"}",
        ));
    }
    let mut files = messages::attached(stored)?;
    files.extend(inline.iter().map(|Object(file)| file.pieces()));
    let sent = Sent {
        text: message.map(Cow::into_owned).unwrap_or_default(),
        attachments: Vec::new(),
        sender: text(body.sender).map(Cow::into_owned),
        source: match text(body.source).as_deref() {
            Some("cli") => Source::Cli,
            Some(_) | None => Source::Http,
        },
        conversation,
        agent: MAIN_AGENT,
        key,
        meeting: Meeting::Steer,
        continues: None,
    };
    let received = app.api.reception.receive(&caller, entry(&caller.person), sent, files).await;
    let accepted = Accepted::from(received.map_err(unreadable)?);
    // The turn may take minutes, and needs nothing of the body.
    drop(inline);
    drop(bytes);
    drop(held);
    if accepted.disposition == Disposition::Command {
        return ok(&ChatReply {
            response: accepted.notice.unwrap_or_default(),
            conversation_id: accepted.conversation_id,
            message_id: None,
            turn_id: None,
            state: None,
            steered: None,
        });
    }
    if !wait {
        return json(StatusCode::ACCEPTED, &taken(accepted, None));
    }
    if accepted.disposition == Disposition::Steered {
        return ok(&ChatReply {
            response: STEERED.to_owned(),
            conversation_id: accepted.conversation_id,
            message_id: accepted.message_id,
            turn_id: accepted.turn_id,
            state: Some(TurnState::Running),
            steered: Some(true),
        });
    }
    reply(&app, caller.person.id, accepted).await
}

/// Waits for the turn and answers with its text.
async fn reply(app: &Arc<App>, person: PersonId, accepted: Accepted) -> Answer {
    let (Some(message), Some(turn)) = (accepted.message_id, accepted.turn_id) else {
        return json(StatusCode::ACCEPTED, &taken(accepted, None));
    };
    let ended = tokio::select! {
        ended = answer_to(app, person, message, turn) => ended?,
        () = tokio::time::sleep(app.api.config.chat_wait()) => None,
        () = app.shutdown.cancelled() => None,
    };
    let Some(End { turn, state, text }) = ended else {
        let notice = format!("The reply is not there yet; GET /v1/turns/{turn} has it when it is.");
        return json(StatusCode::ACCEPTED, &taken(accepted, Some(notice)));
    };
    ok(&ChatReply {
        response: text,
        conversation_id: accepted.conversation_id,
        message_id: accepted.message_id,
        turn_id: Some(turn),
        state: Some(state),
        steered: None,
    })
}

fn taken(accepted: Accepted, notice: Option<String>) -> AcceptedReply {
    AcceptedReply {
        accepted: true,
        conversation_id: accepted.conversation_id,
        message_id: accepted.message_id,
        turn_id: accepted.turn_id,
        notice: notice.or(accepted.notice),
    }
}

/// A field's text; anything else counts as absent.
fn text(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    raw.and_then(|raw| serde_json::from_str::<Text<'_>>(raw.get()).ok()).map(|text| text.0)
}

/// The items of a list that are what they should be.
fn items<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Vec<T> {
    let raw = raw.and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
    raw.unwrap_or_default()
        .into_iter()
        .filter_map(|item| serde_json::from_str(item.get()).ok())
        .collect()
}

fn is_async(raw: Option<&RawValue>) -> Result<bool, Problem> {
    match raw.map(RawValue::get) {
        None | Some("null" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::bad("`async` is not true or false", "send true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Body<'_> {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_field_of_a_wrong_type_is_absent() {
        let read = body(r#"{"message": 5, "sender": {"a": 1}, "source": "cli", "more": []}"#);
        assert_eq!(text(read.message), None);
        assert_eq!(text(read.sender), None);
        assert_eq!(text(read.source).as_deref(), Some("cli"));
        let escaped = body(r#"{"message": "a\nb"}"#);
        assert_eq!(text(escaped.message).as_deref(), Some("a\nb"));
        let none = body(r#"{"message": null}"#);
        assert_eq!(text(none.message), None);
    }

    #[test]
    fn malformed_files_are_dropped() {
        let read = body(
            r#"{"files": [{"data": "aGk=", "filename": "a", "mimeType": "text/plain"},
                          {"data": 1}, "x", {"data": "aGk="}]}"#,
        );
        let files: Vec<Object<InlineFile<'_>>> = items(read.files);
        assert_eq!(files.len(), 2);
        let read = body(r#"{"files": {"data": "x"}}"#);
        assert!(items::<Object<InlineFile<'_>>>(read.files).is_empty());
    }

    #[test]
    fn async_is_a_boolean() {
        let check = |text: &str, expected: Option<bool>| {
            assert_eq!(is_async(body(text).is_async).ok(), expected, "{text}");
        };
        check("{}", Some(false));
        check(r#"{"async": true}"#, Some(true));
        check(r#"{"async": false}"#, Some(false));
        check(r#"{"async": "true"}"#, None);
        check(r#"{"async": 1}"#, None);
    }
}
