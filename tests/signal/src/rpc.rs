//! The methods, as strict as the real ones about what they are asked with.

use crate::register;
use crate::world::{File, Message, World};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

/// Times before are refused, by an error of the daemon's own.
const SMALLEST_TIME: i64 = 1 << 31;

/// Why a call has no result.
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Value,
}

type Answer = Result<Value, Refusal>;

pub(crate) fn refusal(code: i64, message: impl Into<String>) -> Refusal {
    Refusal { code, message: message.into(), data: Value::Null }
}

pub(crate) fn call(world: &mut World, method: &str, asked: &Value) -> Answer {
    match method {
        "version" => return Ok(json!({"version": "0.14.6"})),
        "listAccounts" => {
            let all = world.accounts.iter().map(|(number, _)| json!({ "number": number }));
            return Ok(all.collect());
        }
        "startLink" => {
            let now = world.now();
            let link = world.links.make(now);
            return Ok(json!({ "deviceLinkUri": link }));
        }
        "register" => return register::register(world, asked),
        "verify" => return register::verify(world, asked),
        _ => {}
    }
    account(world, asked)?;
    match method {
        "getUserStatus" => standing(world, asked),
        "send" => send(world, asked),
        "sendTyping" => {
            let to = recipients(asked)?;
            world.typing.extend(to);
            let now = world.now();
            Ok(json!({"timestamp": now, "results": []}))
        }
        "sendReceipt" => receipt(world, asked),
        "getAttachment" => {
            let id = asked["id"].as_str().ok_or_else(nothing)?;
            let bytes = world
                .file(id)
                .ok_or_else(|| refusal(-1, format!("Could not find attachment with ID: {id}")))?;
            Ok(json!({"data": BASE64_STANDARD.encode(bytes)}))
        }
        "quitGroup" => {
            let group = asked["groupId"].as_str().ok_or_else(nothing)?.to_owned();
            world.left.push(group);
            let now = world.now();
            Ok(json!({"timestamp": now, "results": []}))
        }
        _ => Err(refusal(-32601, "Method not implemented")),
    }
}

/// What is missing is missed late.
fn nothing() -> Refusal {
    refusal(-32603, "null (NullPointerException)")
}

fn account(world: &World, asked: &Value) -> Result<(), Refusal> {
    match (asked["account"].as_str(), world.accounts.as_slice()) {
        (Some(wanted), all) if all.iter().any(|(number, id)| number == wanted || id == wanted) => {
            Ok(())
        }
        (Some(_), _) => Err(refusal(-32602, "Specified account does not exist")),
        (None, [_]) => Ok(()),
        (None, _) => Err(refusal(-32602, "Method requires valid account parameter")),
    }
}

/// A name of one may be a list; a name of many must be.
fn list(asked: &Value, one: &str, many: &str) -> Result<Vec<String>, Refusal> {
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(wrong_kind);
    let mut all: Vec<&Value> = Vec::new();
    if let Some(values) = asked[one].as_array() {
        all.extend(values);
    } else if !asked[one].is_null() {
        all.push(&asked[one]);
    }
    if let Some(values) = asked[many].as_array() {
        all.extend(values);
    } else if !asked[many].is_null() {
        return Err(wrong_kind());
    }
    all.into_iter().map(text).collect()
}

fn wrong_kind() -> Refusal {
    refusal(-32603, "class cannot be cast (ClassCastException)")
}

fn recipients(asked: &Value) -> Result<Vec<String>, Refusal> {
    let mut all = list(asked, "recipient", "recipients")?;
    all.extend(list(asked, "groupId", "groupIds")?);
    if all.is_empty() {
        return Err(refusal(-1, "No recipients given"));
    }
    Ok(all)
}

fn standing(world: &World, asked: &Value) -> Answer {
    let all = list(asked, "recipient", "recipients")?;
    let found = all.into_iter().map(|recipient| {
        let ours =
            world.accounts.iter().find(|(number, id)| *number == recipient || *id == recipient);
        // Others by the last figures of their numbers.
        let figures = recipient.strip_prefix("+1555").and_then(|rest| rest.parse().ok());
        let id = ours.map(|(_, id)| id.clone()).or_else(|| figures.map(crate::people::id));
        let is_there = id.as_ref().is_some_and(|id| !world.gone.contains(id));
        json!({"recipient": recipient, "number": recipient, "uuid": id, "isRegistered": is_there})
    });
    Ok(found.collect())
}

