//! One event as it is written to viewers: serialised once, shared by all of them.

use bytes::Bytes;
use famulus_core::event::{Envelope, Event, EventId};
use std::sync::{Arc, OnceLock};

/// An event, and its bytes once somebody has asked for them.
#[derive(Debug)]
pub struct Frame {
    pub envelope: Arc<Envelope>,
    bytes: OnceLock<Bytes>,
}

impl Frame {
    pub(crate) fn new(envelope: Arc<Envelope>) -> Arc<Self> {
        Arc::new(Self { envelope, bytes: OnceLock::new() })
    }

    pub fn id(&self) -> EventId {
        self.envelope.id
    }

    /// As a Server-Sent Event with its id.
    pub fn bytes(&self) -> &Bytes {
        self.bytes.get_or_init(|| encode(&self.envelope, Some(self.envelope.id)))
    }
}

/// The text of one Server-Sent Event. Without an id a client does not take it as its place.
pub(crate) fn encode(envelope: &Envelope, id: Option<EventId>) -> Bytes {
    // JSON of an envelope has no line break of its own, and always serialises.
    let data = serde_json::to_string(envelope).unwrap_or_default();
    let name = name(&envelope.event);
    let text = match id {
        Some(id) => format!("id: {id}\nevent: {name}\ndata: {data}\n\n"),
        None => format!("event: {name}\ndata: {data}\n\n"),
    };
    Bytes::from(text)
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Delta { .. } => "delta",
        Event::Status { .. } => "status",
        Event::Usage { .. } => "usage",
        Event::Resumed { .. } => "resumed",
        Event::Message { .. } => "message",
        Event::Complete { .. } => "complete",
        Event::ListChanged { .. } => "list_changed",
    }
}
