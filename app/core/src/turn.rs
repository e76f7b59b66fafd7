//! Turns: their record, and the port through which the turn loop keeps it.
//!
//! The record is written before the effect that it announces, and every write carries the
//! [`Fence`] of the worker's lease: a worker that lost its lease can write nothing.

use crate::StoreError;
use crate::agent::Agent;
use crate::approval::{Approval, ApprovalState};
use crate::event::{Envelope, EventId};
use crate::ids::{ApprovalId, ConversationId, MessageId, PersonId, TurnId, WorkerId};
use crate::inbound::Address;
use crate::knowledge::Knowledge;
use crate::message::{Heard, Message, Part, Provenance, ProviderBlocks, ToolCall, ToolResult};
use crate::model::Usage;
use crate::person::Person;
use crate::tool::{CallKey, Effect, Repeat, ToolOutput};
use async_trait::async_trait;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

/// The right to write, as long as the lane's row agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub lane: Uuid,
    pub worker: WorkerId,
    /// Grows with every lease of the lane.
    pub token: i64,
    /// Whose rows the work may touch.
    pub person: PersonId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    Queued,
    Running,
    /// Gave up its worker until a question is answered or the time is up.
    Waiting,
    Complete,
    Failed,
    Cancelled,
}

impl TurnState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn is_final(self) -> bool {
        match self {
            Self::Complete | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }
}

/// How far a recorded call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Recorded, not sent.
    Planned,
    /// Sent: it may have happened.
    Sent,
    /// Its output is recorded.
    Done,
}

impl CallState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Sent => "sent",
            Self::Done => "done",
        }
    }
}

/// A call of the turn's latest step, as it stands in the record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    pub key: CallKey,
    pub call: ToolCall,
    pub effect: Effect,
    pub repeat: Repeat,
    pub state: CallState,
    /// When it was first marked as sent.
    pub sent_at: Option<Timestamp>,
    pub output: Option<ToolOutput>,
    pub approval: Option<RecordedApproval>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedApproval {
    pub id: ApprovalId,
    pub state: ApprovalState,
    pub expires_at: Timestamp,
}

/// A turn as a worker takes it up.
#[derive(Clone, Debug)]
pub struct LoadedTurn {
    pub id: TurnId,
    pub conversation: ConversationId,
    pub agent: Agent,
    /// In whose name it runs.
    pub person: Person,
    /// To whom the conversation belongs.
    pub host: PersonId,
    pub depth: u32,
    pub state: TurnState,
    /// Model replies recorded so far.
    pub steps: u32,
    pub usage: Usage,
    /// Who began it, and where its reply goes.
    pub began_by: Provenance,
    pub origin: Option<Address>,
    pub cancel_requested: bool,
    /// The conversation up to this turn, and the turn's own messages, in the order of the record.
    pub history: Vec<Arc<Message>>,
    /// Every call of the turn, by step and position.
    pub calls: Vec<RecordedCall>,
    /// What the assistant knows of the person, at this moment; none for agents that do not carry it.
    pub knowledge: Option<Vec<Knowledge>>,
    /// The last event that viewers were shown of what is recorded: whatever they hold beyond it was
    /// never stored, unless `partial` says otherwise.
    pub shown: EventId,
    /// What a predecessor streamed of a reply that it never recorded.
    pub partial: Option<Partial>,
    /// Whether nobody took it up before, so that nothing of it was shown.
    pub is_fresh: bool,
    /// Whether the conversation still has no title of its own.
    pub untitled: bool,
}

/// Text that was streamed and stored, but whose reply was never recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// The last event that was stored: what viewers may keep.
    pub last: EventId,
    pub text: String,
    pub reasoning: String,
}

/// A message of the turn, about to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    pub id: MessageId,
    pub parts: Vec<Part>,
    pub blocks: Option<ProviderBlocks>,
}

/// A model's reply with the calls that it asks for; recorded before any of them is sent.
#[derive(Clone, Debug)]
pub struct ReplyRecord {
    pub turn: TurnId,
    pub step: u32,
    pub message: NewMessage,
    pub calls: Vec<PlannedCall>,
    pub model: String,
    /// Total of the turn.
    pub usage: Usage,
    /// The last event that viewers were shown of this reply.
    pub shown: EventId,
    /// What viewers were shown since the last record, stored in its transaction unless it is
    /// already.
    pub events: Vec<Arc<Envelope>>,
}

#[derive(Clone, Debug)]
pub struct PlannedCall {
    pub key: CallKey,
    pub call: ToolCall,
    pub effect: Effect,
    pub repeat: Repeat,
    /// Set when the outcome is known without running it.
    pub output: Option<ToolOutput>,
    pub approval: Option<Approval>,
}

