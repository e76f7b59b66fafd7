//! A message of ours as messages of Signal, and each on its way.

use super::NAME;
use super::client::{CallError, Client};
use super::ranges::{Ranged, ranged};
use super::read::is_account;
use super::wire::{Outcome, Taken};
use crate::pieces::{self, Piece};
use crate::styled::Styled;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use famulus_core::{
    blob::{BlobError, Blobs},
    inbound::Attachment,
    outbound::{Capabilities, Delivered, Limit, Outbound, ReplyRule, SendError, Unit},
};
use futures::StreamExt;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// What is longer than 2,000 bytes travels as a file and is shown as a text; beyond 64 KiB it is cut. Marks
/// of quotes and addresses of links are added to this.
const TEXT: Limit = Limit { most: 48 * 1024, unit: Unit::Bytes };
/// Bytes of a file: within a call it is a text of 20,000,000 letters at most.
const FILE_BYTES: u64 = 14_900_000;
/// Who is asked to be left alone, and does not say for how long.
const BUSY: Duration = Duration::from_mins(1);

pub(super) const CAPABILITIES: Capabilities = Capabilities {
    limit: Some(TEXT),
    attachments: true,
    threads: false,
    idempotent: false,
    reply: ReplyRule::Text,
};

/// What a message becomes.
pub(super) fn pieces(message: &Outbound) -> Vec<Piece<'_>> {
    pieces::pieces(message, TEXT, TEXT)
}

/// Sends one piece.
pub(super) async fn send(
    client: &Client,
    blobs: &dyn Blobs,
    message: &Outbound,
    piece: &Piece<'_>,
) -> Result<Delivered, SendError> {
    let mut asked = to(&message.to.chat);
    match piece {
        Piece::Text(styled) => write(&mut asked, styled),
        Piece::File(file, caption) => {
            if let Some(caption) = caption {
                write(&mut asked, caption);
            }
            enclose(&mut asked, blobs, message, file).await?;
        }
    }
    taken(client, asked).await
}

/// Puts a text in the place of one that was sent. Twice is once.
pub(super) async fn edit(
    client: &Client,
    message: &Outbound,
    ids: &[String],
) -> Result<(), SendError> {
    let Some(id) = ids.last().and_then(|id| id.parse::<i64>().ok()) else { return Ok(()) };
    let all = pieces(message);
    let Some(Piece::Text(styled)) = all.first() else {
        return Err(refused("a message there is changed by words alone".to_owned()));
    };
    let mut asked = to(&message.to.chat);
    write(&mut asked, styled);
    asked["editTimestamp"] = json!(id);
    taken(client, asked).await.map(drop)
}

/// Shows that somebody writes, for a quarter of a minute.
pub(super) async fn typing(client: &Client, chat: &str) -> Result<(), SendError> {
    let shown = client.call::<Value>("sendTyping", to(chat)).await;
    shown.map(drop).map_err(|error| failed(&error))
}

/// People by their account ids, groups by theirs.
fn to(chat: &str) -> Value {
    if is_account(chat) { json!({"recipient": [chat]}) } else { json!({"groupId": [chat]}) }
}

fn write(asked: &mut Value, styled: &Styled) {
    let Ranged { text, styles } = ranged(styled);
    asked["message"] = json!(text);
    if !styles.is_empty() {
        asked["textStyle"] = json!(styles);
    }
}

async fn enclose(
    asked: &mut Value,
    blobs: &dyn Blobs,
    message: &Outbound,
    file: &Attachment,
) -> Result<(), SendError> {
    let gone = || refused(format!("the file `{}` is nobody's", file.name));
    let person = message.person.ok_or_else(gone)?;
    let (blob, mut pieces) =
        blobs.get(person, file.blob.id).await.map_err(|error| unread(&error, file))?;
    if blob.size > FILE_BYTES {
        return Err(refused(format!("the file `{}` is larger than 14.9 MB", file.name)));
    }
    let mut bytes = Vec::with_capacity(blob.size as usize);
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| unread(&error, file))?);
    }
    let name = escaped(&file.name);
    let mut address = format!("data:{};filename={name};base64,", blob.mime);
    BASE64_STANDARD.encode_string(&bytes, &mut address);
    drop(bytes);
    asked["attachment"] = json!([address]);
    if blob.mime == "audio/ogg" {
        asked["voiceNote"] = json!(true);
    }
    Ok(())
}

