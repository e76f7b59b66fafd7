//! What holds for who writes on a channel: part of the section of each that hears.

use famulus_core::pairing::Access;
use serde::Deserialize;

/// Whom a channel lets in, and how far.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// How strangers are met.
    pub access: Access,
    /// Who is let in without a code, as a contact: ids, what else the channel knows accounts by, and `*` for
    /// everybody.
    pub allow: Vec<String>,
    /// Whether the owner's account may do what only the owner may.
    pub owner_acts: OwnerActs,
}

/// It may, unless somebody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct OwnerActs(pub bool);

impl Default for OwnerActs {
    fn default() -> Self {
        Self(true)
    }
}
