//! The record of turns with clocks beside it: how long a turn waits for it to begin and to end, and
//! what the turn loop takes between the two.

use async_trait::async_trait;
use famulus_core::{
    StoreError,
    event::{Envelope, EventId},
    ids::{MessageId, TurnId},
    message::{Heard, Message, ToolResult},
    tool::{CallKey, ToolOutput},
    turn::{
        Burial, Ended, Ending, Fence, LoadedTurn, NewMessage, RecordedCall, ReplyRecord, TurnLog,
    },
};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// What all calls of one kind took together, each from its beginning to its answer.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    nanoseconds: AtomicU64,
    calls: AtomicU64,
}

impl Clock {
    pub(crate) async fn time<T>(&self, call: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let answer = call.await;
        self.add(begun.elapsed());
        answer
    }

    fn add(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Spent {
        Spent {
            time: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
            calls: self.calls.load(Ordering::Relaxed),
        }
    }
}

/// What a clock shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    time: Duration,
    pub(crate) calls: u64,
}

impl Spent {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            time: self.time.saturating_sub(before.time),
            calls: self.calls.saturating_sub(before.calls),
        }
    }

    /// The mean of a call.
    pub(crate) fn mean(self) -> Duration {
        self.time.div_f64(self.calls.max(1) as f64)
    }
}

/// The clocks of turns.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) take_up: Clock,
    /// From the answer of `take_up` until `finish` is called: the turn loop and its model.
    pub(crate) between: Clock,
    pub(crate) finish: Clock,
    taken_up: Mutex<HashMap<TurnId, Instant>>,
}

/// Passes every call on, and times those that every turn makes.
pub(crate) struct Timed {
    pub(crate) log: Arc<dyn TurnLog>,
    pub(crate) clocks: Arc<Clocks>,
}

#[async_trait]
impl TurnLog for Timed {
    async fn take_up(&self, fence: &Fence, turn: TurnId) -> Result<LoadedTurn, StoreError> {
        let loaded = self.clocks.take_up.time(self.log.take_up(fence, turn)).await;
        self.clocks.taken_up.lock().insert(turn, Instant::now());
        loaded
    }

    async fn finish(&self, fence: &Fence, ending: Ending) -> Result<Ended, StoreError> {
        if let Some(taken_up) = self.clocks.taken_up.lock().remove(&ending.turn) {
            self.clocks.between.add(taken_up.elapsed());
        }
        self.clocks.finish.time(self.log.finish(fence, ending)).await
    }

    async fn record_interrupted(
        &self,
        fence: &Fence,
        turn: TurnId,
        message: Option<NewMessage>,
        shown: EventId,
        events: Vec<Arc<Envelope>>,
    ) -> Result<Option<Arc<Message>>, StoreError> {
        self.log.record_interrupted(fence, turn, message, shown, events).await
    }

    async fn record_heard(
        &self,
        fence: &Fence,
        turn: TurnId,
        message: MessageId,
        part: usize,
        heard: &Heard,
    ) -> Result<(), StoreError> {
        self.log.record_heard(fence, turn, message, part, heard).await
    }

    async fn record_reply(
        &self,
        fence: &Fence,
        record: ReplyRecord,
    ) -> Result<Arc<Message>, StoreError> {
        self.log.record_reply(fence, record).await
    }

    async fn mark_sent(&self, fence: &Fence, call: &RecordedCall) -> Result<bool, StoreError> {
        self.log.mark_sent(fence, call).await
    }

    async fn record_output(
        &self,
        fence: &Fence,
        key: CallKey,
        output: &ToolOutput,
    ) -> Result<(), StoreError> {
        self.log.record_output(fence, key, output).await
    }

    async fn record_results(
        &self,
        fence: &Fence,
        turn: TurnId,
        step: u32,
        message: MessageId,
        results: Vec<ToolResult>,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        self.log.record_results(fence, turn, step, message, results).await
    }

    async fn park(
        &self,
        fence: &Fence,
        turn: TurnId,
        deadline: Timestamp,
    ) -> Result<(), StoreError> {
        self.log.park(fence, turn, deadline).await
    }

    async fn close_approvals(
        &self,
        fence: &Fence,
        turn: TurnId,
        now: Timestamp,
        supersede: bool,
    ) -> Result<(), StoreError> {
        self.log.close_approvals(fence, turn, now, supersede).await
    }

    async fn bury(&self, fence: &Fence, burial: Burial) -> Result<Vec<Arc<Envelope>>, StoreError> {
        self.log.bury(fence, burial).await
    }

    async fn cancelled(&self, turns: &[TurnId]) -> Result<Vec<TurnId>, StoreError> {
        self.log.cancelled(turns).await
    }

    async fn set_title(&self, turn: TurnId, title: &str) -> Result<(), StoreError> {
        self.log.set_title(turn, title).await
    }
}
