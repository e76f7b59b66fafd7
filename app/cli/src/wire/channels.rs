//! Who is known, chat channels, and what is on its way to them.

use super::Person;
use famulus_core::inbound::Address;
use jiff::Timestamp;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct People {
    pub(crate) people: Vec<Person>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pairings {
    pub(crate) pairings: Vec<Pairing>,
}

/// A stranger who has a code.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pairing {
    pub(crate) channel: String,
    pub(crate) external_id: String,
    pub(crate) name: String,
    pub(crate) until: Timestamp,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Known {
    pub(crate) person: Person,
    pub(crate) channel: String,
    pub(crate) external_id: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Channels {
    pub(crate) channels: Vec<Standing>,
}

/// How a chat channel stands.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Standing {
    pub(crate) channel: String,
    #[serde(default)]
    pub(crate) account: Option<String>,
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) listening: bool,
    #[serde(default)]
    pub(crate) down: Option<String>,
    pub(crate) since: Timestamp,
}

/// A link that a phone scans.
#[derive(Debug, Deserialize)]
pub(crate) struct BegunLink {
    pub(crate) link: String,
}

/// An account that was linked by it.
#[derive(Debug, Deserialize)]
pub(crate) struct FinishedLink {
    pub(crate) account: String,
}

/// A link by which somebody becomes known.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Invitation {
    pub(crate) link: String,
    pub(crate) until: Timestamp,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outbox {
    pub(crate) messages: Vec<Leaving>,
}

/// A message on its way out.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Leaving {
    pub(crate) id: String,
    pub(crate) to: Address,
    #[serde(default)]
    pub(crate) error: Option<String>,
    pub(crate) created_at: Timestamp,
}
