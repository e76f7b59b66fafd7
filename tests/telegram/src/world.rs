//! What there is: the bot, what it sent, what it is to be told, the files, and the faults that wait.

use crate::fault::Fault;
use crate::html::Entity;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// What a message of the bot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// `photo`, `document` and so on: its name and bytes.
    File {
        field: String,
        name: String,
        media_type: String,
        bytes: Bytes,
    },
}

/// A message that the bot sent, as it stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: i64,
    pub chat: i64,
    pub thread: Option<i64>,
    pub reply_to: Option<i64>,
    pub kind: Kind,
    /// Its text, or what stands below a file.
    pub text: String,
    pub entities: Vec<Entity>,
    /// The buttons: text and data, row by row.
    pub buttons: Vec<Vec<(String, String)>>,
    /// How often it was changed.
    pub edits: usize,
}

pub(crate) struct World {
    pub(crate) bot: i64,
    pub(crate) next_message: HashMap<i64, i64>,
    /// Before the first message of a chat.
    pub(crate) before: i64,
    pub(crate) messages: Vec<Message>,
    /// What is to be told, by number.
    pub(crate) updates: BTreeMap<i64, Value>,
    pub(crate) next_update: i64,
    /// Counts polls: an older one ends when a newer one begins to wait.
    pub(crate) poll: u64,
    pub(crate) webhook: Option<String>,
    pub(crate) files: HashMap<String, Bytes>,
    /// By method; `*` is any.
    pub(crate) faults: HashMap<String, VecDeque<Fault>>,
    pub(crate) blocked: BTreeSet<i64>,
    /// Groups that became others.
    pub(crate) moved: BTreeMap<i64, i64>,
    /// Callbacks that were answered, with what was shown.
    pub(crate) answered: Vec<(String, String)>,
    /// Chats that the bot left.
    pub(crate) left: Vec<i64>,
    /// What people wrote and is there: chat and number.
    pub(crate) written: BTreeSet<(i64, i64)>,
    /// What the bot deleted of it.
    pub(crate) deleted: Vec<(i64, i64)>,
    pub(crate) drafts: Vec<(i64, String)>,
    pub(crate) actions: Vec<(i64, String)>,
    /// Every call: method and parameters, without what was uploaded.
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) token: String,
}

impl World {
    pub(crate) fn new(bot: i64, token: &str) -> Self {
        Self {
            bot,
            next_message: HashMap::new(),
            before: 0,
            messages: Vec::new(),
            updates: BTreeMap::new(),
            next_update: 100_000,
            poll: 0,
            webhook: None,
            files: HashMap::new(),
            faults: HashMap::new(),
            blocked: BTreeSet::new(),
            moved: BTreeMap::new(),
            answered: Vec::new(),
            left: Vec::new(),
            written: BTreeSet::new(),
            deleted: Vec::new(),
            drafts: Vec::new(),
            actions: Vec::new(),
            calls: Vec::new(),
            token: token.to_owned(),
        }
    }

    pub(crate) fn message_id(&mut self, chat: i64) -> i64 {
        let next = self.next_message.entry(chat).or_insert(self.before);
        *next += 1;
        *next
    }

    /// Tells the bot something.
    pub(crate) fn tell(&mut self, kind: &str, what: Value) -> i64 {
        let number = self.next_update;
        self.next_update += 1;
        self.updates.insert(number, json!({"update_id": number, kind: what}));
        number
    }

    pub(crate) fn fault(&mut self, method: &str) -> Option<Fault> {
        for key in [method, "*"] {
            if let Some(fault) = self.faults.get_mut(key).and_then(VecDeque::pop_front) {
                return Some(fault);
            }
        }
        None
    }

    pub(crate) fn bot_json(&self) -> Value {
        json!({"id": self.bot, "is_bot": true, "first_name": "Famulus", "username": "famulus_bot",
            "can_join_groups": true, "can_read_all_group_messages": false})
    }
}