fn receipt(world: &mut World, asked: &Value) -> Answer {
    let to = asked["recipient"].as_str().ok_or_else(nothing)?.to_owned();
    let times = &asked["targetTimestamp"];
    let times = times.as_array().map_or_else(|| std::slice::from_ref(times), Vec::as_slice);
    for time in times {
        world.receipts.push((to.clone(), timestamp(time)?));
    }
    let now = world.now();
    Ok(json!({"timestamp": now, "results": []}))
}

fn timestamp(value: &Value) -> Result<i64, Refusal> {
    let wrong = || refusal(-32603, "class java.lang.Integer cannot be cast (ClassCastException)");
    value.as_i64().filter(|time| *time > SMALLEST_TIME).ok_or_else(wrong)
}

fn send(world: &mut World, asked: &Value) -> Answer {
    let to = recipients(asked)?;
    let text = match asked["message"].as_str() {
        Some(text) => text.to_owned(),
        None if asked["message"].is_null() => String::new(),
        None => return Err(wrong_kind()),
    };
    let styles = list(asked, "textStyle", "textStyles")?;
    let styles = styles.iter().map(|style| covered(&text, style)).collect::<Result<Vec<_>, _>>()?;
    let files = list(asked, "attachment", "attachments")?;
    let files = files.iter().map(|address| file(address)).collect::<Result<Vec<_>, _>>()?;
    if text.is_empty() && files.is_empty() {
        return Err(refusal(-1, "No message or attachment given"));
    }
    let is_voice = match asked["voiceNote"].as_bool() {
        Some(is_voice) => is_voice,
        None if asked["voiceNote"].is_null() => false,
        None => return Err(wrong_kind()),
    };
    let now = world.now();
    let outcome = |to: &String| {
        let kind = if world.gone.contains(to) { "UNREGISTERED_FAILURE" } else { "SUCCESS" };
        json!({"recipientAddress": {"uuid": to, "number": null, "username": null}, "type": kind})
    };
    let results: Vec<Value> = to.iter().map(outcome).collect();
    let response = json!({"timestamp": now, "results": results});
    if to.iter().all(|to| world.gone.contains(to)) {
        let message = "Failed to send message".to_owned();
        return Err(Refusal { code: -1, message, data: json!({ "response": response }) });
    }
    let edits = Some(&asked["editTimestamp"]).filter(|time| !time.is_null());
    let edits = edits.map(timestamp).transpose()?;
    for to in to {
        let message = Message {
            timestamp: now,
            to,
            text: text.clone(),
            styles: styles.clone(),
            files: files.clone(),
            is_voice,
            edits: 0,
        };
        let old = edits.and_then(|time| {
            world.messages.iter_mut().find(|old| old.timestamp == time && old.to == message.to)
        });
        match (edits, old) {
            // Programs drop what changes a message that they do not have.
            (Some(_), None) => {}
            (Some(_), Some(old)) => *old = Message { edits: old.edits + 1, ..message },
            (None, _) => world.messages.push(message),
        }
    }
    Ok(response)
}

/// A style with the text that it covers.
fn covered(text: &str, style: &str) -> Result<(String, String), Refusal> {
    let wrong = || refusal(-1, format!("Invalid style string: {style}"));
    let [start, length, kind] = style.split(':').collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    let (start, length): (usize, usize) =
        (start.parse().map_err(|_| wrong())?, length.parse().map_err(|_| wrong())?);
    if !["BOLD", "ITALIC", "SPOILER", "STRIKETHROUGH", "MONOSPACE"].contains(&kind) {
        return Err(wrong());
    }
    let units: Vec<u16> = text.encode_utf16().collect();
    let covered = units.get(start..start + length).ok_or_else(wrong)?;
    let covered = String::from_utf16(covered).map_err(|_| wrong())?;
    Ok((kind.to_owned(), covered))
}

/// `data:MIME;filename=NAME;base64,DATA`, with one parameter; anything else is a path of the daemon's disk.
fn file(address: &str) -> Result<File, Refusal> {
    let unread = || refusal(-32603, "Failed to read attachment (AttachmentInvalidException)");
    let rest = address.strip_prefix("data:").ok_or_else(unread)?;
    let (head, data) = rest.split_once(";base64,").ok_or_else(unread)?;
    let (media_type, name) = head.split_once(";filename=").ok_or_else(unread)?;
    if name.contains(';') {
        return Err(unread());
    }
    let bytes = BASE64_STANDARD.decode(data).map_err(|_| unread())?;
    let name = unescaped(name).ok_or_else(unread)?;
    Ok(File { name, media_type: media_type.to_owned(), bytes: Bytes::from(bytes) })
}

fn unescaped(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}
