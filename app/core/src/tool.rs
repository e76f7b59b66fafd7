//! Tools: what the model sees of them, what policy knows of them, and the port that runs them.

use crate::agent::Grants;
use crate::approval::Asked;
use crate::ids::{AgentId, ConversationId, TurnId};
use crate::inbound::Address;
use crate::message::{Message, MessageRole, PartBody, Provenance, ToolCall};
use crate::person::Person;
use async_trait::async_trait;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a call does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Reads only.
    Read,
    /// Changes something of ours.
    Write,
    /// Reaches beyond the installation.
    External,
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::External => "external",
        }
    }
}

/// What may be done with a call whose worker died before its result was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// Run it again: it reads, or its effect is keyed by the call and happens once.
    Safe,
    /// Ask what came of it ([`CheckedCall::ask_after`]); where nobody knows, tell the model so.
    Never,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: serde_json::Value,
}

/// The identity of one effect: (turn, step, call, item). The same key happens at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    pub turn: TurnId,
    /// The model call of the turn, from 0.
    pub step: u32,
    /// The position among the step's calls, from 0.
    pub call: u32,
    /// The position within an array of parameters, from 0.
    pub item: u32,
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.turn, self.step, self.call, self.item)
    }
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
pub enum ToolOutput {
    /// Text for the model.
    Text(String),
    /// JSON for the model, kept as it was written.
    Json(String),
    /// The call failed; the text says what, why, and what to do.
    Error(String),
    /// The worker died while the call ran: it may or may not have happened.
    Unknown(String),
    /// The answer was no, or the time to answer ran out.
    Denied(String),
}

impl ToolOutput {
    pub fn text(&self) -> &str {
        match self {
            Self::Text(t) | Self::Json(t) | Self::Error(t) | Self::Unknown(t) | Self::Denied(t) => {
                t
            }
        }
    }

    pub fn is_error(&self) -> bool {
        match self {
            Self::Error(_) | Self::Unknown(_) | Self::Denied(_) => true,
            Self::Text(_) | Self::Json(_) => false,
        }
    }
}

/// What stands around a call.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub key: CallKey,
    pub person: Person,
    pub agent: AgentId,
    pub grants: Grants,
    pub conversation: ConversationId,
    /// Where the message that began the turn wants its reply.
    pub origin: Option<Address>,
    /// Who began the turn.
    pub began_by: Provenance,
    pub owner: OwnerWords,
    /// Ends when the turn is cancelled or its lease is lost.
    pub cancel: CancellationToken,
}

/// What the owner wrote in the conversation, as far as it is before the model.
#[derive(Clone, Debug, Default)]
pub struct OwnerWords(Vec<Arc<Message>>);

impl OwnerWords {
    pub fn new(history: &[Arc<Message>]) -> Self {
        let own = |message: &&Arc<Message>| message.role == MessageRole::User;
        Self(history.iter().filter(own).cloned().collect())
    }

    /// Whether this stands in a message of the owner's as a word of its own: nothing of a longer address, say.
    pub fn have(&self, word: &str) -> bool {
        let parts = self.0.iter().flat_map(|message| &message.parts);
        let own = parts.filter(|part| part.provenance == Provenance::Owner);
        let texts = own.filter_map(|part| {
            if let PartBody::Text { text } = &part.body { Some(text) } else { None }
        });
        let mut words = texts.flat_map(|text| text.split_whitespace());
        words.any(|other| other.trim_start_matches(BEFORE).trim_end_matches(BEHIND) == word)
    }
}

/// What stands before and behind a word in writing, and is not of it.
const BEFORE: [char; 6] = ['(', '[', '<', '"', '\'', '`'];
const BEHIND: [char; 12] = [')', ']', '>', '"', '\'', '`', '.', ',', ';', ':', '!', '?'];

/// What policy says of a call before anything happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub effect: Effect,
    pub repeat: Repeat,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// Somebody must say yes to exactly these arguments.
    Ask {
        asked: Asked,
        /// What the call will do, in one line, for who is asked.
        summary: String,
    },
    /// Not run; the model reads why.
    Refuse(ToolOutput),
}

impl Plan {
    /// For a call that does not fit. Nothing happens, so nothing can go wrong by its happening again.
    pub fn refused(why: ToolOutput) -> Self {
        Self { effect: Effect::Read, repeat: Repeat::Safe, verdict: Verdict::Refuse(why) }
    }
}

/// The catalogue and its dispatch.
pub trait Tools: Send + Sync + 'static {
    /// What an agent with these grants sees, in a stable order.
    fn catalogue(&self, grants: &Grants) -> Vec<ToolSpec>;

    /// Checks that the tool is there for these grants, and that the arguments fit it; pure, so that
    /// a resumed turn checks alike. The error is for the model.
    fn checked<'a>(
        &'a self,
        call: &ToolCall,
        grants: &Grants,
    ) -> Result<Arc<dyn CheckedCall + 'a>, ToolOutput>;
}

/// A call that was checked, with its arguments as they were read: [`Tools::checked`] alone makes one.
/// It ends with the process, or with the wait for an answer; whoever goes on has the record, and
/// checks anew.
#[async_trait]
pub trait CheckedCall: Send + Sync {
    /// Applies policy; pure.
    fn plan(&self) -> Plan;

    /// What a call that somebody is asked about would do, in words instead of ids, as things stand
    /// now: read in the place of the summary, beside the exact arguments. `None` when the summary
    /// says it all.
    async fn subject(&self, context: &CallContext) -> Option<String>;

    /// Runs a call that was planned as allowed, or approved, if it is granted still. Never fails: an
    /// error is an output.
    async fn run(&self, context: &CallContext) -> ToolOutput;

    /// Asks what came of a call that may happen only once and was perhaps sent, at `sent` or later,
    /// by a worker that is gone.
    async fn ask_after(&self, context: &CallContext, sent: Timestamp) -> AskedAfter;

    /// Told once the output of a call that may happen only once is recorded: whoever keeps its
    /// result for [`Self::ask_after`] may let it go. Not told again after a crash.
    async fn recorded(&self, context: &CallContext, output: &ToolOutput);
}

/// What is known of a call whose worker died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedAfter {
    /// It happened, and this came of it.
    Ended(ToolOutput),
    /// It did not happen, so it may be run.
    NotSent,
    /// Nobody can say.
    Unknown,
}
