//! A turn on a desk: its record, its viewers and its tools are in memory, so that its time can be
//! the test's. What Postgres does with a record is tested on Postgres.

use async_trait::async_trait;
use bytes::Bytes;
use famulus_agent::{Budget, DriveError, Driven, Driver, Limits, Timeouts};
use famulus_core::{
    StoreError,
    agent::{Agent, Budgets, Grants},
    blob::{BlobError, BlobRef, Blobs},
    clock::SystemClock,
    event::{Appended, Envelope, Event, EventId, EventLog, List, Status, Viewers},
    ids::{AgentId, BlobId, ConversationId, KnowledgeId, MessageId, PersonId, TurnId, WorkerId},
    knowledge::{Knowledge, KnowledgeStore, Upsert},
    message::{
        FilePart, Heard, Message, MessageRole, Part, PartBody, Provenance, ToolCall, ToolResult,
    },
    model::{Model, ModelError, ModelEvent, ModelReply, ModelRequest, ModelStream, Usage},
    person::{Person, Role},
    speech::Transcriber,
    tool::{
        AskedAfter, CallContext, CallKey, CheckedCall, Effect, Plan, Repeat, ToolOutput, ToolSpec,
        Tools, Verdict,
    },
    turn::{
        Burial, Ended, Ending, Fence, LoadedTurn, NewMessage, Partial, RecordedCall, ReplyRecord,
        TurnLog, TurnState,
    },
};
use futures::{StreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// One turn with everything around it.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) turn: TurnId,
    pub(crate) stop: CancellationToken,
    pub(crate) abandon: CancellationToken,
    pub(crate) timeouts: Timeouts,
    /// Whether the conversation has no title yet.
    pub(crate) untitled: bool,
    pub(crate) tools: Arc<dyn Tools>,
    pub(crate) transcriber: Option<Arc<dyn Transcriber>>,
    /// What comes with the turn's message.
    pub(crate) recording: Option<FilePart>,
    /// What a predecessor streamed.
    pub(crate) partial: Option<Partial>,
    record: Arc<Record>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let record = Arc::new(Record::default());
        Self {
            turn: TurnId::new(),
            stop: CancellationToken::new(),
            abandon: CancellationToken::new(),
            timeouts: Timeouts::default(),
            untitled: false,
            tools: record.clone(),
            transcriber: None,
            recording: None,
            partial: None,
            record,
        }
    }

    /// From now on no event can be stored.
    pub(crate) fn store_nothing(&self) {
        self.record.refuses.store(true, Ordering::SeqCst);
    }

    /// From now on the lease is another's.
    pub(crate) fn lose_lease(&self) {
        self.record.lease_lost.store(true, Ordering::SeqCst);
    }

    /// What viewers were told to drop: everything behind these.
    pub(crate) fn taken_back(&self) -> Vec<EventId> {
        let shown = self.record.shown.lock();
        let last = |envelope: &Arc<Envelope>| {
            if let Event::Resumed { last, .. } = envelope.event { Some(last) } else { None }
        };
        shown.iter().filter_map(last).collect()
    }

    /// Somebody stops the turn in another process.
    pub(crate) fn stop_elsewhere(&self) {
        self.record.stopped.store(true, Ordering::SeqCst);
    }

    /// Calls run from now on only when so many run at the same time.
    pub(crate) fn meet(&self, calls: usize) {
        *self.record.meeting.lock() = Some(Arc::new(Barrier::new(calls)));
    }

    pub(crate) async fn drive(&self, model: Arc<dyn Model>) -> Result<Driven, DriveError> {
        let record = &self.record;
        *record.loaded.lock() = Some(self.loaded());
        let driver = Driver {
            log: record.clone(),
            events: record.clone(),
            viewers: record.clone(),
            model,
            transcriber: self.transcriber.clone(),
            tools: Arc::clone(&self.tools),
            knowledge: record.clone(),
            blobs: record.clone(),
            clock: Arc::new(SystemClock),
            channels: Arc::default(),
            limits: Limits {
                timeouts: self.timeouts,
                budget: Budget { history_tokens: 1000, knowledge_tokens: 1000 },
                approval_seconds: 300,
            },
        };
        driver.drive(&fence(), self.turn, &self.stop, &self.abandon).await
    }

    /// How it ended.
    pub(crate) fn ending(&self) -> Ending {
        self.record.ending.lock().clone().expect("the turn has ended")
    }

    pub(crate) fn title(&self) -> Option<String> {
        self.record.title.lock().clone()
    }

    /// What viewers were told went wrong.
    pub(crate) fn told(&self) -> Vec<String> {
        let shown = self.record.shown.lock();
        shown
            .iter()
            .filter_map(|envelope| match &envelope.event {
                Event::Status { status: Status::Error { message, .. }, .. } => {
                    Some(message.clone())
                }
                Event::Delta { .. }
                | Event::Status { .. }
                | Event::Usage { .. }
                | Event::Message { .. }
                | Event::Resumed { .. }
                | Event::Complete { .. }
                | Event::ListChanged { .. } => None,
            })
            .collect()
    }

    /// What was recorded of recordings.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.record.heard.lock().clone()
    }

    fn said(&self) -> Vec<Part> {
        let recording = self.recording.iter().cloned();
        let recording = recording.map(|file| Part::new(PartBody::Audio(file), Provenance::Owner));
        [Part::system_text("Hello?")].into_iter().chain(recording).collect()
    }

    fn loaded(&self) -> LoadedTurn {
        let person = PersonId(Uuid::nil());
        LoadedTurn {
            id: self.turn,
            conversation: ConversationId(Uuid::nil()),
            agent: Agent {
                id: AgentId(Uuid::nil()),
                name: "tester".into(),
                prompt: String::new(),
                model: None,
                step_cap: None,
                budgets: Budgets::default(),
                tools: Grants::all(),
            },
            person: Person {
                id: person,
                name: "Ada".into(),
                role: Role::Owner,
                time_zone: "Europe/Berlin".into(),
                language: "en".into(),
            },
            host: person,
            depth: 0,
            state: TurnState::Running,
            steps: 0,
            usage: Usage::default(),
            began_by: Provenance::Owner,
            origin: None,
            cancel_requested: false,
            history: vec![message(MessageRole::User, self.said(), self.turn)],
            calls: Vec::new(),
            knowledge: None,
            shown: EventId { fence: 0, number: 0 },
            partial: self.partial.clone(),
            is_fresh: self.partial.is_none(),
            untitled: self.untitled,
        }
    }
}

