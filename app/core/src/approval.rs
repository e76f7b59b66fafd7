//! Durable approvals: a question bound to the hash of the exact arguments.
//!
//! A yes is good once, for that call, until it expires. No tool can give one. What touches nothing
//! but the things of the person for whom it would run is asked of that person, everything else of
//! the owner, who sees and may refuse all.

use crate::StoreError;
use crate::clock::Rfc3339;
use crate::ids::{ApprovalId, ConversationId, PersonId, TurnId};
use crate::person::{Caller, Role};
use crate::visible::make_visible;
use async_trait::async_trait;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Seconds that a question stays open.
pub const DEFAULT_TTL_SECONDS: i64 = 300;

/// Letters and digits that are not mistaken for one another.
const CODE_ALPHABET: &[u8; 31] = b"ABCDEFGHJKMNPQRSTUVWXYZ23456789";
/// 31^8 codes, good for minutes, single use: guessing is hopeless.
pub const CODE_LENGTH: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    Pending,
    Approved,
    Denied,
    Expired,
    /// Something else was written instead.
    Superseded,
    /// The approved call was sent: the yes is used up.
    Consumed,
}

impl ApprovalState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Consumed => "consumed",
        }
    }

    /// How it stands, as people are told.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "still open",
            Self::Approved | Self::Consumed => "already approved",
            Self::Denied => "already denied",
            Self::Expired => "expired",
            Self::Superseded => "withdrawn",
        }
    }
}

/// Whom a question is put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    Owner,
    /// The person for whom the call would run: it touches their own things alone.
    Person,
}

impl Asked {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Person => "person",
        }
    }

    /// Whom to ask when the turn runs for somebody of this role. A contact is nobody of the house:
    /// the owner answers for them.
    #[must_use]
    pub fn of(self, role: Role) -> Self {
        match (self, role) {
            (Self::Person, Role::Member) => Self::Person,
            (Self::Person, Role::Owner | Role::Contact) | (Self::Owner, _) => Self::Owner,
        }
    }
}

/// What a caller may do with a question that they see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rights {
    /// Say yes or no.
    Answer,
    /// Say no.
    Deny,
    /// Only see it.
    See,
}

impl Rights {
    pub fn cover(self, yes: bool) -> bool {
        match self {
            Self::Answer => true,
            Self::Deny => !yes,
            Self::See => false,
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub id: ApprovalId,
    pub conversation: ConversationId,
    pub turn: TurnId,
    /// For whom the call would run.
    pub person: PersonId,
    /// Their name.
    pub person_name: String,
    pub asked: Asked,
    /// What to type behind `/approve`.
    pub code: String,
    pub tool: String,
    /// What the call will do, in one line.
    pub summary: String,
    /// The exact arguments, with invisible characters made visible.
    pub shown: String,
    pub state: ApprovalState,
    #[schemars(with = "Rfc3339")]
    pub expires_at: Timestamp,
}

impl Approval {
    /// What this caller may do with it.
    pub fn rights(&self, caller: &Caller) -> Rights {
        match self.asked {
            Asked::Owner if caller.is_owner() => Rights::Answer,
            Asked::Person if caller.person.id == self.person => Rights::Answer,
            Asked::Person if caller.is_owner() => Rights::Deny,
            Asked::Owner | Asked::Person => Rights::See,
        }
    }
}

/// Which question is answered.
#[derive(Clone, Debug)]
pub enum Decide {
    Id(ApprovalId),
    Code(String),
}

/// What came of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    Done(Approval),
    /// It was answered before, or its time had run out.
    Closed(ApprovalState),
    /// It is not this caller's to answer so.
    NotTheirs(Approval),
    /// There is none that this caller sees.
    Missing,
}

/// The questions, as far as those who receive answers need them.
#[async_trait]
pub trait Approvals: Send + Sync + 'static {
    /// Answers a question as far as this caller may, and wakes the turn that waits for it. `via` is how
    /// the answer came.
    async fn decide(
        &self,
        caller: &Caller,
        which: &Decide,
        yes: bool,
        via: &str,
    ) -> Result<Decided, StoreError>;
}

/// The hash that binds an approval to one call.
pub fn call_hash(tool: &str, arguments: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((tool.len() as u64).to_be_bytes());
    hash.update(tool.as_bytes());
    hash.update(arguments.as_bytes());
    hash.finalize().into()
}

/// What is read before deciding: the very arguments, nothing hidden.
pub fn shown(tool: &str, arguments: &str) -> String {
    make_visible(&format!("{tool} {arguments}"))
}

/// Turns 8 random bytes into a code.
pub fn code_from(random: [u8; CODE_LENGTH]) -> String {
    random
        .iter()
        .map(|byte| char::from(CODE_ALPHABET[usize::from(*byte) % CODE_ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_every_byte_of_the_call() {
        let base = call_hash("a", r#"{"id":1}"#);
        assert_ne!(base, call_hash("a", r#"{"id":1} "#));
        assert_ne!(base, call_hash("a{", r#""id":1}"#));
        assert_eq!(base, call_hash("a", r#"{"id":1}"#));
    }

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(shown("t", "{\"x\":\"a\u{200b}\"}"), "t {\"x\":\"a⟨U+200B⟩\"}");
    }

    #[test]
    fn a_code_has_no_look_alikes() {
        let code = code_from([0, 1, 2, 3, 250, 251, 252, 255]);
        assert_eq!(code.len(), CODE_LENGTH);
        assert!(code.chars().all(|c| !"0O1IL".contains(c)));
    }
}
