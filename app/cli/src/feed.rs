//! The events of one conversation, kept coming: a stream that breaks is opened again from where
//! the viewer is.
//!
//! ```text
//! opening ──► open ──► events
//!    ▲          │ end, silence, nonsense
//!    └─ pause ◄─┘
//! ```
//!
//! Knows nothing of turns. [`Feed::next`] may be dropped at any await and called again.

use std::collections::VecDeque;
use std::pin::Pin;

use famulus_core::event::{Envelope, EventId, VERSION};
use famulus_sse::{Caps, Event, Item, Parser};
use futures::future::BoxFuture;
use reqwest::Response;
use serde::Deserialize;
use tokio::time::{Instant, Sleep};

use crate::client::Client;
use crate::error::Error;
use crate::timeouts::Timeouts;

/// Failures in a row after which the stream is given up: over a minute of trying.
const GIVE_UP: u32 = 12;
/// Nonsense will not get better by being sent again.
const NONSENSE: u32 = 4;

/// A reply that arrives whole in one event has to fit.
const CAPS: Caps = Caps { line: 8 << 20, event: 16 << 20 };

/// What a feed has to say.
#[derive(Debug)]
pub(crate) enum FeedItem {
    Event(Box<Envelope>),
    /// An event of a kind that this version does not know.
    Unknown(EventId),
    /// What lies behind the viewer's place is gone: forget everything, it comes again.
    Reset,
    /// The connection is lost and did not come back at once.
    Lost,
    /// It is back.
    Back,
}

pub(crate) struct Feed {
    client: Client,
    conversation: String,
    timeouts: Timeouts,
    state: State,
    waiting: VecDeque<Event>,
    /// In a row, without an event between them.
    failures: u32,
    told: bool,
}

enum State {
    Opening(BoxFuture<'static, Result<Response, Error>>),
    /// With the time of the last byte: a caller that comes and goes does not start it anew.
    Open(Box<Response>, Parser, Instant),
    Pausing(Pin<Box<Sleep>>),
}

/// The part of an envelope that every version has.
#[derive(Deserialize)]
struct Head {
    v: u32,
    id: EventId,
}

impl Feed {
    pub(crate) fn open(
        client: &Client,
        conversation: &str,
        after: EventId,
        timeouts: Timeouts,
    ) -> Self {
        Self {
            client: client.clone(),
            conversation: conversation.to_owned(),
            timeouts,
            state: opening(client, conversation, after),
            waiting: VecDeque::new(),
            failures: 0,
            told: false,
        }
    }

    /// Waits until the server has begun to answer, so that nothing which happens from now on is
    /// missed. Does not try twice: at the beginning, a server that is not there is told at once.
    pub(crate) async fn opened(&mut self) -> Result<(), Error> {
        if let State::Opening(attempt) = &mut self.state {
            let response = attempt.await?;
            self.state = State::Open(Box::new(response), Parser::new(CAPS), Instant::now());
        }
        Ok(())
    }

    /// The next thing that happens, from behind `after`.
    ///
    /// # Errors
    /// The server refuses for good, or did not come back for more than a minute.
    pub(crate) async fn next(&mut self, after: EventId) -> Result<FeedItem, Error> {
        loop {
            while let Some(event) = self.waiting.pop_front() {
                match self.understand(&event) {
                    Ok(FeedItem::Reset) => {
                        self.failures = 0;
                        self.start_over();
                        return Ok(FeedItem::Reset);
                    }
                    Ok(fed) => {
                        self.failures = 0;
                        return Ok(fed);
                    }
                    Err(error) => {
                        self.failures += NONSENSE;
                        if let Some(fed) = self.failed(error)? {
                            return Ok(fed);
                        }
                    }
                }
            }
            if let Some(fed) = self.advance(after).await? {
                return Ok(fed);
            }
        }
    }

    async fn advance(&mut self, after: EventId) -> Result<Option<FeedItem>, Error> {
        match &mut self.state {
            State::Pausing(pause) => {
                pause.as_mut().await;
                self.state = opening(&self.client, &self.conversation, after);
                Ok(None)
            }
            State::Opening(attempt) => match attempt.await {
                Ok(response) => {
                    self.state = State::Open(Box::new(response), Parser::new(CAPS), Instant::now());
                    Ok(std::mem::take(&mut self.told).then_some(FeedItem::Back))
                }
                Err(error) if may_pass(&error) => self.failed(error),
                Err(error) => Err(error),
            },
            State::Open(response, parser, heard_at) => {
                let dead_at = *heard_at + self.timeouts.silence;
                let piece = tokio::time::timeout_at(dead_at, response.chunk()).await;
                let url = || self.client.address().to_owned();
                let Ok(Ok(Some(bytes))) = piece else {
                    return self.failed(Error::StreamLost { url: url() });
                };
                *heard_at = Instant::now();
                let mut items = Vec::new();
                if parser.feed(&bytes, &mut items).is_ok() {
                    self.waiting.extend(items.into_iter().filter_map(|item| match item {
                        Item::Event(event) => Some(event),
                        Item::Comment => None,
                    }));
                    return Ok(None);
                }
                let error = self.client.malformed("an event stream", None);
                self.failures += NONSENSE;
                self.failed(error)
            }
        }
    }

    /// Tries again after a pause, or gives up with the latest reason.
    fn failed(&mut self, error: Error) -> Result<Option<FeedItem>, Error> {
        self.waiting.clear();
        self.failures += 1;
        if self.failures >= GIVE_UP {
            return Err(error);
        }
        let pause = self.timeouts.pause(self.failures, error.retry_after());
        self.state = State::Pausing(Box::pin(tokio::time::sleep(pause)));
        // A stream that the server ended, and that opens again, is not worth a word.
        let tell = self.failures > 1 && !std::mem::replace(&mut self.told, self.failures > 1);
        Ok(tell.then_some(FeedItem::Lost))
    }

    /// Without a place of its own, a viewer is given the live turn from its start.
    fn start_over(&mut self) {
        self.waiting.clear();
        self.state = opening(&self.client, &self.conversation, EventId::START);
    }

    fn understand(&self, event: &Event) -> Result<FeedItem, Error> {
        if event.name == "reset" {
            return Ok(FeedItem::Reset);
        }
        let malformed = |source| self.client.malformed("an event of version 1", source);
        match serde_json::from_slice::<Envelope>(&event.data) {
            Ok(envelope) if envelope.v == VERSION => Ok(FeedItem::Event(Box::new(envelope))),
            Ok(_) => Err(malformed(None)),
            Err(source) => match serde_json::from_slice::<Head>(&event.data) {
                Ok(head) if head.v == VERSION => Ok(FeedItem::Unknown(head.id)),
                Ok(_) | Err(_) => Err(malformed(Some(source))),
            },
        }
    }
}

fn opening(client: &Client, conversation: &str, after: EventId) -> State {
    let (client, conversation) = (client.clone(), conversation.to_owned());
    State::Opening(Box::pin(async move { client.events(&conversation, after).await }))
}

/// A server that is being replaced answers with any of the 5xx.
fn may_pass(error: &Error) -> bool {
    error.is_passing()
        || matches!(error, Error::StreamLost { .. })
        || error.status().is_some_and(|status| status >= 500)
}
