//! Names that earlier systems gave to tools. Transcripts and instructions that come from there still
//! use them; no model is shown them.

use crate::strict_json;
use famulus_core::message::ToolCall;
use serde_json::{Map, Value};

/// The channel of a tool that sends there.
const SENDS: [(&str, &str); 3] = [
    ("send_signal_message", "signal"),
    ("send_telegram_message", "telegram"),
    ("send_whatsapp_message", "whatsapp"),
];
/// Parameters of these tools, and what they are called today.
const RENAMED: [(&str, &str); 2] = [("recipient", "to"), ("message", "text")];

/// The call as it is made today, of a tool that is gone.
pub(crate) fn today(call: &ToolCall) -> Option<ToolCall> {
    let (_, channel) = SENDS.iter().find(|(name, _)| *name == call.name)?;
    let arguments = match strict_json::from_str(&call.arguments) {
        Ok(Value::Object(arguments)) => Value::from(sent(arguments, channel)).to_string(),
        // It is refused as the same fault is in any other call.
        Ok(_) | Err(_) => call.arguments.clone(),
    };
    Some(ToolCall { id: call.id.clone(), name: "send_message".to_owned(), arguments })
}

fn sent(mut arguments: Map<String, Value>, channel: &str) -> Map<String, Value> {
    for (then, now) in RENAMED {
        if let Some(value) = arguments.remove(then) {
            arguments.insert(now.to_owned(), value);
        }
    }
    arguments.insert("action".to_owned(), "send".into());
    arguments.insert("channel".to_owned(), channel.into());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_as_it_is_sent_today() {
        let check = |name: &str, arguments: &str, expected: Option<&str>| {
            let call = ToolCall {
                id: "1".to_owned(),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            };
            let found = today(&call).map(|call| {
                assert_eq!((call.id.as_str(), call.name.as_str()), ("1", "send_message"));
                call.arguments
            });
            assert_eq!(found.as_deref(), expected, "{name} {arguments}");
        };
        check(
            "send_signal_message",
            r#"{"recipient": "Bob", "message": "hello"}"#,
            Some(r#"{"to":"Bob","text":"hello","action":"send","channel":"signal"}"#),
        );
        // What there is no more is refused by name, as in any other call.
        check(
            "send_telegram_message",
            r#"{"attachmentPath": "/tmp/a"}"#,
            Some(r#"{"attachmentPath":"/tmp/a","action":"send","channel":"telegram"}"#),
        );
        for malformed in ["no JSON", "[]", r#"{"message": "a", "message": "b"}"#] {
            check("send_whatsapp_message", malformed, Some(malformed));
        }
        check("send_message", r#"{"action": "send", "text": "hello"}"#, None);
        check("send_email", r#"{"recipient": "Bob"}"#, None);
    }
}
