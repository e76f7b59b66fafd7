//! The Bot API as it is written, as far as it is read here.
//!
//! Unknown fields and kinds are let be: the API grows every few weeks.

#![expect(clippy::struct_field_names, reason = "the names are the platform's")]

use serde::{Deserialize, Serialize};

/// What every method answers.
#[derive(Deserialize)]
pub(super) struct Answer<T> {
    pub(super) ok: bool,
    pub(super) result: Option<T>,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) error_code: u16,
    #[serde(default)]
    pub(super) parameters: Parameters,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Parameters {
    /// Seconds.
    pub(super) retry_after: Option<u64>,
    /// The id that a group has now.
    pub(super) migrate_to_chat_id: Option<i64>,
}

/// The bot itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Me {
    pub(super) id: i64,
    pub(super) username: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Update {
    pub(super) message: Option<Message>,
    pub(super) edited_message: Option<Message>,
    pub(super) callback_query: Option<Press>,
    pub(super) my_chat_member: Option<Membership>,
}

/// Somebody pressed a button.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Press {
    pub(super) id: String,
    pub(super) from: User,
    pub(super) message: Option<PressedMessage>,
    pub(super) data: Option<String>,
}

/// The message that a button stands under; of an old one only its place is told.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PressedMessage {
    pub(super) chat: Chat,
}

/// Our place in a chat has changed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Membership {
    pub(super) chat: Chat,
    pub(super) new_chat_member: Member,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Member {
    pub(super) status: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Chat {
    pub(super) id: i64,
    #[serde(rename = "type")]
    pub(super) kind: ChatType,
    pub(super) title: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChatType {
    Private,
    Group,
    Supergroup,
    Channel,
    #[serde(other)]
    Other,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct User {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) is_bot: bool,
    #[serde(default)]
    pub(super) first_name: String,
    pub(super) last_name: Option<String>,
    pub(super) username: Option<String>,
    pub(super) language_code: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Message {
    pub(super) message_id: i64,
    /// Seconds.
    pub(super) date: i64,
    pub(super) edit_date: Option<i64>,
    pub(super) chat: Chat,
    pub(super) from: Option<User>,
    /// Set when it was written in the name of a chat: then `from` is nobody.
    pub(super) sender_chat: Option<Chat>,
    pub(super) message_thread_id: Option<i64>,
    #[serde(default)]
    pub(super) is_topic_message: bool,
    pub(super) reply_to_message: Option<Box<Message>>,
    pub(super) quote: Option<Quote>,
    pub(super) forward_origin: Option<Origin>,
    pub(super) media_group_id: Option<String>,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) entities: Vec<Entity>,
    pub(super) caption: Option<String>,
    #[serde(default)]
    pub(super) caption_entities: Vec<Entity>,
    #[serde(default)]
    pub(super) photo: Vec<PhotoSize>,
    pub(super) voice: Option<Media>,
    pub(super) audio: Option<Media>,
    pub(super) document: Option<Media>,
    pub(super) video: Option<Media>,
    pub(super) video_note: Option<Media>,
    pub(super) animation: Option<Media>,
    pub(super) sticker: Option<Sticker>,
    pub(super) location: Option<Location>,
    pub(super) venue: Option<Venue>,
    pub(super) contact: Option<Contact>,
    pub(super) migrate_to_chat_id: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Quote {
    pub(super) text: String,
}

/// Who wrote first what is passed on.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Origin {
    pub(super) sender_user: Option<User>,
    pub(super) sender_user_name: Option<String>,
    pub(super) sender_chat: Option<Chat>,
    pub(super) chat: Option<Chat>,
}

/// A style, as a range of UTF-16 units.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Entity {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) offset: i64,
    pub(super) length: i64,
    pub(super) url: Option<String>,
    pub(super) language: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PhotoSize {
    pub(super) file_id: String,
    pub(super) file_unique_id: String,
    pub(super) width: i64,
    pub(super) height: i64,
    pub(super) file_size: Option<u64>,
}

/// A file of one of many kinds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Media {
    pub(super) file_id: String,
    pub(super) file_unique_id: String,
    pub(super) file_name: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) file_size: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Sticker {
    pub(super) emoji: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Location {
    pub(super) latitude: f64,
    pub(super) longitude: f64,
    /// Seconds that it moves for.
    pub(super) live_period: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Venue {
    pub(super) title: String,
    pub(super) address: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Contact {
    pub(super) phone_number: String,
    pub(super) first_name: String,
}

/// Where a file can be fetched from.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct FilePath {
    pub(super) file_path: Option<String>,
    pub(super) file_size: Option<u64>,
}

/// A message that was taken.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Taken {
    pub(super) message_id: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct GetUpdates {
    /// The first that is wanted; all before it are confirmed.
    pub(super) offset: i64,
    pub(super) limit: u32,
    /// Seconds that it may wait.
    pub(super) timeout: u64,
    pub(super) allowed_updates: &'static [&'static str],
}
