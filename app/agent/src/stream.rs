//! The stream of a turn: numbers events, shows them at once, and stores them in batches.

use famulus_core::{
    Clock,
    event::{DeltaKind, Envelope, Event, EventId, EventLog, VERSION, Viewers},
    ids::{ConversationId, TurnId},
    tool::StoreError,
    turn::Fence,
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
    /// Events that no durable commit covers yet; the first `stored` of them are in the table.
    open: Vec<Arc<Envelope>>,
    stored: usize,
    generation: Option<u64>,
}

impl Stream {
    pub(crate) fn new(
        log: Arc<dyn EventLog>,
        viewers: Arc<dyn Viewers>,
        clock: Arc<dyn Clock>,
        fence: Fence,
        conversation: ConversationId,
        turn: TurnId,
    ) -> Self {
        Self {
            log,
            viewers,
            clock,
            fence,
            conversation,
            turn,
            number: 0,
            open: Vec::new(),
            stored: 0,
            generation: None,
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

    /// A durable step has stored everything that was open.
    pub(crate) fn recorded(&mut self) {
        self.open.clear();
        self.stored = 0;
        self.viewers.stored(self.conversation, self.last());
    }

    /// Shows an event that a durable step has stored on its own account.
    pub(crate) fn show_recorded(&mut self, event: &Arc<Envelope>) {
        self.number = event.id.number;
        self.viewers.publish(event);
        self.viewers.stored(self.conversation, event.id);
    }

    /// Stores what waits. After an error everything is kept, and stored by a later call.
    pub(crate) async fn store(&mut self) -> Result<(), StoreError> {
        if !self.is_dirty() {
            return Ok(());
        }
        let mut generation =
            self.log.append(self.fence.person, self.open[self.stored..].to_vec()).await?;
        if self.generation.is_some_and(|known| known != generation) && self.stored > 0 {
            // The session was lost, and with it perhaps what it had stored.
            generation = self.log.append(self.fence.person, self.open.clone()).await?;
        }
        self.generation = Some(generation);
        self.stored = self.open.len();
        self.viewers.stored(self.conversation, self.last());
        Ok(())
    }
}
