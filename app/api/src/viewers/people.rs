//! The stream of a person: which lists have changed, and the status of every conversation.
//!
//! It has no place to go on from. Whoever connects, or falls behind, is told that every list has
//! changed, and so misses nothing.

use super::{Hub, RecentConversation, ViewerSlot, frame::encode};
use bytes::Bytes;
use famulus_core::{
    event::{Envelope, Event, EventId, List, Status, VERSION},
    ids::{ConversationId, PersonId},
};
use jiff::Timestamp;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

/// Events that a viewer may be behind.
const CAPACITY: usize = 32;

pub(crate) const LISTS: [List; 5] =
    [List::Conversations, List::Messages, List::Approvals, List::Schedules, List::Knowledge];

/// What one person's viewers here are told.
pub(super) struct Feed {
    sender: broadcast::Sender<Bytes>,
    /// The conversations whose turns run, and how far they were read.
    pub(super) followed: HashMap<ConversationId, EventId>,
    pub(super) recent: Vec<RecentConversation>,
    pub(super) looked_at: Option<Instant>,
}

impl Feed {
    fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(CAPACITY),
            followed: HashMap::new(),
            recent: Vec::new(),
            looked_at: None,
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(super) fn changed(&self, list: List) {
        // Without a receiver nobody is to be told.
        let _unheard = self.sender.send(changed(list));
    }

    /// Takes an event of a followed conversation.
    pub(super) fn take(&mut self, envelope: &Envelope) {
        let Some(place) = self.followed.get_mut(&envelope.conversation) else { return };
        if envelope.id <= *place {
            return;
        }
        *place = envelope.id;
        match &envelope.event {
            Event::Status { status, .. } => {
                let _unheard = self.sender.send(encode(envelope, None));
                if matches!(status, Status::WaitingForInput { .. }) {
                    self.changed(List::Approvals);
                }
            }
            Event::Complete { .. } => {
                let _unheard = self.sender.send(encode(envelope, None));
                self.followed.remove(&envelope.conversation);
                // A turn may have changed any of them.
                for list in LISTS {
                    self.changed(list);
                }
            }
            Event::Delta { .. }
            | Event::Usage { .. }
            | Event::Resumed { .. }
            | Event::Message { .. }
            | Event::ListChanged { .. } => {}
        }
    }
}

/// A viewer of a person's stream.
pub(crate) struct PersonViewer {
    hub: Arc<Hub>,
    person: PersonId,
    /// `None` only while it is being dropped.
    receiver: Option<broadcast::Receiver<Bytes>>,
    behind: bool,
    _taken: ViewerSlot,
}

impl PersonViewer {
    pub(crate) fn attach(place: ViewerSlot, person: PersonId) -> Self {
        let hub = Arc::clone(&place.hub);
        let receiver =
            hub.inner.lock().people.entry(person).or_insert_with(Feed::new).sender.subscribe();
        hub.work.notify_one();
        Self { hub, person, receiver: Some(receiver), behind: true, _taken: place }
    }

    /// Waits for what comes next. Cancel safe.
    pub(crate) async fn next(&mut self) -> Vec<Bytes> {
        if std::mem::take(&mut self.behind) {
            return LISTS.map(changed).to_vec();
        }
        let Some(receiver) = &mut self.receiver else { return std::future::pending().await };
        match receiver.recv().await {
            Ok(bytes) => vec![bytes],
            Err(RecvError::Lagged(_)) => LISTS.map(changed).to_vec(),
            // The hub keeps the feed while a viewer is there.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Drop for PersonViewer {
    fn drop(&mut self) {
        self.receiver = None;
        let mut inner = self.hub.inner.lock();
        if inner.people.get(&self.person).is_some_and(|feed| !feed.is_watched()) {
            inner.people.remove(&self.person);
        }
    }
}

/// A change of a list belongs to no conversation and has no place in one: both ids are zero.
fn changed(list: List) -> Bytes {
    let envelope = Envelope {
        v: VERSION,
        id: EventId::START,
        conversation: ConversationId(uuid::Uuid::nil()),
        at: Timestamp::UNIX_EPOCH,
        event: Event::ListChanged { list },
    };
    encode(&envelope, None)
}
