//! A viewer of a conversation's events, which holds what a person would see.

use super::soon;
use famulus_core::event::{DeltaKind, Envelope, Event};
use memchr::memmem;

pub(crate) struct Watcher {
    response: reqwest::Response,
    unread: Vec<u8>,
    pub(crate) seen: Vec<Envelope>,
}

impl Watcher {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self { response, unread: Vec::new(), seen: Vec::new() }
    }

    /// Waits for the first event that fits, those before it included in what was seen.
    pub(crate) async fn until(&mut self, what: &str, fits: impl Fn(&Event) -> bool) -> Envelope {
        let found = async {
            loop {
                let envelope = self.next().await;
                if fits(&envelope.event) {
                    return envelope;
                }
            }
        };
        soon(what, found).await
    }

    /// Waits for the end of the turn that is watched, and returns its text as it was streamed.
    pub(crate) async fn whole(&mut self) -> String {
        self.until("the turn ends", |event| matches!(event, Event::Complete { .. })).await;
        text_of(&self.seen)
    }

    pub(crate) async fn next(&mut self) -> Envelope {
        loop {
            if let Some(envelope) = self.take() {
                self.seen.push(envelope.clone());
                return envelope;
            }
            let piece = self.response.chunk().await.unwrap().unwrap_or_else(|| {
                panic!("the event stream ended; seen: {:?}", self.seen);
            });
            self.unread.extend_from_slice(&piece);
        }
    }

    fn take(&mut self) -> Option<Envelope> {
        loop {
            let end = memmem::find(&self.unread, b"\n\n")? + 2;
            let block = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
            if let Some(envelope) = read(&block) {
                return Some(envelope);
            }
        }
    }
}

/// Reads one block of a stream; pings and hints to the client are none.
pub(crate) fn read(block: &str) -> Option<Envelope> {
    let data = block.lines().find_map(|line| line.strip_prefix("data: "))?;
    Some(serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {block}")))
}

/// What a viewer shows of these events: text in order, without what was withdrawn.
pub(crate) fn text_of(events: &[Envelope]) -> String {
    let mut shown = Vec::new();
    for envelope in events {
        match &envelope.event {
            Event::Delta { kind: DeltaKind::Text, text, .. } => shown.push((envelope.id, text)),
            Event::Resumed { last, .. } => shown.retain(|(id, _)| id <= last),
            Event::Delta { kind: DeltaKind::Reasoning, .. }
            | Event::Status { .. }
            | Event::Usage { .. }
            | Event::Message { .. }
            | Event::Complete { .. }
            | Event::ListChanged { .. } => {}
        }
    }
    shown.into_iter().map(|(_, text)| text.as_str()).collect()
}
