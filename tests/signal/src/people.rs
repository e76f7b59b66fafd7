//! People, and what they do.

use crate::server::Signal;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    /// The account id.
    pub id: String,
    /// Hidden from us, where there is none.
    pub number: Option<String>,
    pub name: String,
}

impl User {
    pub fn new(number: u32, name: &str) -> Self {
        Self { id: id(number), number: Some(phone(number)), name: name.to_owned() }
    }

    /// One whose number nobody sees.
    pub fn hidden(number: u32, name: &str) -> Self {
        Self { number: None, ..Self::new(number, name) }
    }
}

impl Signal {
    /// Somebody writes a text; its timestamp.
    pub fn write(&self, user: &User, text: &str) -> i64 {
        self.send(user, json!({"message": text}))
    }

    /// Somebody sends something else: fields of a message.
    pub fn send(&self, user: &User, fields: Value) -> i64 {
        let mut world = self.world();
        let now = world.now();
        world.tell(envelope(user, now, json!({"dataMessage": message(now, fields)})));
        now
    }

    /// Somebody changes what they wrote at a time.
    pub fn edit(&self, user: &User, target: i64, fields: Value) -> i64 {
        let mut world = self.world();
        let now = world.now();
        let edit = json!({"targetSentTimestamp": target, "dataMessage": message(now, fields)});
        world.tell(envelope(user, now, json!({"editMessage": edit})));
        now
    }

    /// The account's own person writes on their phone, to somebody or to themselves.
    pub fn sync(&self, to: &str, fields: Value) -> i64 {
        let mut world = self.world();
        let now = world.now();
        let (number, id) = world.accounts.first().cloned().unwrap_or_default();
        let mut sent = message(now, fields);
        let destination =
            json!({"destination": to, "destinationNumber": null, "destinationUuid": to});
        if let (Some(sent), Some(destination)) = (sent.as_object_mut(), destination.as_object()) {
            sent.extend(destination.clone());
        }
        let own = User { id, number: Some(number), name: "Myself".to_owned() };
        world.tell(envelope(&own, now, json!({"syncMessage": {"sentMessage": sent}})));
        now
    }

    /// Tells an envelope as it stands: nothing of it is checked.
    pub fn tell(&self, envelope: Value) {
        self.world().tell(envelope);
    }

    /// Keeps a file, so that a message can name it; its id.
    pub fn keep(&self, bytes: impl Into<Bytes>) -> String {
        let kept = self.world().keep(bytes.into());
        assert!(kept.is_ok(), "a file cannot be kept: {kept:?}");
        kept.unwrap_or_default()
    }

    /// Somebody is on Signal no more.
    pub fn leaves(&self, user: &User) {
        self.world().gone.insert(user.id.clone());
    }
}

/// Null is written where nothing is known.
fn envelope(user: &User, now: i64, what: Value) -> Value {
    let mut envelope = json!({
        "source": user.number.as_ref().unwrap_or(&user.id), "sourceNumber": user.number,
        "sourceUuid": user.id, "sourceName": user.name, "sourceDevice": 1, "timestamp": now,
        "serverReceivedTimestamp": now, "serverDeliveredTimestamp": now,
    });
    if let (Some(envelope), Some(what)) = (envelope.as_object_mut(), what.as_object()) {
        envelope.extend(what.clone());
    }
    envelope
}

fn message(now: i64, fields: Value) -> Value {
    let mut message = json!({
        "timestamp": now, "message": null, "expiresInSeconds": 0, "isExpirationUpdate": false,
        "viewOnce": false,
    });
    if let (Some(message), Some(fields)) = (message.as_object_mut(), fields.as_object()) {
        message.extend(fields.clone());
    }
    message
}

pub(crate) fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

pub(crate) fn phone(number: u32) -> String {
    format!("+1555{number:07}")
}
