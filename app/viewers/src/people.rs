//! The stream of a person: which lists have changed, and the status of every conversation.
//!
//! It has no place to go on from. Whoever connects, or falls behind, is told that every list has
//! changed, and so misses nothing.

use crate::{
    frame::encode,
    hub::{Hub, ViewerSlot},
};
use bytes::Bytes;
use famulus_core::{
    event::{Envelope, Event, EventId, List, Status, VERSION},
    event_table::{ListMarks, RecentConversation},
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
pub(crate) struct Feed {
    sender: broadcast::Sender<Bytes>,
    /// The conversations whose turns run, and how far they were read.
    pub(crate) followed: HashMap<ConversationId, EventId>,
    recent: Vec<RecentConversation>,
    marks: Option<ListMarks>,
    pub(crate) looked_at: Option<Instant>,
}

impl Feed {
    fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(CAPACITY),
            followed: HashMap::new(),
            recent: Vec::new(),
            marks: None,
            looked_at: None,
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn changed(&self, list: List) {
        // Without a receiver nobody is to be told.
        let _unheard = self.sender.send(changed(list));
    }

    /// Takes what the record says by now, whichever process wrote it.
    pub(crate) fn look(&mut self, recent: Vec<RecentConversation>, marks: ListMarks) {
        if self.recent != recent {
            for was in &self.recent {
                let is = recent.iter().find(|is| is.conversation == was.conversation);
                if let Some(turn) = was.live
                    && is.is_none_or(|is| is.live.is_none())
                {
                    let status = Event::Status { turn, status: Status::Idle };
                    let _unheard = self.sender.send(placeless(was.conversation, status));
                }
            }
            self.recent = recent;
            self.changed(List::Conversations);
            self.changed(List::Messages);
        }
        // Whoever connects looks at every list.
        if let Some(known) = self.marks.replace(marks.clone()) {
            let lists = [
                (known.approvals == marks.approvals, List::Approvals),
                (known.schedules == marks.schedules, List::Schedules),
                (known.knowledge == marks.knowledge, List::Knowledge),
            ];
            for (_, list) in lists.into_iter().filter(|(same, _)| !same) {
                self.changed(list);
            }
        }
    }

    /// Takes an event of a followed conversation.
    pub(crate) fn take(&mut self, envelope: &Envelope) {
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
pub struct PersonViewer {
    hub: Arc<Hub>,
    person: PersonId,
    /// `None` only while it is being dropped.
    receiver: Option<broadcast::Receiver<Bytes>>,
    behind: bool,
    _taken: ViewerSlot,
}

impl PersonViewer {
    pub fn attach(place: ViewerSlot, person: PersonId) -> Self {
        let hub = Arc::clone(&place.hub);
        let receiver =
            hub.inner.lock().people.entry(person).or_insert_with(Feed::new).sender.subscribe();
        hub.work.notify_one();
        Self { hub, person, receiver: Some(receiver), behind: true, _taken: place }
    }

    /// Waits for what comes next. Cancel safe.
    pub async fn next(&mut self) -> Vec<Bytes> {
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

/// A change of a list belongs to no conversation: its id is zero.
fn changed(list: List) -> Bytes {
    placeless(ConversationId(uuid::Uuid::nil()), Event::ListChanged { list })
}

/// An event that no turn stored: it has no place in a conversation, and its own id is zero.
fn placeless(conversation: ConversationId, event: Event) -> Bytes {
    let (id, at) = (EventId::START, Timestamp::UNIX_EPOCH);
    encode(&Envelope { v: VERSION, id, conversation, at, event }, None)
}
