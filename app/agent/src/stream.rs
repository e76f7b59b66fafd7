//! The stream of a turn: numbers events, shows them at once, and stores them in batches.

use famulus_core::{
    Clock, StoreError,
    event::{Appended, DeltaKind, Envelope, Event, EventId, EventLog, VERSION, Viewers},
    ids::{ConversationId, TurnId},
    turn::{Fence, LoadedTurn},
};
use std::{sync::Arc, time::Duration};

/// Events wait this long for company, at most.
pub(crate) const BATCH: Duration = Duration::from_millis(50);

/// The stream of one turn under one lease.
pub(crate) struct Stream {
    log: Arc<dyn EventLog>,
    viewers: Arc<dyn Viewers>,
    clock: Arc<dyn Clock>,
    fence: Fence,
    conversation: ConversationId,
    turn: TurnId,
    number: i64,
    /// The last event that the record covers.
    recorded: EventId,
    /// Events that no durable commit covers yet; the first `stored` of them are in the table.
    open: Vec<Arc<Envelope>>,
    stored: usize,
    /// The database session that stored them.
    session: Option<u64>,
}

impl Stream {
    pub(crate) fn new(
        log: Arc<dyn EventLog>,
        viewers: Arc<dyn Viewers>,
        clock: Arc<dyn Clock>,
        fence: Fence,
        turn: &LoadedTurn,
    ) -> Self {
        Self {
            log,
            viewers,
            clock,
            fence,
            conversation: turn.conversation,
            turn: turn.id,
            number: 0,
            recorded: turn.shown,
            open: Vec::new(),
            stored: 0,
            session: None,
        }
    }

    /// The id of the last event.
    pub(crate) fn last(&self) -> EventId {
        EventId { fence: self.fence.token, number: self.number }
    }

    /// Whether something waits to be stored.
    pub(crate) fn is_dirty(&self) -> bool {
        self.stored < self.open.len()
    }

    pub(crate) fn delta(&mut self, kind: DeltaKind, text: String) {
        if !text.is_empty() {
            self.emit(Event::Delta { turn: self.turn, kind, text });
        }
    }

    /// Shows an event, and keeps it for the next batch.
    pub(crate) fn emit(&mut self, event: Event) {
        let envelope = self.next(event);
        self.number += 1;
        self.viewers.publish(&envelope);
        self.open.push(envelope);
    }

    /// The event that would come next, neither shown nor counted.
    pub(crate) fn next(&self, event: Event) -> Arc<Envelope> {
        Arc::new(Envelope {
            v: VERSION,
            id: EventId { fence: self.fence.token, number: self.number + 1 },
            conversation: self.conversation,
            at: self.clock.now(),
            event,
        })
    }

    /// Everything since the last durable step, for the transaction of the next one.
    pub(crate) fn open(&self) -> Vec<Arc<Envelope>> {
        self.open.clone()
    }

    /// The last event that the record covers.
    pub(crate) fn last_recorded(&self) -> EventId {
        self.recorded
    }

    /// A durable step has stored everything that was open.
    pub(crate) fn recorded(&mut self) {
        self.recorded = self.last();
        self.open.clear();
        self.stored = 0;
        self.viewers.stored(self.conversation, self.last());
    }

    /// Shows the event that came next in a durable step, which has stored it behind everything that was
    /// open.
    pub(crate) fn show_recorded(&mut self, event: &Arc<Envelope>) {
        self.number = event.id.number;
        self.viewers.publish(event);
        self.recorded();
    }

    /// Stores what waits. After an error everything is kept, and stored by a later call.
    ///
    /// Viewers of this process keep it in memory until a durable step: what a relaxed commit stored
    /// may be gone again after a crash of Postgres.
    pub(crate) async fn store(&mut self) -> Result<(), StoreError> {
        while self.is_dirty() {
            let news = self.open[self.stored..].to_vec();
            match self.log.append(self.fence.person, news, self.session).await? {
                Appended::Stored(session) => {
                    self.session = Some(session);
                    self.stored = self.open.len();
                }
                Appended::NewSession(session) => {
                    self.session = Some(session);
                    self.stored = 0;
                }
            }
        }
        Ok(())
    }
}
