//! Replies that broke off: what of them is kept, and what viewers are to drop.

use crate::{ask::Shown, run::Run};
use famulus_core::{
    StoreError,
    event::{Envelope, Event, EventId},
    ids::MessageId,
    message::Sentinel,
    turn::NewMessage,
};
use std::sync::Arc;

impl Run<'_> {
    /// Tells viewers how much of what they saw is kept, and records it as interrupted. The first
    /// event of every lease, also of the first: a crash of Postgres can make a begun turn new again.
    pub(crate) async fn resume(&mut self) -> Result<(), StoreError> {
        let turn = self.turn.id;
        let partial = self.turn.partial.take();
        let last = partial.as_ref().map_or(self.turn.shown, |partial| partial.last);
        if self.turn.is_fresh {
            self.stream.emit(Event::Resumed { turn, last });
            return Ok(());
        }
        let kept =
            partial.map(|partial| Shown { text: partial.text, reasoning: partial.reasoning });
        self.take_back(last, kept.unwrap_or_default()).await
    }

    /// Has viewers drop what they saw behind `last`, of which `kept` is recorded. They are told when it
    /// stands in the record, and not before: a transaction that a lost lease left open may store events
    /// later, and a successor that knows of no `resumed` would keep what viewers have dropped.
    pub(crate) async fn take_back(&mut self, last: EventId, kept: Shown) -> Result<(), StoreError> {
        let resumed = self.stream.next(Event::Resumed { turn: self.turn.id, last });
        let events = [self.stream.open(), vec![Arc::clone(&resumed)]].concat();
        self.record_broken_off(kept, resumed.id, events).await?;
        self.stream.show_recorded(&resumed);
        Ok(())
    }

    pub(crate) async fn record_interrupted(&mut self, shown: Shown) -> Result<(), StoreError> {
        self.record_broken_off(shown, self.stream.last(), self.stream.open()).await?;
        self.stream.recorded();
        Ok(())
    }

    async fn record_broken_off(
        &mut self,
        shown: Shown,
        last: EventId,
        events: Vec<Arc<Envelope>>,
    ) -> Result<(), StoreError> {
        let message = (!shown.is_empty()).then(|| NewMessage {
            id: MessageId::new(),
            parts: shown.parts(Sentinel::Interrupted),
            blocks: None,
        });
        let log = &self.driver.log;
        let stored =
            log.record_interrupted(self.fence, self.turn.id, message, last, events).await?;
        self.turn.history.extend(stored);
        Ok(())
    }
}
