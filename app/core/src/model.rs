//! The model port: a conversation goes out, a stream of deltas and one whole reply come back.
//!
//! Provider wire formats stay behind the port. The port never retries: the turn loop decides, by
//! the error's [`Disposition`].

use crate::blob::Blobs;
use crate::ids::PersonId;
use crate::message::{Message, Part, ProviderBlocks};
use crate::tool::ToolSpec;
use futures::stream::BoxStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// One question to a model.
#[derive(Clone)]
pub struct ModelRequest {
    /// Model name within the provider; `None` takes the provider's default.
    pub model: Option<String>,
    /// Instructions that stay the same over a conversation, so that providers can cache them.
    pub system: String,
    /// What changes between turns (memories), sent after the stable part.
    pub context: String,
    /// In order, normalised: every tool call is followed by its result.
    pub messages: Vec<Arc<Message>>,
    /// Empty means that the model must answer in text.
    pub tools: Arc<[ToolSpec]>,
    /// Whose files the messages refer to.
    pub person: PersonId,
    /// Where an adapter reads the files that it sends along.
    pub blobs: Arc<dyn Blobs>,
}

/// What arrives while the model answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider is alive but has nothing to say.
    Ping,
    Text(String),
    Reasoning(String),
    /// The model began a tool call; its arguments still stream.
    Calling {
        name: String,
    },
    /// The whole reply; nothing follows.
    Done(Box<ModelReply>),
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelReply {
    /// The model that answered, as the provider names it.
    pub model: String,
    pub parts: Vec<Part>,
    pub blocks: Option<ProviderBlocks>,
    pub usage: Usage,
}

/// Tokens used. `None` means that the provider did not say, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
}

impl Usage {
    /// Adds another call's tokens; unknown stays unknown only if both are.
    pub fn add(&mut self, other: Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.input_tokens = sum(self.input_tokens, other.input_tokens);
        self.output_tokens = sum(self.output_tokens, other.output_tokens);
    }
}

pub type ModelStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// A model provider.
pub trait Model: Send + Sync + 'static {
    /// The adapter's name, as it stands beside stored provider blocks.
    fn provider(&self) -> &'static str;

    /// Whether the model of this name hears recordings of this media type.
    fn hears(&self, _model: Option<&str>, _mime: &str) -> bool {
        false
    }

    /// Asks. The stream ends after [`ModelEvent::Done`] or an error; dropping it cancels the call.
    fn ask(&self, request: ModelRequest) -> ModelStream;
}

/// What is to be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Try again, not before the given time.
    Retry { after: Option<Duration> },
    /// Tell the person who waits; trying again will not help.
    TellUser,
}

#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(
        "the model provider at {url} could not be reached; check `model.base_url` and the network"
    )]
    Unreachable {
        url: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(
        "the model provider asks to slow down (status {status}){}",
        after.map(|after| format!(", and to be asked again after {} s", after.as_secs()))
            .unwrap_or_default()
    )]
    Busy { status: u16, after: Option<Duration> },
    #[error("the model provider failed (status {status}): {message}")]
    Failed { status: u16, message: String },
    #[error("the model provider refused the credentials (status {status}); check `model.api_key`")]
    Unauthorized { status: u16 },
    #[error("the model provider refused the request (status {status}): {message}")]
    Rejected { status: u16, message: String },
    #[error("the model's answer broke off before its end")]
    Cut,
    #[error("the model was silent for {seconds} s")]
    Silent { seconds: u64 },
    #[error("the model provider sent something that is not its protocol: {what}")]
    Malformed { what: String },
    #[error("no model is configured under the name `{name}`")]
    Unknown { name: String },
}

impl ModelError {
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Busy { after, .. } => Disposition::Retry { after: *after },
            Self::Unreachable { .. }
            | Self::Failed { .. }
            | Self::Cut
            | Self::Silent { .. }
            | Self::Malformed { .. } => Disposition::Retry { after: None },
            Self::Unauthorized { .. } | Self::Rejected { .. } | Self::Unknown { .. } => {
                Disposition::TellUser
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_usage_is_not_zero() {
        let mut total = Usage::default();
        total.add(Usage::default());
        assert_eq!(total.input_tokens, None);
        total.add(Usage { input_tokens: Some(3), output_tokens: None });
        total.add(Usage { input_tokens: Some(4), output_tokens: Some(1) });
        assert_eq!(total, Usage { input_tokens: Some(7), output_tokens: Some(1) });
    }
}
