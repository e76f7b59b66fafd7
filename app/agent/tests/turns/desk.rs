//! A turn on a desk: its record, its viewers and its tools are in memory, so that its time can be
//! the test's. What Postgres does with a record is tested on Postgres.

use crate::record::{Record, message};
use famulus_agent::{Budget, DriveError, Driven, Driver, Limits, Timeouts};
use famulus_core::{
    agent::{Agent, Budgets, Grants},
    clock::SystemClock,
    event::{Envelope, Event, EventId, Status},
    ids::{AgentId, ConversationId, PersonId, TurnId, WorkerId},
    message::{FilePart, Heard, MessageRole, Part, PartBody, Provenance},
    model::{Model, Usage},
    person::{Person, Role},
    speech::Transcriber,
    tool::Tools,
    turn::{Ending, Fence, LoadedTurn, Partial, TurnState},
};
use std::sync::{Arc, atomic::Ordering};
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
