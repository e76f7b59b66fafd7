//! Follows one turn from its beginning to its end: events, Ctrl-C, and the answers to
//! approvals, whichever comes first.
//!
//! The stream is the fast way and asking is the sure one: a turn that says nothing for a while is
//! asked after, so that no lost event leaves anybody waiting.

use famulus_core::event::Envelope;
use famulus_core::ids::TurnId;
use famulus_core::replay::End;
use famulus_core::turn::TurnState;
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::chat::question::Questions;
use crate::chat::session::Session;
use crate::chat::show::Show;
use crate::error::Error;
use crate::feed::{Feed, FeedItem};
use crate::transcript::{Change, Transcript};
use crate::wire::{Stopped, Turn};

/// How it came to an end for the one who watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Complete,
    Failed,
    Cancelled,
    /// The watcher left; the turn may go on.
    Left,
}

enum WatchEvent {
    Interrupt,
    Frame,
    FeedItem(Result<FeedItem, Error>),
    Answer(Result<Option<String>, Error>),
    Quiet,
}

/// Shows the turn until it ends, or until a second Ctrl-C.
pub(crate) async fn follow(
    session: &mut Session,
    mut feed: Feed,
    turn: TurnId,
) -> Result<Outcome, Error> {
    session.last_turn = Some(turn);
    let mut watch = Watch {
        transcript: Transcript::new(turn, session.position),
        show: Show::new(&session.output, session.reasoning),
        questions: Questions::default(),
        stopping: false,
        heard_at: Instant::now(),
    };
    let outcome = watch.run(session, &mut feed).await;
    session.position = watch.transcript.position();
    if let Some(usage) = watch.transcript.usage() {
        session.spent.add(usage);
    }
    outcome
}

struct Watch {
    transcript: Transcript,
    show: Show,
    questions: Questions,
    stopping: bool,
    heard_at: Instant,
}

impl Watch {
    async fn run(&mut self, session: &mut Session, feed: &mut Feed) -> Result<Outcome, Error> {
        while self.transcript.end().is_none() {
            match self.hear(session, feed).await {
                WatchEvent::Interrupt if self.stopping => {
                    self.questions.drop_all(&mut session.output);
                    self.show.settle(&mut session.output)?;
                    return Ok(Outcome::Left);
                }
                WatchEvent::Interrupt => self.stop(session).await?,
                WatchEvent::Frame => self.show.paint(&self.transcript, &mut session.output)?,
                WatchEvent::FeedItem(Ok(fed)) => self.take(session, fed).await?,
                WatchEvent::FeedItem(Err(error)) => {
                    // The stream is gone for good; perhaps the turn is over as well.
                    self.show.paint(&self.transcript, &mut session.output)?;
                    self.show.settle(&mut session.output)?;
                    let _unknown = self.ask_after(session).await;
                    if self.transcript.end().is_none() {
                        return Err(error);
                    }
                }
                WatchEvent::Answer(line) => self.questions.answer(session, line?).await,
                WatchEvent::Quiet => self.quiet(session).await,
            }
        }
        self.end(session).await
    }

    async fn hear(&self, session: &mut Session, feed: &mut Feed) -> WatchEvent {
        let asking = self.questions.are_open();
        // Nothing is painted behind an open question.
        let frame = self.show.due().filter(|_| !asking);
        let quiet = self.heard_at
            + if asking { session.timeouts.quiet_asking } else { session.timeouts.quiet };
        tokio::select! {
            biased;
            () = session.interrupts.next() => WatchEvent::Interrupt,
            () = sleep_until(frame.unwrap_or(quiet)), if frame.is_some() => WatchEvent::Frame,
            line = session.input.next(), if asking => WatchEvent::Answer(line),
            fed = feed.next(self.transcript.position()) => WatchEvent::FeedItem(fed),
            () = sleep_until(quiet) => WatchEvent::Quiet,
        }
    }

