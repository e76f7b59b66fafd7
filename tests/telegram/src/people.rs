//! People and chats.

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: i64,
    pub first_name: String,
    pub username: Option<String>,
    pub is_bot: bool,
}

impl User {
    pub fn new(id: i64, first_name: &str) -> Self {
        Self { id, first_name: first_name.to_owned(), username: None, is_bot: false }
    }

    pub(crate) fn json(&self) -> Value {
        let mut user = json!({
            "id": self.id, "is_bot": self.is_bot, "first_name": self.first_name, "language_code": "en",
        });
        if let Some(username) = &self.username {
            user["username"] = json!(username);
        }
        user
    }

    /// Their chat with the bot.
    pub fn chat(&self) -> Chat {
        Chat { id: self.id, kind: "private", title: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    pub id: i64,
    /// `private`, `group`, `supergroup` or `channel`.
    pub kind: &'static str,
    pub title: Option<String>,
}

impl Chat {
    pub fn group(id: i64, title: &str) -> Self {
        Self { id, kind: "supergroup", title: Some(title.to_owned()) }
    }

    pub(crate) fn json(&self) -> Value {
        let mut chat = json!({"id": self.id, "type": self.kind});
        if let Some(title) = &self.title {
            chat["title"] = json!(title);
        }
        chat
    }
}
