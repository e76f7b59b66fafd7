//! A message of ours as messages of Telegram, and each on its way.

use super::NAME;
use super::client::{CallError, Client};
use super::html::html;
use super::wire::Taken;
use crate::pieces::{self, Piece};
use crate::styled::Styled;
use famulus_core::{
    blob::{BlobError, BlobRef, Blobs},
    inbound::Attachment,
    outbound::{Button, Capabilities, Delivered, Limit, Outbound, ReplyRule, SendError, Unit},
};
use futures::TryStreamExt;
use reqwest::Body;
use reqwest::multipart::{Form, Part};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Of a text, and of the text below a file.
pub(super) const TEXT: Limit = Limit { most: 4096, unit: Unit::Utf16 };
const CAPTION: Limit = Limit { most: 1024, unit: Unit::Utf16 };
/// Bytes of a picture, and of any other file.
const PHOTO_BYTES: u64 = 10_000_000;
const FILE_BYTES: u64 = 50_000_000;
/// A token that is known no more is tried again so often.
const UNKNOWN: Duration = Duration::from_mins(1);

pub(super) const CAPABILITIES: Capabilities = Capabilities {
    limit: Some(TEXT),
    attachments: true,
    threads: true,
    idempotent: false,
    reply: ReplyRule::Text,
};

/// What a message becomes.
pub(super) fn pieces(message: &Outbound) -> Vec<Piece<'_>> {
    pieces::pieces(message, TEXT, CAPTION)
}

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rendering {
    Html,
    /// After it was refused with its styles.
    Plain,
}

/// Sends one piece.
pub(super) async fn send(
    client: &Client,
    blobs: &dyn Blobs,
    message: &Outbound,
    piece: &Piece<'_>,
) -> Result<Delivered, SendError> {
    let mut to = To::of(message);
    let mut rendering = Rendering::Html;
    // Each thing is corrected once, and nothing was sent before it.
    for _ in 0..4 {
        let asked = match piece {
            Piece::Text(styled) => {
                text(client, &to, styled, buttons(message, piece), rendering).await
            }
            Piece::File(file, caption) => {
                let opened = Opened::open(blobs, message, file).await?;
                opened.send(client, &to, caption.as_ref(), rendering).await
            }
        };
        match asked {
            Ok(Taken { message_id }) => {
                return Ok(Delivered { id: Some(message_id.to_string()) });
            }
            Err(CallError::Refused { moved_to: Some(moved), .. }) if to.moved.is_none() => {
                to.moved = Some(moved.to_string());
            }
            Err(CallError::Refused { description, .. })
                if description.contains("can't parse entities") && rendering == Rendering::Html =>
            {
                tracing::warn!(channel = NAME, description, "a rendering was refused");
                rendering = Rendering::Plain;
            }
            Err(CallError::Refused { description, .. })
                if description.contains("message thread not found") && to.thread.is_some() =>
            {
                to.thread = None;
            }
            Err(error) => return Err(failed(&error)),
        }
    }
    Err(refused("it refuses the message however it is written".to_owned()))
}

/// Where a message goes.
struct To {
    chat: String,
    moved: Option<String>,
    thread: Option<String>,
    answers: Option<String>,
}

impl To {
    fn of(message: &Outbound) -> Self {
        let to = &message.to;
        Self {
            chat: to.chat.clone(),
            moved: None,
            thread: to.thread.clone(),
            answers: to.reply_to.clone(),
        }
    }

    /// The fields of every method that sends.
    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let chat = self.moved.as_ref().unwrap_or(&self.chat);
        fields.insert("chat_id".to_owned(), number(chat));
        if let Some(thread) = &self.thread {
            fields.insert("message_thread_id".to_owned(), number(thread));
        }
        if let Some(message) = &self.answers {
            let reply = json!({"message_id": number(message), "allow_sending_without_reply": true});
            fields.insert("reply_parameters".to_owned(), reply);
        }
        fields
    }
}

/// Ids are numbers there; one that is none is refused there, by its name.
pub(super) fn number(id: &str) -> Value {
    id.parse::<i64>().map_or_else(|_| json!(id), |number| json!(number))
}

fn write(styled: &Styled, rendering: Rendering) -> String {
    match rendering {
        Rendering::Html => html(styled),
        Rendering::Plain => styled.text(),
    }
}

/// Buttons stand under the last text.
fn buttons<'a>(message: &'a Outbound, piece: &Piece<'_>) -> &'a [Button] {
    let all = pieces(message);
    let last = all.iter().rev().find(|piece| matches!(piece, Piece::Text(_)));
    if last == Some(piece) { &message.buttons } else { &[] }
}