    async fn take(&mut self, session: &mut Session, fed: FeedItem) -> Result<(), Error> {
        match fed {
            FeedItem::Event(envelope) => self.apply(session, &envelope).await?,
            FeedItem::Unknown(id) => self.transcript.skip(id),
            FeedItem::Reset => {
                self.transcript.reset();
                self.show.touch();
            }
            FeedItem::Lost => self.aside(session, "connection lost; trying again")?,
            FeedItem::Back => {
                self.aside(session, "connected again")?;
                // Without a place to go on from, the end may have passed unseen.
                self.ask_after(session).await.ok();
            }
        }
        Ok(())
    }

    async fn apply(&mut self, session: &mut Session, envelope: &Envelope) -> Result<(), Error> {
        let before = self.transcript.position();
        let change = self.transcript.apply(envelope);
        if self.transcript.position() > before {
            self.heard_at = Instant::now();
        }
        match change {
            Change::Nothing => {}
            Change::Shown | Change::Ended => self.show.touch(),
            Change::Asked(question) => {
                self.show.touch();
                if !self.questions.are_open() {
                    self.show.paint(&self.transcript, &mut session.output)?;
                    self.show.settle(&mut session.output)?;
                }
                self.questions.ask(session, &question).await;
                return Ok(());
            }
        }
        if self.questions.are_open() {
            self.questions.refresh(session).await;
        }
        Ok(())
    }

    /// A line of its own, which is no part of the turn.
    fn aside(&mut self, session: &mut Session, text: &str) -> Result<(), Error> {
        if !self.questions.are_open() {
            self.show.paint(&self.transcript, &mut session.output)?;
            self.show.settle(&mut session.output)?;
        }
        session.output.note(&format!("· {text}"));
        Ok(())
    }

    async fn stop(&mut self, session: &mut Session) -> Result<(), Error> {
        self.stopping = true;
        self.questions.drop_all(&mut session.output);
        self.aside(session, "stopping; Ctrl-C again leaves")?;
        let client = session.client.clone();
        let stopping = stop(&client, &session.conversation);
        tokio::select! {
            answer = stopping => if let Err(error) = answer {
                session.output.complain(&error);
            },
            // Heard again by the loop, which leaves.
            () = session.interrupts.next() => session.interrupts.repeat(),
        }
        Ok(())
    }

    async fn quiet(&mut self, session: &mut Session) {
        self.heard_at = Instant::now();
        if self.questions.are_open() {
            self.questions.refresh(session).await;
        }
        // A server that does not answer is the stream's affair, which says so and tries again.
        self.ask_after(session).await.ok();
    }

    async fn ask_after(&mut self, session: &Session) -> Result<(), Error> {
        let turn = read_turn(session, self.transcript.turn()).await?;
        if turn.state.is_final() && self.transcript.end().is_none() {
            let text = turn.text.unwrap_or_default();
            self.transcript.finish(End { state: turn.state, message: None, text });
            self.show.touch();
        }
        Ok(())
    }

    async fn end(&mut self, session: &mut Session) -> Result<Outcome, Error> {
        self.questions.drop_all(&mut session.output);
        self.show.finish(&self.transcript, &mut session.output)?;
        let state = self.transcript.end().map(|end| end.state);
        match state {
            Some(TurnState::Failed) => {
                let reason = read_turn(session, self.transcript.turn()).await.ok();
                let reason = reason
                    .and_then(|turn| turn.error)
                    .unwrap_or_else(|| "the server gave no reason; its log has more".to_owned());
                session.output.alert(&format!("the turn failed: {reason}"));
                Ok(Outcome::Failed)
            }
            Some(TurnState::Cancelled) => {
                session.output.note("· stopped");
                Ok(Outcome::Cancelled)
            }
            Some(
                TurnState::Complete | TurnState::Queued | TurnState::Running | TurnState::Waiting,
            )
            | None => Ok(Outcome::Complete),
        }
    }
}

/// Stops whatever runs in the conversation.
pub(crate) async fn stop(
    client: &crate::client::Client,
    conversation: &str,
) -> Result<Stopped, Error> {
    let path = ["v1", "conversations", conversation, "stop"];
    client.send(Method::POST, &path, &json!({}), "a list of stopped turns").await
}

pub(crate) async fn read_turn(session: &Session, turn: TurnId) -> Result<Turn, Error> {
    let turn = turn.to_string();
    session.client.get(&["v1", "turns", &turn], &[], "a turn").await
}
