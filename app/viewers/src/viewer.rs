//! One viewer of one conversation: a place in the order of its events, and nothing else.

use crate::{
    frame::Frame,
    hub::{FORSAKEN, Hub, ViewerSlot, Watched},
    window::{View, Window},
};
use famulus_core::{
    StoreError,
    event::EventId,
    event_table::{Cursor, EventTable},
    ids::{ConversationId, PersonId},
};
use std::{collections::hash_map::Entry, sync::Arc};
use tokio::{sync::watch, time::Instant};

/// Events that are read from the table at once.
pub(crate) const PAGE: i64 = 200;

/// Watches a conversation from its place on.
pub struct Viewer {
    hub: Arc<Hub>,
    table: Arc<dyn EventTable>,
    person: PersonId,
    conversation: ConversationId,
    place: EventId,
    /// `None` only while it is being dropped.
    window: Option<watch::Receiver<Window>>,
    _taken: ViewerSlot,
}

impl Viewer {
    /// Begins behind `after`, or before the live turn's first event. The second value says that
    /// `after` is older than what is kept: what the client holds is to be fetched anew.
    pub async fn attach(
        place: ViewerSlot,
        table: Arc<dyn EventTable>,
        person: PersonId,
        conversation: ConversationId,
        after: Option<EventId>,
    ) -> Result<(Self, bool), StoreError> {
        let hub = Arc::clone(&place.hub);
        let (start, gone) = table.stream_start(person, conversation, after).await?;
        // A window begins where the table ends, whatever a client says it has seen.
        let mut tail = after.is_none().then_some(start);
        let window = loop {
            if gone && tail.is_none() {
                tail = Some(table.stream_start(person, conversation, None).await?.0);
            }
            match hub.subscribe(person, conversation, tail) {
                Some(window) => break window,
                None => tail = Some(table.stream_start(person, conversation, None).await?.0),
            }
        };
        let start = if gone { tail.unwrap_or(start) } else { start };
        let viewer = Self {
            hub,
            table,
            person,
            conversation,
            place: start,
            window: Some(window),
            _taken: place,
        };
        Ok((viewer, gone))
    }

    /// Waits for what comes next, oldest first; never empty. Cancel safe.
    ///
    /// # Errors
    /// The table did not answer; the viewer keeps its place.
    pub async fn next(&mut self) -> Result<Vec<Arc<Frame>>, StoreError> {
        loop {
            let Some(window) = &mut self.window else { return std::future::pending().await };
            let view = window.borrow_and_update().after(self.place);
            match view {
                View::Frames(frames) => {
                    if let Some(last) = frames.last() {
                        self.place = last.id();
                        return Ok(frames);
                    }
                    if window.changed().await.is_err() {
                        // The hub keeps the window while a viewer is there.
                        std::future::pending::<()>().await;
                    }
                }
                View::Behind { base } => {
                    let frames = self.read(base).await?;
                    if !frames.is_empty() {
                        return Ok(frames);
                    }
                }
            }
        }
    }

    /// Reads the table from the viewer's place. What it had before the read began, up to `base`, is
    /// all that there will ever be.
    async fn read(&mut self, base: EventId) -> Result<Vec<Arc<Frame>>, StoreError> {
        let cursor =
            Cursor { person: self.person, conversation: self.conversation, after: self.place };
        let rows = self.table.events_after(&[cursor], PAGE).await?;
        let all = rows.len() < PAGE as usize;
        let frames: Vec<_> = rows.into_iter().map(|row| Frame::new(Arc::new(row))).collect();
        let last = frames.last().map_or(self.place, |frame| frame.id());
        self.place = if all { last.max(base) } else { last };
        Ok(frames)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.window = None;
        self.hub.leave(self.conversation);
    }
}

impl Hub {
    /// A view of the conversation's window, which is made at `tail` if it is not there; `None` when
    /// it is to be made and the tail is not known.
    fn subscribe(
        &self,
        person: PersonId,
        conversation: ConversationId,
        tail: Option<EventId>,
    ) -> Option<watch::Receiver<Window>> {
        let mut inner = self.inner.lock();
        let watched = match inner.windows.entry(conversation) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => free.insert(Watched {
                person: None,
                window: watch::Sender::new(Window::new(tail?, Instant::now())),
                due: false,
                local_at: None,
            }),
        };
        watched.person = Some(person);
        if watched.window.receiver_count() == 0 {
            // Between the table's tail and now something may have come.
            watched.due = true;
            self.work.notify_one();
        }
        Some(watched.window.subscribe())
    }

    fn leave(&self, conversation: ConversationId) {
        let mut inner = self.inner.lock();
        let forsaken = inner.windows.get(&conversation).is_some_and(Watched::is_forsaken);
        if forsaken {
            inner.windows.remove(&conversation);
        }
    }
}

impl Watched {
    /// Whether nobody needs it: nobody watches, and what it holds is in the table or never will be.
    pub(crate) fn is_forsaken(&self) -> bool {
        let window = self.window.borrow();
        self.window.receiver_count() == 0
            && (window.is_stored() || window.touched().elapsed() > FORSAKEN)
    }
}
