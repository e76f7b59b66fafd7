//! Who may speak: accounts on platforms, the people they belong to, and how strangers become known.

use crate::StoreError;
use crate::ids::{IdentityId, PersonId};
use crate::inbound::Address;
use crate::person::Person;
use async_trait::async_trait;
use serde::Deserialize;

/// Letters of a code, and how many it has: 31^8 codes, good for minutes, single use.
pub use crate::approval::{CODE_LENGTH, code_from};

/// Minutes that a code is good for.
pub const MINUTES: i64 = 15;
/// Minutes that an invitation is good for.
pub const INVITATION_MINUTES: i64 = 15;
/// Random bytes of an invitation's secret.
pub const SECRET_BYTES: usize = 16;
/// Characters of it, in base64 for URLs.
pub const SECRET_LENGTH: usize = 22;
/// Strangers of one account of ours who have a code at the same time; beyond them there is silence.
pub const PENDING: i64 = 20;

/// How strangers are met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// They get a code, by which the owner lets them in.
    #[default]
    Pairing,
    /// They hear nothing.
    Allowlist,
}

/// An account that belongs to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub identity: IdentityId,
    pub person: Person,
    /// They hear nothing and are not answered.
    pub is_disabled: bool,
}

/// An account that belongs to nobody yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    pub channel: String,
    /// The account of ours that they wrote to.
    pub account: String,
    /// The chat with them alone, where they wrote.
    pub chat: Option<String>,
    /// What its holder cannot change.
    pub external_id: String,
    /// As they show themselves; anybody may take any name.
    pub name: String,
    /// BCP 47, where the platform tells.
    pub language: Option<String>,
}

/// What became of a stranger who asked to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// They have this code now, and are told it.
    Coded,
    /// They have been told, or there are too many: they hear nothing.
    Silent,
}

/// Who is known.
#[async_trait]
pub trait Identities: Send + Sync + 'static {
    /// Whose account this is.
    async fn whose(
        &self,
        channel: &str,
        account: &str,
        external_id: &str,
    ) -> Result<Option<Known>, StoreError>;

    /// Notes that somebody wrote in the chat with them alone: they are reached there.
    async fn seen(&self, identity: IdentityId, chat: &str) -> Result<(), StoreError>;

    /// Notes that the account's person wants to be reached there first.
    async fn at_home(&self, identity: IdentityId) -> Result<(), StoreError>;

    /// Bytes of the files that were kept for somebody within a day.
    async fn kept_within_a_day(&self, person: PersonId) -> Result<u64, StoreError>;

    /// Gives a stranger a code, of which the SHA-256 is kept: one at a time, and within the limits. Asked
    /// again with the same code it answers as before: whoever asks may have died before they told it.
    async fn ask_in(&self, stranger: &Stranger, code: &str) -> Result<Asked, StoreError>;

    /// Lets a stranger be the person whom the secret invites, and uses it up; `None` of one that invites
    /// nobody, or nobody any more.
    async fn join(&self, stranger: &Stranger, secret: &str) -> Result<Option<Known>, StoreError>;

    /// Makes a contact of a stranger whom the owner has listed, in the owner's zone. Whoever is known
    /// by now stays who they are.
    async fn let_in(&self, stranger: &Stranger) -> Result<Known, StoreError>;
}

/// What the installation says by itself.
#[async_trait]
pub trait Tell: Send + Sync + 'static {
    /// Puts a message on its way, once for each key.
    async fn tell(
        &self,
        key: &str,
        to: &Address,
        person: Option<PersonId>,
        markdown: &str,
    ) -> Result<(), StoreError>;

    /// Whether something was said by this key.
    async fn told(&self, key: &str) -> Result<bool, StoreError>;
}
