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
    files::{self, InlineFile},
    handlers::{
        Answer, commands, conversations, json,
        messages::{self, ATTACHMENTS, Accepted, Attached, Disposition},
        ok,
    },
    problem::Problem,
    viewers::{Progress, Waiter},
};
use axum::{
    extract::{Request, State},
    http::StatusCode,
};
use famulus_channels::http::inbound::Sent;
use famulus_core::{
    ids::{ConversationId, MessageId, PersonId, TurnId},
    inbound::{Command, Meeting, Source},
    turn::TurnState,
};
use famulus_store::MAIN_AGENT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc, time::Duration};
use tokio::time::Instant;

/// First pause before a turn that runs elsewhere is asked after; it doubles.
const FIRST_LOOK: Duration = Duration::from_millis(250);
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// A turn that runs here reports its end itself; asking is for a worker that lost its lease.
const LOOK_HERE: Duration = Duration::from_secs(5);

/// What whoever waits for a turn that was stopped is told.
const STOPPED: &str = "Stopped.";

/// The body of `POST /chat`, for the description; it is read with more patience.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what `Body` reads")]
pub(crate) struct ChatRequest {
    /// The text. `/stop`, `/approve CODE` and `/deny CODE` are commands.
    message: Option<String>,
    /// `cli` or anything else, which is `http`.
    source: Option<String>,
    /// Whom the caller speaks for; shown to the model, never an identity.
    sender: Option<String>,
    /// Files that were stored with `POST /v1/blobs`.
    attachments: Option<Vec<Attached>>,
    files: Option<Vec<File>>,
    /// A spoken message, in base64.
    audio: Option<String>,
    /// Its media type; unless told, what its first bytes say.
    #[serde(rename = "audioContentType")]
    audio_content_type: Option<String>,
    /// Answer at once with 202.
    r#async: Option<bool>,
    /// `main` or an id; the main conversation unless told.
    conversation_id: Option<String>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what `InlineFile` reads")]
struct File {
    /// Base64.
    data: String,
    filename: String,
    #[serde(rename = "mimeType")]
    mime_type: String,
}

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
#[derive(Serialize)]
struct AcceptedReply {
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
    let stored: Vec<Attached> = items(body.attachments);
    let mut inline: Vec<InlineFile<'_>> = items(body.files);
    if let Some(audio) = text(body.audio).filter(|audio| !audio.is_empty()) {
        let declared = text(body.audio_content_type);
        inline.push(InlineFile::spoken(audio, declared.as_deref())?);
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
    if inline.len() + stored.len() > ATTACHMENTS {
        return Err(Problem::bad(
            format!("the message has more than {ATTACHMENTS} files"),
            "send several messages",
        ));
    }
    if stored.is_empty()
        && inline.is_empty()
        && let Some(command) = message.as_deref().and_then(Command::parse)
    {
        let (conversation_id, response) =
            commands::obey(&app, &caller, conversation, command).await?;
        return ok(&ChatReply {
            response,
            conversation_id,
            message_id: None,
            turn_id: None,
            state: None,
            steered: None,
        });
    }
    let mut attachments = messages::attached(&app, &caller, stored).await?;
    for file in &inline {
        attachments.push(files::store(&app.api.store, &caller, file).await?);
    }
    let sent = Sent {
        text: message.map(Cow::into_owned).unwrap_or_default(),
        attachments,
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
    drop(inline);
    drop(bytes);
    let accepted = messages::accept(&app, &caller, sent).await?;
    // The turn may take minutes, and needs nothing of the body.
    drop(held);
    if !wait {
        return json(StatusCode::ACCEPTED, &taken(accepted, None));
    }
    if accepted.disposition == Disposition::Steered {
        return ok(&ChatReply {
            response: messages::STEERED.to_owned(),
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

struct End {
    turn: TurnId,
    state: TurnState,
    text: String,
}

/// The end of the turn that answers a message: one that failed may have handed it to another.
async fn answer_to(
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
        let files: Vec<InlineFile<'_>> = items(read.files);
        assert_eq!(files.len(), 2);
        let read = body(r#"{"files": {"data": "x"}}"#);
        assert!(items::<InlineFile<'_>>(read.files).is_empty());
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
