//! What the daemon says, as much of it as is read. What is absent is as what is null.

use serde::Deserialize;
use serde_json::Value;

/// One event of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    pub(super) envelope: Envelope,
    /// Why a message could not be read; there are no words of it then.
    pub(super) exception: Option<Exception>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Exception {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Envelope {
    /// The account id, which its holder cannot change.
    pub(super) source_uuid: Option<String>,
    pub(super) source_number: Option<String>,
    /// As the sender calls themselves.
    pub(super) source_name: Option<String>,
    pub(super) data_message: Option<DataMessage>,
    pub(super) edit_message: Option<EditMessage>,
    pub(super) sync_message: Option<SyncMessage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EditMessage {
    pub(super) target_sent_timestamp: i64,
    pub(super) data_message: DataMessage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SyncMessage {
    pub(super) sent_message: Option<SentMessage>,
}

/// What was written on another device of our own account.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SentMessage {
    pub(super) destination_uuid: Option<String>,
    pub(super) edit_message: Option<EditMessage>,
    #[serde(flatten)]
    pub(super) data: DataMessage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DataMessage {
    /// Milliseconds; with its author it names a message.
    pub(super) timestamp: i64,
    pub(super) message: Option<String>,
    pub(super) view_once: Option<bool>,
    /// After it was read; 0 is never.
    pub(super) expires_in_seconds: Option<u64>,
    pub(super) reaction: Option<Reaction>,
    pub(super) quote: Option<Quote>,
    pub(super) mentions: Vec<Mention>,
    pub(super) attachments: Vec<Attachment>,
    pub(super) sticker: Option<Value>,
    pub(super) contacts: Vec<Value>,
    pub(super) text_styles: Vec<TextStyle>,
    pub(super) group_info: Option<GroupInfo>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupInfo {
    pub(super) group_id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reaction {
    pub(super) emoji: String,
    pub(super) target_author_uuid: Option<String>,
    pub(super) is_remove: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Quote {
    pub(super) author_uuid: Option<String>,
    pub(super) author_number: Option<String>,
    pub(super) text: Option<String>,
}

/// A place in the text that stands for somebody. Its name is none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mention {
    pub(super) number: Option<String>,
    pub(super) uuid: Option<String>,
    pub(super) start: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TextStyle {
    pub(super) style: String,
    pub(super) start: i64,
    pub(super) length: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Attachment {
    pub(super) content_type: Option<String>,
    pub(super) filename: Option<String>,
    pub(super) id: Option<String>,
    pub(super) size: Option<u64>,
}

/// An answer to a call.
#[derive(Debug, Deserialize)]
pub(super) struct Answer<T> {
    #[serde(default = "Option::default")]
    pub(super) result: Option<T>,
    pub(super) error: Option<Refusal>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    /// Of a message that was not sent: what became of it for each who was to get it.
    pub(super) data: Option<Data>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Data {
    pub(super) response: Option<Taken>,
}

/// A message of ours.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Taken {
    pub(super) timestamp: i64,
    pub(super) results: Vec<Outcome>,
}

/// What became of it for one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Outcome {
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// A person has to prove that they are one.
    pub(super) token: Option<String>,
    pub(super) retry_after_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) number: String,
}

/// Who has a number.
#[derive(Debug, Deserialize)]
pub(super) struct Standing {
    /// The number, as it was asked for.
    #[serde(default)]
    pub(super) recipient: String,
    pub(super) uuid: Option<String>,
}
