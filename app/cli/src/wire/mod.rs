//! The shapes of `/v1` that this crate reads. Fields that a newer server adds are ignored, and
//! what an older one does not send has a default where a command can do without it.

mod channels;
mod plugins;

pub(crate) use channels::{
    BegunLink, Channels, FinishedLink, Invitation, Known, Leaving, Outbox, Pairings, People,
};
pub(crate) use plugins::{Offer, Plugin, PluginHistory, PluginList, PluginLogs, SandboxLevel};

use famulus_core::approval::{ApprovalState, Asked, Rights};
use famulus_core::ids::{ApprovalId, BlobId, ConversationId, KnowledgeId, ScheduleId, TurnId};
use famulus_core::knowledge::KnowledgeKind;
use famulus_core::message::MessageRole;
use famulus_core::model::Usage;
use famulus_core::schedule::Rule;
use famulus_core::turn::TurnState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Me {
    pub(crate) person: Person,
    pub(crate) scope: String,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) model: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Person {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) time_zone: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) id: ConversationId,
    #[serde(default)]
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) state: Activity,
    #[serde(default)]
    pub(crate) live_turn: Option<TurnId>,
    #[serde(default)]
    pub(crate) updated_at: Option<Timestamp>,
}

/// What a conversation is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Activity {
    #[default]
    Idle,
    Running,
    /// For the answer to a question.
    Waiting,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Conversations {
    pub(crate) conversations: Vec<Conversation>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Messages {
    pub(crate) messages: Vec<StoredMessage>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct StoredMessage {
    pub(crate) role: MessageRole,
    #[serde(default)]
    pub(crate) turn_id: Option<TurnId>,
    /// Parts of kinds that this version does not know are kept as they are.
    #[serde(default)]
    pub(crate) parts: Vec<Value>,
    #[serde(default)]
    pub(crate) text: String,
    pub(crate) created_at: Timestamp,
}

/// The answer to a message, before anything came of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) conversation_id: ConversationId,
    #[serde(default)]
    pub(crate) turn_id: Option<TurnId>,
    #[serde(default)]
    pub(crate) disposition: Disposition,
    #[serde(default)]
    pub(crate) notice: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Disposition {
    /// The message began a turn.
    #[default]
    Started,
    /// It joined the turn that was running.
    Steered,
    /// It had been sent before.
    Duplicate,
    /// It was a command, and is done.
    Command,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Stopped {
    #[serde(default)]
    pub(crate) stopped: Vec<TurnId>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Turn {
    pub(crate) state: TurnState,
    #[serde(default)]
    pub(crate) usage: Option<Usage>,
    #[serde(default)]
    pub(crate) steps: u32,
    #[serde(default)]
    pub(crate) model: Option<String>,
    #[serde(default)]
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) text: Option<String>,
    /// The turn that took over what joined this one and was not read by it.
    #[serde(default)]
    pub(crate) successor_id: Option<TurnId>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Approvals {
    pub(crate) approvals: Vec<Approval>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Approval {
    pub(crate) id: ApprovalId,
    pub(crate) code: String,
    pub(crate) summary: String,
    pub(crate) shown: String,
    pub(crate) state: ApprovalState,
    pub(crate) expires_at: Timestamp,
    /// For whom the call would run.
    #[serde(default)]
    pub(crate) person_name: String,
    #[serde(default = "owner")]
    pub(crate) asked: Asked,
    /// What this token may do with it.
    #[serde(default = "answer")]
    pub(crate) may: Rights,
}

fn owner() -> Asked {
    Asked::Owner
}

fn answer() -> Rights {
    Rights::Answer
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Decision {
    pub(crate) decision: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Approve,
    Deny,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Schedules {
    pub(crate) schedules: Vec<Schedule>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Schedule {
    pub(crate) id: ScheduleId,
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) note: String,
    pub(crate) rule: Rule,
    #[serde(default)]
    pub(crate) time_zone: String,
    #[serde(default)]
    pub(crate) enabled: bool,
    #[serde(default)]
    pub(crate) failures: i32,
    #[serde(default)]
    pub(crate) last_error: Option<String>,
    #[serde(default)]
    pub(crate) next_due: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct KnowledgeList {
    pub(crate) knowledge: Vec<KnowledgeEntry>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct KnowledgeEntry {
    pub(crate) id: KnowledgeId,
    pub(crate) kind: KnowledgeKind,
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) body: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Status {
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) uptime_seconds: Option<f64>,
    #[serde(default)]
    pub(crate) database: Option<Database>,
    #[serde(default)]
    pub(crate) model: Option<Value>,
    #[serde(default)]
    pub(crate) queue: Option<Queue>,
    #[serde(default)]
    pub(crate) checks: Vec<ServerCheck>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Database {
    #[serde(default)]
    pub(crate) version: Option<Value>,
    #[serde(default)]
    pub(crate) role: Option<String>,
    #[serde(default)]
    pub(crate) size_bytes: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ServerCheck {
    pub(crate) name: String,
    pub(crate) ok: bool,
    #[serde(default)]
    pub(crate) detail: Option<String>,
    #[serde(default)]
    pub(crate) remedy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Queue {
    pub(crate) depth: i64,
    pub(crate) running: i64,
    pub(crate) waiting: i64,
    pub(crate) oldest_seconds: Option<f64>,
    pub(crate) dead: i64,
    pub(crate) workers: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct DeadJobs {
    pub(crate) jobs: Vec<DeadJob>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct DeadJob {
    /// A number or text: it is only ever sent back.
    pub(crate) id: Value,
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) attempts: i64,
    #[serde(default)]
    pub(crate) died_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct StoredFile {
    pub(crate) id: BlobId,
}

/// The body of a new message.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NewMessage<'a> {
    pub(crate) text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meeting: Option<Meeting>,
}

/// What happens when the message meets a running turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Meeting {
    Steer,
    Queue,
}
