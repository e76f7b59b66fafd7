//! People, their accounts on channels, and what a token of theirs may do.

use crate::ids::{IdentityId, PersonId, TokenId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person is to this installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs the installation; may approve, permit and make tokens.
    Owner,
    /// Lives in the household or team; talks to the assistant as themselves.
    Member,
    /// Somebody outside whom the assistant may talk to.
    Contact,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Member => "member",
            Self::Contact => "contact",
        }
    }
}

/// One human being.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Person {
    pub id: PersonId,
    pub name: String,
    pub role: Role,
    /// IANA name, for example `Europe/Berlin`. Headings, lists and schedules use it.
    pub time_zone: String,
    /// BCP 47 tag, for example `en`.
    pub language: String,
}

/// One account of a person on one channel, known by an id that its holder cannot change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    pub id: IdentityId,
    pub person: PersonId,
    pub channel: String,
    /// The account of ours that the channel runs under.
    pub account: String,
    pub external_id: String,
}

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Approve, permit, make tokens, and everything that `Chat` may.
    Owner,
    /// Talk, and read what belongs to the token's person.
    Chat,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Chat => "chat",
        }
    }
}

/// Who is asking: the result of authentication, carried through every request.
#[derive(Clone, Debug)]
pub struct Caller {
    pub person: Person,
    /// The token that was shown; `None` where a platform says who it is.
    pub token: Option<TokenId>,
    pub scope: Scope,
}

impl Caller {
    /// Whether this caller may do what only the owner may.
    pub fn is_owner(&self) -> bool {
        self.scope == Scope::Owner && self.person.role == Role::Owner
    }
}
