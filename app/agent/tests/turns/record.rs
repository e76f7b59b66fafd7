//! The record of one turn in memory, with whoever shows it, and with the tools that it may call.

use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::{
    StoreError,
    agent::Grants,
    blob::{BlobError, BlobRef, Blobs},
    event::{Appended, Envelope, EventId, EventLog, List, Viewers},
    ids::{BlobId, ConversationId, KnowledgeId, MessageId, PersonId, TurnId},
    knowledge::{Knowledge, KnowledgeStore, Upsert},
    message::{Heard, Message, MessageRole, Part, ToolCall, ToolResult},
    tool::{
        AskedAfter, CallContext, CallKey, CheckedCall, Effect, Plan, Repeat, ToolOutput, ToolSpec,
        Tools, Verdict,
    },
    turn::{
        Burial, Ended, Ending, Fence, LoadedTurn, NewMessage, RecordedCall, ReplyRecord, TurnLog,
        TurnState,
    },
};
use futures::stream::BoxStream;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Barrier;

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) loaded: Mutex<Option<LoadedTurn>>,
    pub(crate) ending: Mutex<Option<Ending>>,
    pub(crate) title: Mutex<Option<String>>,
    pub(crate) shown: Mutex<Vec<Arc<Envelope>>>,
    pub(crate) refuses: AtomicBool,
    pub(crate) lease_lost: AtomicBool,
    /// A stop stands in the record, and this process has not heard of it yet.
    pub(crate) stopped: AtomicBool,
    pub(crate) heard: Mutex<Vec<Heard>>,
    pub(crate) meeting: Mutex<Option<Arc<Barrier>>>,
}

#[async_trait]
impl TurnLog for Record {
    async fn take_up(&self, _: &Fence, _: TurnId) -> Result<LoadedTurn, StoreError> {
        Ok(self.loaded.lock().clone().expect("a turn is on the desk"))
    }

    async fn record_interrupted(
        &self,
        _: &Fence,
        turn: TurnId,
        new: Option<NewMessage>,
        _: EventId,
        _: Vec<Arc<Envelope>>,
    ) -> Result<Option<Arc<Message>>, StoreError> {
        if self.lease_lost.load(Ordering::SeqCst) {
            return Err(StoreError::LeaseLost);
        }
        Ok(new.map(|new| message(MessageRole::Assistant, new.parts, turn)))
    }

    async fn record_heard(
        &self,
        _: &Fence,
        _: TurnId,
        _: MessageId,
        _: usize,
        heard: &Heard,
    ) -> Result<(), StoreError> {
        self.heard.lock().push(heard.clone());
        Ok(())
    }

    async fn record_reply(
        &self,
        _: &Fence,
        record: ReplyRecord,
    ) -> Result<Arc<Message>, StoreError> {
        Ok(message(MessageRole::Assistant, record.message.parts, record.turn))
    }

    async fn mark_sent(&self, _: &Fence, _: &RecordedCall) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn record_output(&self, _: &Fence, _: CallKey, _: &ToolOutput) -> Result<(), StoreError> {
        Ok(())
    }

    async fn record_results(
        &self,
        _: &Fence,
        turn: TurnId,
        _: u32,
        _: MessageId,
        results: Vec<ToolResult>,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let parts = results.into_iter().map(Part::result).collect();
        Ok(vec![message(MessageRole::Tool, parts, turn)])
    }

    async fn park(&self, _: &Fence, _: TurnId, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close_approvals(
        &self,
        _: &Fence,
        _: TurnId,
        _: Timestamp,
        _: bool,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn finish(&self, _: &Fence, ending: Ending) -> Result<Ended, StoreError> {
        if ending.state == TurnState::Failed && self.stopped.load(Ordering::SeqCst) {
            return Ok(Ended::Stopped);
        }
        *self.ending.lock() = Some(ending);
        Ok(Ended::Done)
    }

    async fn bury(&self, _: &Fence, _: Burial) -> Result<Vec<Arc<Envelope>>, StoreError> {
        Ok(Vec::new())
    }

    async fn cancelled(&self, _: &[TurnId]) -> Result<Vec<TurnId>, StoreError> {
        Ok(Vec::new())
    }

    async fn set_title(&self, _: TurnId, title: &str) -> Result<(), StoreError> {
        *self.title.lock() = Some(title.to_owned());
        Ok(())
    }
}

#[async_trait]
impl EventLog for Record {
    async fn append(
        &self,
        _: PersonId,
        _: Vec<Arc<Envelope>>,
        _: Option<u64>,
    ) -> Result<Appended, StoreError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("the desk stores nothing".into()));
        }
        Ok(Appended::Stored(1))
    }
}

impl Viewers for Record {
    fn publish(&self, envelope: &Arc<Envelope>) {
        self.shown.lock().push(Arc::clone(envelope));
    }

    fn stored(&self, _: ConversationId, _: EventId) {}

    fn list_changed(&self, _: PersonId, _: List) {}
}

#[async_trait]
impl KnowledgeStore for Record {
    async fn digest(&self, _: PersonId) -> Result<Vec<Knowledge>, StoreError> {
        Ok(Vec::new())
    }

    async fn read(&self, _: PersonId, _: KnowledgeId) -> Result<Option<Knowledge>, StoreError> {
        Ok(None)
    }

    async fn upsert(
        &self,
        _: PersonId,
        _: CallKey,
        _: Upsert,
    ) -> Result<Option<Knowledge>, StoreError> {
        Ok(None)
    }

    async fn delete(&self, _: PersonId, _: CallKey, _: KnowledgeId) -> Result<bool, StoreError> {
        Ok(false)
    }
}

#[async_trait]
impl Blobs for Record {
    async fn put(
        &self,
        _: PersonId,
        _: &str,
        limit: u64,
        _: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<BlobRef, BlobError> {
        Err(BlobError::TooLarge { limit })
    }

    async fn get(
        &self,
        _: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<Bytes, BlobError>>), BlobError> {
        Err(BlobError::Missing { id })
    }
}

impl Tools for Record {
    fn catalogue(&self, _: &Grants) -> Vec<ToolSpec> {
        vec![ToolSpec {
            name: "look".into(),
            description: "Looks.".into(),
            schema: serde_json::json!({}),
        }]
    }

    fn checked<'a>(
        &'a self,
        _: &ToolCall,
        _: &Grants,
    ) -> Result<Arc<dyn CheckedCall + 'a>, ToolOutput> {
        Ok(Arc::new(Look { meeting: self.meeting.lock().clone() }))
    }
}

struct Look {
    pub(crate) meeting: Option<Arc<Barrier>>,
}

#[async_trait]
impl CheckedCall for Look {
    fn plan(&self) -> Plan {
        Plan { effect: Effect::Read, repeat: Repeat::Safe, verdict: Verdict::Allow }
    }

    async fn subject(&self, _: &CallContext) -> Option<String> {
        None
    }

    async fn run(&self, _: &CallContext) -> ToolOutput {
        if let Some(meeting) = &self.meeting {
            meeting.wait().await;
        }
        ToolOutput::Text("seen".into())
    }

    async fn ask_after(&self, _: &CallContext, _: Timestamp) -> AskedAfter {
        AskedAfter::Unknown
    }

    async fn recorded(&self, _: &CallContext, _: &ToolOutput) {}
}

pub(crate) fn message(role: MessageRole, parts: Vec<Part>, turn: TurnId) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId::new(),
        seq: 1,
        role,
        person: None,
        turn: Some(turn),
        parts,
        blocks: None,
        created_at: Timestamp::UNIX_EPOCH,
    })
}
