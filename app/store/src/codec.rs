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

/// Reads an enum from the text of its column.
pub(crate) fn read_enum<T: DeserializeOwned>(what: &'static str, word: &str) -> Result<T, Error> {
    serde_json::from_value(serde_json::Value::String(word.to_owned()))
        .map_err(Error::unreadable(what))
}

/// An enum as the text of its column.
pub(crate) trait DbLabel {
    fn label(&self) -> &'static str;
}

impl DbLabel for Provenance {
    fn label(&self) -> &'static str {
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

impl DbLabel for Repeat {
    fn label(&self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Never => "never",
        }
    }
}

impl DbLabel for Effect {
    fn label(&self) -> &'static str {
        self.as_str()
    }
}

impl DbLabel for TurnState {
    fn label(&self) -> &'static str {
        self.as_str()
    }
}

impl DbLabel for CallState {
    fn label(&self) -> &'static str {
        self.as_str()
    }
}

impl DbLabel for MessageRole {
    fn label(&self) -> &'static str {
        self.as_str()
    }
}

/// Postgres text refuses NUL; the exact text stands in the parts.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