/// How a turn ends.
#[derive(Clone, Debug)]
pub struct Ending {
    pub turn: TurnId,
    pub state: TurnState,
    /// The last message, recorded in the same transaction.
    pub message: Option<NewMessage>,
    pub model: Option<String>,
    pub usage: Usage,
    /// Model replies of the turn.
    pub steps: u32,
    /// Why it failed, for the person who waits.
    pub error: Option<String>,
    /// What is to be delivered, if anything, to each place that a message of the turn came from.
    pub reply: Option<String>,
    /// The channels that deliver; whoever wrote on another one looks into the conversation.
    pub delivering: Vec<String>,
    pub shown: EventId,
    /// What viewers were shown since the last record.
    pub events: Vec<Arc<Envelope>>,
    /// The event that becomes true with the ending, and is stored with it only.
    pub complete: Arc<Envelope>,
}

/// What whoever wrote to a turn that was stopped is told.
pub const STOPPED: &str = "Stopped.";

/// How a turn ends whose workers died again and again.
#[derive(Clone, Debug)]
pub struct Burial {
    pub turn: TurnId,
    /// Why, for whoever looks at the dead letters and for the person who waits.
    pub reason: String,
    /// As in [`Ending`].
    pub reply: String,
    pub delivering: Vec<String>,
    pub at: Timestamp,
}

/// What came of ending a turn.
#[derive(Clone, Debug)]
pub enum Ended {
    Done,
    /// Messages arrived for the turn that it has not seen; the ending's message was recorded, and
    /// the turn goes on with these.
    Steered(Vec<Arc<Message>>),
    /// It was about to fail, and somebody asked it to stop before that. Nothing was recorded: it is to
    /// end as stopped.
    Stopped,
}

/// The record of turns.
#[async_trait]
pub trait TurnLog: Send + Sync + 'static {
    /// Takes a turn up: marks it running, and reads all that the loop needs.
    async fn take_up(&self, fence: &Fence, turn: TurnId) -> Result<LoadedTurn, StoreError>;

    /// Records that a reply broke off: what was streamed of it, if it is kept, and the events up to `shown`.
    /// What is stored behind its predecessor's token afterwards counts for nothing.
    async fn record_interrupted(
        &self,
        fence: &Fence,
        turn: TurnId,
        message: Option<NewMessage>,
        shown: EventId,
        events: Vec<Arc<Envelope>>,
    ) -> Result<Option<Arc<Message>>, StoreError>;

    /// Records what was heard in a recording: the part of this number of a message of the turn.
    async fn record_heard(
        &self,
        fence: &Fence,
        turn: TurnId,
        message: MessageId,
        part: usize,
        heard: &Heard,
    ) -> Result<(), StoreError>;

    /// Records a reply and its calls.
    async fn record_reply(
        &self,
        fence: &Fence,
        record: ReplyRecord,
    ) -> Result<Arc<Message>, StoreError>;

    /// Marks a call that must not be repeated as sent, and uses up its approval.
    ///
    /// Returns false when the approval is not (or no longer) a yes: the call must not be sent.
    async fn mark_sent(&self, fence: &Fence, call: &RecordedCall) -> Result<bool, StoreError>;

    /// Records one output as soon as it is known.
    async fn record_output(
        &self,
        fence: &Fence,
        key: CallKey,
        output: &ToolOutput,
    ) -> Result<(), StoreError>;

    /// Records the results of a whole step as one message, and takes what the person wrote
    /// meanwhile.
    async fn record_results(
        &self,
        fence: &Fence,
        turn: TurnId,
        step: u32,
        message: MessageId,
        results: Vec<ToolResult>,
    ) -> Result<Vec<Arc<Message>>, StoreError>;

    /// Gives up the worker until `deadline`, or until something wakes the conversation.
    async fn park(
        &self,
        fence: &Fence,
        turn: TurnId,
        deadline: Timestamp,
    ) -> Result<(), StoreError>;

    /// Closes the turn's questions whose time has run out, and with `supersede` all that are open.
    async fn close_approvals(
        &self,
        fence: &Fence,
        turn: TurnId,
        now: Timestamp,
        supersede: bool,
    ) -> Result<(), StoreError>;

    /// Ends the turn and its lease in one transaction. What joined a turn that fails, and was read
    /// by no recorded reply, goes to another turn.
    async fn finish(&self, fence: &Fence, ending: Ending) -> Result<Ended, StoreError>;

    /// Fails a turn that no worker could finish, and keeps its job among the dead letters, from
    /// where it can be tried again. Returns the events that are stored with it.
    async fn bury(&self, fence: &Fence, burial: Burial) -> Result<Vec<Arc<Envelope>>, StoreError>;

    /// Which of these turns somebody asked to end.
    async fn cancelled(&self, turns: &[TurnId]) -> Result<Vec<TurnId>, StoreError>;

    /// Gives the conversation a title, unless it has one.
    async fn set_title(&self, turn: TurnId, title: &str) -> Result<(), StoreError>;
}