async fn text(
    client: &Client,
    to: &To,
    styled: &Styled,
    buttons: &[Button],
    rendering: Rendering,
) -> Result<Taken, CallError> {
    let mut fields = to.fields();
    if !buttons.is_empty() {
        let row: Vec<Value> = buttons
            .iter()
            .map(|button| json!({"text": button.text, "callback_data": button.data}))
            .collect();
        fields.insert("reply_markup".to_owned(), json!({"inline_keyboard": [row]}));
    }
    fields.insert("text".to_owned(), json!(write(styled, rendering)));
    if rendering == Rendering::Html {
        fields.insert("parse_mode".to_owned(), json!("HTML"));
    }
    client.call("sendMessage", &fields, Duration::ZERO).await
}

/// A file of ours that is being read.
struct Opened {
    blob: BlobRef,
    name: String,
    body: Body,
}

impl Opened {
    async fn open(
        blobs: &dyn Blobs,
        message: &Outbound,
        file: &Attachment,
    ) -> Result<Self, SendError> {
        let gone = || refused(format!("the file `{}` is nobody's", file.name));
        let person = message.person.ok_or_else(gone)?;
        let (blob, pieces) =
            blobs.get(person, file.blob.id).await.map_err(|error| match error {
                BlobError::Missing { .. } => refused(format!("the file `{}` is gone", file.name)),
                BlobError::TooLarge { .. } | BlobError::Cut(_) | BlobError::Store(_) => {
                    not_sent("the file could not be read".to_owned(), None)
                }
            })?;
        if blob.size > FILE_BYTES {
            let why =
                format!("the file `{}` is larger than 50 MB, which Telegram takes", file.name);
            return Err(refused(why));
        }
        let body = Body::wrap_stream(pieces.map_err(std::io::Error::other));
        Ok(Self { blob, name: file.name.clone(), body })
    }

    async fn send(
        self,
        client: &Client,
        to: &To,
        caption: Option<&Styled>,
        rendering: Rendering,
    ) -> Result<Taken, CallError> {
        let Self { blob, name, body } = self;
        let (method, field) = method(&blob);
        let mut form = Form::new();
        for (name, value) in to.fields() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            form = form.text(name, text);
        }
        if let Some(caption) = caption.filter(|caption| !caption.runs.is_empty()) {
            form = form.text("caption", write(caption, rendering));
            if rendering == Rendering::Html {
                form = form.text("parse_mode", "HTML");
            }
        }
        let mut part = Part::stream_with_length(body, blob.size).file_name(name);
        // Without a kind it is one of unknown bytes.
        if Part::text("").mime_str(&blob.mime).is_ok() {
            part = part.mime_str(&blob.mime).map_err(|_| CallError::Unreached("no such kind"))?;
        }
        client.upload(method, form.part(field, part)).await
    }
}

/// By what a file is: a picture, a voice, a sound, a film, or just a file.
fn method(blob: &BlobRef) -> (&'static str, &'static str) {
    match blob.mime.as_str() {
        "image/jpeg" | "image/png" | "image/webp" if blob.size <= PHOTO_BYTES => {
            ("sendPhoto", "photo")
        }
        "image/gif" => ("sendAnimation", "animation"),
        "audio/ogg" => ("sendVoice", "voice"),
        "audio/mpeg" | "audio/mp4" | "audio/x-m4a" => ("sendAudio", "audio"),
        "video/mp4" => ("sendVideo", "video"),
        _ => ("sendDocument", "document"),
    }
}

pub(super) fn failed(error: &CallError) -> SendError {
    match error {
        CallError::Unreached(_) | CallError::Down(_) | CallError::Conflict(_) => {
            not_sent(error.to_string(), None)
        }
        CallError::Busy { after } => not_sent(error.to_string(), Some(*after)),
        // Somebody may give a new one before the day is over.
        CallError::Unauthorized(_) => not_sent(error.to_string(), Some(UNKNOWN)),
        CallError::Unanswered(_) => SendError::Unknown { channel: NAME.to_owned() },
        CallError::Refused { code: 403, description, .. } => {
            SendError::Unreachable { channel: NAME.to_owned(), reason: description.clone() }
        }
        CallError::Refused { .. } => refused(error.to_string()),
    }
}

fn not_sent(reason: String, after: Option<Duration>) -> SendError {
    SendError::NotSent { channel: NAME.to_owned(), reason, after }
}

pub(super) fn refused(reason: String) -> SendError {
    SendError::Refused { channel: NAME.to_owned(), reason }
}