fn fence() -> Fence {
    Fence { lane: Uuid::nil(), worker: WorkerId::new(), token: 1, person: PersonId(Uuid::nil()) }
}

fn message(role: MessageRole, parts: Vec<Part>, turn: TurnId) -> Arc<Message> {
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

#[derive(Default)]
struct Record {
    loaded: Mutex<Option<LoadedTurn>>,
    ending: Mutex<Option<Ending>>,
    title: Mutex<Option<String>>,
    shown: Mutex<Vec<Arc<Envelope>>>,
    refuses: AtomicBool,
    lease_lost: AtomicBool,
    /// A stop stands in the record, and this process has not heard of it yet.
    stopped: AtomicBool,
    heard: Mutex<Vec<Heard>>,
    meeting: Mutex<Option<Arc<Barrier>>>,
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
    meeting: Option<Arc<Barrier>>,
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

/// Decides an answer by what was asked, and how many were asked before.
type Answers = dyn Fn(usize, &ModelRequest) -> ModelStream + Send + Sync;

/// A provider that does as it is told.
pub(crate) struct Peer {
    plan: Box<Answers>,
    asked: AtomicUsize,
}

impl Peer {
    pub(crate) fn new(
        plan: impl Fn(usize, &ModelRequest) -> ModelStream + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { plan: Box::new(plan), asked: AtomicUsize::new(0) })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Model for Peer {
    fn provider(&self) -> &'static str {
        "peer"
    }

    fn ask(&self, request: ModelRequest) -> ModelStream {
        (self.plan)(self.asked.fetch_add(1, Ordering::SeqCst), &request)
    }
}

/// It fails at once.
pub(crate) fn fails(error: ModelError) -> ModelStream {
    stream::iter([Err(error)]).boxed()
}

/// It says this, and is done.
pub(crate) fn says(text: &str) -> ModelStream {
    replies(vec![Part::assistant_text(text)])
}

/// It wants to look so many times, and elsewhere than in other steps.
pub(crate) fn looks(times: usize, step: usize) -> ModelStream {
    let call = |n: usize| call("look", n, &format!("{{\"at\":\"{step}/{n}\"}}"));
    replies((0..times).map(call).collect())
}

fn call(tool: &str, n: usize, arguments: &str) -> Part {
    let (id, arguments) = (format!("call_{n}"), arguments.to_owned());
    Part::call(ToolCall { id, name: tool.to_owned(), arguments })
}

/// It says a word, and then nothing for ever.
pub(crate) fn falls_silent() -> ModelStream {
    let word = Ok(ModelEvent::Text("Well, ".into()));
    stream::iter([word]).chain(stream::pending()).boxed()
}

pub(crate) fn replies(parts: Vec<Part>) -> ModelStream {
    let reply = ModelReply { model: "peer-1".into(), parts, blocks: None, usage: Usage::default() };
    stream::iter([Ok(ModelEvent::Done(Box::new(reply)))]).boxed()
}
