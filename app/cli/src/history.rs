//! `famulus history`: the latest messages of a conversation, oldest first.

use famulus_core::message::{Heard, MessageRole, Part, PartBody};
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::clean::{clean, one_line};
use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::schedules::{moment, zone};
use crate::wire::{Me, Messages, StoredMessage};

/// The most messages that the server gives at once.
const LARGEST_PAGE: u32 = 200;

#[derive(Clone, Debug, clap::Args)]
pub struct HistoryArgs {
    /// How many messages
    #[arg(default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_PAGE)))]
    count: u32,
    /// Id of the conversation
    #[arg(long, value_name = "ID", default_value = "main")]
    conversation: String,
    /// Print the server's answer as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    args: HistoryArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let found = crate::chat::session::find(client, &args.conversation).await?;
    let id = found.id.to_string();
    if args.json {
        let raw: Value = read(client, &id, args.count).await?;
        return output.print(&format!("{raw:#}"));
    }
    let me: Me = client.get(&["v1", "me"], &[], "who the token belongs to").await?;
    show(client, output, &id, args.count, &zone(&me.person.time_zone)).await
}

pub(crate) async fn show(
    client: &Client,
    output: &mut Output,
    conversation: &str,
    count: u32,
    zone: &TimeZone,
) -> Result<(), Error> {
    let messages = read::<Messages>(client, conversation, count).await?.messages;
    if messages.is_empty() {
        return output.print("no messages yet");
    }
    let text: String = messages.iter().map(|message| render(message, zone)).collect();
    output.print(&text)
}

pub(crate) async fn latest(client: &Client, conversation: &str) -> Result<Messages, Error> {
    read(client, conversation, LARGEST_PAGE.min(20)).await
}

async fn read<T: serde::de::DeserializeOwned>(
    client: &Client,
    conversation: &str,
    count: u32,
) -> Result<T, Error> {
    let count = count.clamp(1, LARGEST_PAGE);
    let path = ["v1", "conversations", conversation, "messages"];
    client.get(&path, &[("limit", &count.to_string())], "a page of messages").await
}

/// A message as it is read: who and when, what was said, and which tools were called.
fn render(message: &StoredMessage, zone: &TimeZone) -> String {
    let who = match message.role {
        // A schedule that is due, and what the owner is told of the installation.
        MessageRole::User if is_of_itself(message) => "famulus",
        MessageRole::User => "you",
        MessageRole::Assistant => "assistant",
        // What a tool answered is for the model.
        MessageRole::Tool => return String::new(),
    };
    let mut lines = vec![format!("{} {who}", moment(message.created_at, zone))];
    let text = clean(message.text.trim());
    lines.extend(text.lines().map(|line| format!("  {line}").trim_end().to_owned()));
    lines.extend(message.parts.iter().filter_map(aside).map(|aside| format!("  · {aside}")));
    lines.join("\n") + "\n"
}

/// Whether nobody wrote it.
fn is_of_itself(message: &StoredMessage) -> bool {
    let is_system = |part: &Value| part.get("provenance").is_some_and(|by| by == "system");
    !message.parts.is_empty() && message.parts.iter().all(is_system)
}

/// What a part holds besides text. A part of an unknown kind is named by it.
fn aside(part: &Value) -> Option<String> {
    let Ok(known) = serde_json::from_value::<Part>(part.clone()) else {
        return Some(one_line(part.get("type").and_then(Value::as_str).unwrap_or("something")));
    };
    match known.body {
        PartBody::Text { .. } | PartBody::Reasoning { .. } | PartBody::ToolResult(_) => None,
        PartBody::ToolCall(call) => Some(one_line(&call.name)),
        PartBody::Image(file) | PartBody::Audio(file) | PartBody::File(file) => {
            let heard = match &file.heard {
                Some(Heard::Words(words)) => format!(", in which was heard: {}", one_line(words)),
                Some(Heard::Nothing(why)) => format!(", not heard: {}", one_line(why)),
                None => String::new(),
            };
            Some(format!("file {}{heard}", one_line(&file.name)))
        }
        PartBody::Sentinel { reason } => Some(reason.as_str().replace('_', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_message_is_told_in_a_few_lines() {
        let check = |role: &str, text: &str, parts: Value, expected: &str| {
            let message: StoredMessage = serde_json::from_value(json!({
                "role": role, "text": text, "parts": parts, "created_at": "2026-11-21T10:00:00Z",
            }))
            .unwrap();
            assert_eq!(render(&message, &TimeZone::UTC), expected);
        };
        check(
            "user",
            "hello\n\nthere",
            json!([]),
            "2026-11-21 10:00 UTC you\n  hello\n\n  there\n",
        );
        check(
            "assistant",
            "\u{1b}[2J",
            json!([
                {"type": "text", "text": "x", "provenance": "assistant"},
                {"type": "tool_call", "id": "c", "name": "get_time", "arguments": "{}", "provenance": "assistant"},
                {"type": "sentinel", "reason": "step_cap", "provenance": "system"},
                {"type": "hologram", "provenance": "assistant"},
            ]),
            "2026-11-21 10:00 UTC assistant\n  ␛[2J\n  · get_time\n  · step cap\n  · hologram\n",
        );
        let blob = json!({"id": "00000000-0000-0000-0000-000000000001", "sha256": "ab",
            "mime": "audio/ogg", "size": 3});
        check(
            "user",
            "",
            json!([{"type": "audio", "name": "voice.ogg", "blob": blob, "provenance": "owner",
                "heard": {"words": "good\nmorning"}}]),
            "2026-11-21 10:00 UTC you\n  · file voice.ogg, in which was heard: good morning\n",
        );
        check("tool", "secret", json!([]), "");
        check(
            "user",
            "It is due",
            json!([{"type": "text", "text": "It is due", "provenance": "system"}]),
            "2026-11-21 10:00 UTC famulus\n  It is due\n",
        );
    }
}
