//! Reading the events of other processes for everything that is watched here.

use crate::{frame::Frame, hub::Hub, viewer::PAGE};
use famulus_core::{
    StoreError,
    event::EventId,
    event_table::{Cursor, EventTable, RecentConversation},
    ids::{ConversationId, PersonId},
};
use famulus_errors::chain;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// How often the table is read when no hint comes.
const POLL: Duration = Duration::from_secs(2);
/// The least time between two rounds on hints.
const GAP: Duration = Duration::from_millis(20);
/// The longest: a round over very many viewers takes at most a fifth of the time.
const LONGEST_GAP: Duration = Duration::from_secs(2);
const LOAD: u32 = 4;
/// While a turn here shows something this often, the table has no news of its conversation.
const LOCAL: Duration = Duration::from_secs(1);
/// The least time between two looks at a person's conversations.
const LOOK: Duration = Duration::from_secs(1);
/// After an error the table is left alone for this long.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// What a round reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// What cannot wait.
    Due,
    /// Everything that runs elsewhere.
    Hint,
    /// Everything.
    Poll,
}

impl Hub {
    /// Follows the table until the token ends. `hint` is marked changed whenever events were stored.
    pub async fn follow(
        self: Arc<Self>,
        table: Arc<dyn EventTable>,
        mut hint: watch::Receiver<u64>,
        shutdown: CancellationToken,
    ) {
        let mut hinted = false;
        let mut deaf = false;
        let mut gap_until = Instant::now();
        let mut poll_at = Instant::now() + POLL;
        loop {
            let round = if self.is_idle() {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = self.work.notified() => Round::Due,
                }
            } else {
                let wake_at = if hinted { gap_until.min(poll_at) } else { poll_at };
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = self.work.notified() => Round::Due,
                    heard = hint.changed(), if !hinted && !deaf => {
                        hinted = true;
                        deaf = heard.is_err();
                        continue;
                    }
                    () = tokio::time::sleep_until(wake_at) => {
                        if Instant::now() >= poll_at { Round::Poll } else { Round::Hint }
                    }
                }
            };
            if round != Round::Due {
                hinted = false;
            }
            let started = Instant::now();
            let done = self.round(table.as_ref(), round).await;
            let now = Instant::now();
            match done {
                Ok(()) if round == Round::Due => {}
                Ok(()) => gap_until = now + ((now - started) * LOAD).clamp(GAP, LONGEST_GAP),
                Err(error) => {
                    tracing::warn!(
                        error = chain(&error),
                        "reading events for viewers failed; trying again"
                    );
                    hinted = true;
                    gap_until = now + AFTER_ERROR;
                }
            }
            if round == Round::Poll {
                poll_at = now + POLL;
                self.rest(now);
            }
        }
    }

    fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.windows.is_empty() && inner.people.is_empty()
    }

    async fn round(&self, table: &dyn EventTable, round: Round) -> Result<(), StoreError> {
        self.look_at_people(table, round).await?;
        let (cursors, held): (Vec<Cursor>, Vec<Option<EventId>>) =
            self.cursors(round).into_iter().unzip();
        if cursors.is_empty() {
            return Ok(());
        }
        let rows = table.events_after(&cursors, PAGE).await?;
        let mut by_conversation: HashMap<ConversationId, Vec<Arc<Frame>>> = HashMap::new();
        for row in rows {
            by_conversation.entry(row.conversation).or_default().push(Frame::new(Arc::new(row)));
        }
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let mut more = false;
        for (cursor, held) in cursors.iter().zip(held) {
            let rows = by_conversation.get(&cursor.conversation).map_or(&[][..], Vec::as_slice);
            let all = rows.len() < PAGE as usize;
            let mut is_due = !all;
            if let Some(watched) = inner.windows.get_mut(&cursor.conversation) {
                watched.window.send_if_modified(|window| {
                    let news = window.fill(rows, held.filter(|_| all), now);
                    is_due |= window.held().is_some();
                    news
                });
                watched.due = is_due;
            }
            more |= is_due;
            if let Some(feed) = inner.people.get_mut(&cursor.person) {
                for row in rows {
                    feed.take(&row.envelope);
                }
            }
        }
        if more {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Where each conversation is to be read from, and the last event that is held back there now; one
    /// cursor for each, however many want it.
    fn cursors(&self, round: Round) -> Vec<(Cursor, Option<EventId>)> {
        let now = Instant::now();
        let inner = self.inner.lock();
        let mut places: HashMap<ConversationId, (PersonId, EventId)> = HashMap::new();
        for (conversation, watched) in &inner.windows {
            let Some(person) = watched.person else { continue };
            let here = watched.local_at.is_some_and(|at| now - at < LOCAL);
            let wanted = match round {
                Round::Due => watched.due,
                Round::Hint => watched.due || !here,
                Round::Poll => true,
            };
            if wanted && watched.window.receiver_count() > 0 {
                places.insert(*conversation, (person, watched.window.borrow().top()));
            }
        }
        if round != Round::Due {
            for (person, feed) in &inner.people {
                for (conversation, place) in &feed.followed {
                    let earlier = places.get(conversation).map_or(*place, |(_, top)| *top);
                    places.insert(*conversation, (*person, earlier.min(*place)));
                }
            }
        }
        places
            .into_iter()
            .map(|(conversation, (person, after))| {
                let watched = inner.windows.get(&conversation);
                let held = watched.and_then(|watched| watched.window.borrow().held());
                (Cursor { person, conversation, after }, held)
            })
            .collect()
    }

    /// Finds out which conversations of the persons whose stream is watched have something running.
    async fn look_at_people(&self, table: &dyn EventTable, round: Round) -> Result<(), StoreError> {
        for person in self.persons_to_look_at(round) {
            let recent = table.recent(person).await?;
            let marks = table.list_marks(person).await?;
            let unknown: Vec<ConversationId> = {
                let inner = self.inner.lock();
                let Some(feed) = inner.people.get(&person) else { continue };
                live(&recent).filter(|id| !feed.followed.contains_key(id)).collect()
            };
            let mut places = Vec::with_capacity(unknown.len());
            for conversation in unknown {
                let (start, _) = table.stream_start(person, conversation, None).await?;
                places.push((conversation, start));
            }
            let mut inner = self.inner.lock();
            let Some(feed) = inner.people.get_mut(&person) else { continue };
            feed.followed.extend(places);
            feed.looked_at = Some(Instant::now());
            feed.look(recent, marks);
        }
        Ok(())
    }

    fn persons_to_look_at(&self, round: Round) -> Vec<PersonId> {
        let now = Instant::now();
        let inner = self.inner.lock();
        let wanted = |looked_at: Option<Instant>| match looked_at {
            None => true,
            Some(at) => round != Round::Due && now - at >= LOOK,
        };
        inner
            .people
            .iter()
            .filter(|(_, feed)| wanted(feed.looked_at))
            .map(|(person, _)| *person)
            .collect()
    }

    /// Lets go of what nobody needs any more.
    fn rest(&self, now: Instant) {
        let Some(since) = now.checked_sub(POLL) else { return };
        let mut inner = self.inner.lock();
        for watched in inner.windows.values() {
            watched.window.send_if_modified(|window| {
                window.rest(since);
                false
            });
        }
        inner.windows.retain(|_, watched| !watched.is_forsaken());
    }
}

fn live(recent: &[RecentConversation]) -> impl Iterator<Item = ConversationId> {
    recent.iter().filter(|one| one.live.is_some()).map(|one| one.conversation)
}