fn unread(error: &BlobError, file: &Attachment) -> SendError {
    match error {
        BlobError::Missing { .. } => refused(format!("the file `{}` is gone", file.name)),
        BlobError::TooLarge { .. } | BlobError::Cut(_) | BlobError::Store(_) => {
            not_sent("the file could not be read".to_owned(), None)
        }
    }
}

/// As a part of an address.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            escaped.push(byte.into());
        } else {
            let _to_a_string = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

async fn taken(client: &Client, asked: Value) -> Result<Delivered, SendError> {
    let taken: Taken = client.call("send", asked).await.map_err(|error| failed(&error))?;
    let Taken { timestamp, results } = taken;
    // In a group, to one of them is to all of them: it is not sent again for the others.
    let is_sent = results.is_empty() || results.iter().any(|outcome| outcome.kind == "SUCCESS");
    match results.first().filter(|_| !is_sent) {
        Some(outcome) => Err(judged(outcome)),
        None => Ok(Delivered { id: Some(timestamp.to_string()) }),
    }
}

/// What became of a message that did not go out.
fn judged(outcome: &Outcome) -> SendError {
    let Outcome { kind, token, retry_after_seconds } = outcome;
    match kind.as_str() {
        "UNREGISTERED_FAILURE" => SendError::Unreachable {
            channel: NAME.to_owned(),
            reason: "they are not on Signal any more".to_owned(),
        },
        "RATE_LIMIT_FAILURE" => {
            let reason = match token {
                Some(token) => format!(
                    "Signal wants to see that you are a person: solve \
                     https://signalcaptchas.org/challenge/generate.html and give the daemon \
                     `submitRateLimitChallenge` with the challenge {token} and what you were given"
                ),
                None => "Signal asks us to send less".to_owned(),
            };
            not_sent(reason, Some(retry_after_seconds.map_or(BUSY, Duration::from_secs)))
        }
        "IDENTITY_FAILURE" => refused(
            "their safety number changed: make sure that it is they, and trust it with \
             `signal-cli trust`"
                .to_owned(),
        ),
        "INVALID_PRE_KEY_FAILURE" => not_sent("their keys are being renewed".to_owned(), None),
        // The network of the daemon: nobody knows how far it came.
        _ => SendError::Unknown { channel: NAME.to_owned() },
    }
}

pub(super) fn failed(error: &CallError) -> SendError {
    match error {
        CallError::Unreached(_) | CallError::Other(_) => not_sent(error.to_string(), None),
        CallError::Account(_) => not_sent(error.to_string(), Some(BUSY)),
        CallError::Unanswered(_) => SendError::Unknown { channel: NAME.to_owned() },
        CallError::Refused { outcomes, .. } if !outcomes.is_empty() => outcomes
            .iter()
            .find(|one| one.kind != "SUCCESS")
            .map_or_else(|| SendError::Unknown { channel: NAME.to_owned() }, judged),
        CallError::Refused { code, message, .. } => match code {
            // Somebody may link it before the day is over.
            -32602 | -5 => not_sent(message.clone(), Some(BUSY)),
            -32603 | -3 if !is_about_files(message) => {
                SendError::Unknown { channel: NAME.to_owned() }
            }
            _ => refused(message.clone()),
        },
    }
}

/// Before anything was sent the files were read.
fn is_about_files(message: &str) -> bool {
    message.to_ascii_lowercase().contains("attachment")
}

fn not_sent(reason: String, after: Option<Duration>) -> SendError {
    SendError::NotSent { channel: NAME.to_owned(), reason, after }
}

fn refused(reason: String) -> SendError {
    SendError::Refused { channel: NAME.to_owned(), reason }
}
