//! Stored bytes <-> core's words.

use crate::error::Error;
use famulus_core::message::{MessageRole, Part, Provenance};
use famulus_core::tool::{Effect, Repeat};
use famulus_core::turn::{CallState, TurnState};
use serde::{Serialize, de::DeserializeOwned};

pub(crate) fn encode_parts(parts: &[Part]) -> Result<Vec<u8>, Error> {
    encode("message parts", parts)
}

pub(crate) fn decode_parts(bytes: &[u8]) -> Result<Vec<Part>, Error> {
    decode("message parts", bytes)
}

pub(crate) fn encode<T: Serialize + ?Sized>(
    what: &'static str,
    value: &T,
) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(Error::unreadable(what))
}

pub(crate) fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(Error::unreadable(what))
}

/// Reads an enum from the word that stands in its column.
pub(crate) fn word<T: DeserializeOwned>(what: &'static str, word: &str) -> Result<T, Error> {
    serde_json::from_value(serde_json::Value::String(word.to_owned()))
        .map_err(Error::unreadable(what))
}

/// The word of an enum, for its column.
pub(crate) trait Word {
    fn word(&self) -> &'static str;
}

impl Word for Provenance {
    fn word(&self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Member => "member",
            Self::Contact => "contact",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }
}

impl Word for Repeat {
    fn word(&self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Never => "never",
        }
    }
}

impl Word for Effect {
    fn word(&self) -> &'static str {
        self.as_str()
    }
}

impl Word for TurnState {
    fn word(&self) -> &'static str {
        self.as_str()
    }
}

impl Word for CallState {
    fn word(&self) -> &'static str {
        self.as_str()
    }
}

impl Word for MessageRole {
    fn word(&self) -> &'static str {
        self.as_str()
    }
}

/// Postgres text refuses NUL; the exact text stands in the parts.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
