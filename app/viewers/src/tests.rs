//! The hub against a table in memory: events of this process and of another one, interleaved.

use crate::{Hub, PersonViewer, Progress, Viewer};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    event::{DeltaKind, Envelope, Event, EventId, Status, VERSION, Viewers as _},
    event_table::{Cursor, EventTable, ListMarks, RecentConversation},
    ids::{ConversationId, MessageId, PersonId, TurnId},
    turn::TurnState,
};
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::watch;

#[derive(Default)]
struct Memory {
    rows: Mutex<Vec<Envelope>>,
    kept_from: Mutex<Kept>,
    live: Mutex<Option<ConversationId>>,
    marks: Mutex<ListMarks>,
    queries: AtomicUsize,
}

/// The oldest event that is kept.
#[derive(Clone, Copy)]
struct Kept(EventId);

impl Default for Kept {
    fn default() -> Self {
        Self(EventId::START)
    }
}

#[async_trait]
impl EventTable for Memory {
    async fn events_after(
        &self,
        cursors: &[Cursor],
        limit: i64,
    ) -> Result<Vec<Envelope>, StoreError> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        let mut rows = self.rows.lock().clone();
        rows.sort_by_key(|row| row.id);
        let mut found = Vec::new();
        for cursor in cursors {
            let of = rows
                .iter()
                .filter(|row| row.conversation == cursor.conversation && row.id > cursor.after);
            found.extend(of.take(limit as usize).cloned());
        }
        tokio::task::yield_now().await;
        Ok(found)
    }

    async fn stream_start(
        &self,
        _: PersonId,
        _: ConversationId,
        after: Option<EventId>,
    ) -> Result<(EventId, bool), StoreError> {
        tokio::task::yield_now().await;
        let last = self.rows.lock().iter().map(|row| row.id).max();
        let kept = self.kept_from.lock().0;
        Ok(match after {
            Some(after) => (after, after < kept),
            None => (last.unwrap_or(EventId::START), false),
        })
    }

    async fn recent(&self, _: PersonId) -> Result<Vec<RecentConversation>, StoreError> {
        let live = *self.live.lock();
        Ok(live
            .map(|conversation| RecentConversation {
                conversation,
                last_seq: 1,
                live: Some(TurnId::new()),
            })
            .into_iter()
            .collect())
    }

    async fn list_marks(&self, _: PersonId) -> Result<ListMarks, StoreError> {
        Ok(self.marks.lock().clone())
    }
}

struct World {
    hub: Arc<Hub>,
    table: Arc<Memory>,
    hint: watch::Sender<u64>,
    person: PersonId,
    conversation: ConversationId,
    turn: TurnId,
    tasks: Tasks,
}

impl World {
    fn new(limit: usize) -> Self {
        let (hub, table) = (Hub::new(limit), Arc::new(Memory::default()));
        let (hint, hints) = watch::channel(0);
        let tasks = Tasks::new();
        let follow = Arc::clone(&hub).follow(table.clone(), hints, tasks.token());
        tasks.spawn("test.follow", OnExit::Log, follow);
        Self {
            hub,
            table,
            hint,
            person: PersonId::new(),
            conversation: ConversationId::new(),
            turn: TurnId::new(),
            tasks,
        }
    }

    fn event(&self, fence: i64, number: i64, event: Event) -> Envelope {
        Envelope {
            v: VERSION,
            id: EventId { fence, number },
            conversation: self.conversation,
            at: jiff::Timestamp::UNIX_EPOCH,
            event,
        }
    }

    fn delta(&self, fence: i64, number: i64) -> Envelope {
        let event =
            Event::Delta { turn: self.turn, kind: DeltaKind::Text, text: format!("{number} ") };
        self.event(fence, number, event)
    }

    fn store(&self, envelope: Envelope) {
        self.table.rows.lock().push(envelope);
    }

    /// Another process stores an event.
    fn elsewhere(&self, envelope: Envelope) {
        self.store(envelope);
        self.hint.send_modify(|count| *count += 1);
    }

    async fn attach(&self, after: Option<EventId>) -> (Viewer, bool) {
        let place = self.hub.take_place().unwrap();
        Viewer::attach(place, self.table.clone(), self.person, self.conversation, after)
            .await
            .unwrap()
    }

    async fn end(self) {
        self.tasks.shutdown();
        let drained = self.tasks.drain(std::time::Duration::from_secs(1)).await;
        assert_eq!(drained.stragglers, Vec::<String>::new());
    }
}

async fn take(viewer: &mut Viewer, count: usize) -> Vec<EventId> {
    let mut ids = Vec::new();
    while ids.len() < count {
        ids.extend(viewer.next().await.unwrap().iter().map(|frame| frame.id()));
    }
    ids
}

fn id(fence: i64, number: i64) -> EventId {
    EventId { fence, number }
}

#[tokio::test(start_paused = true)]
async fn a_viewer_sees_what_is_not_stored_yet() {
    let world = World::new(10);
    world.store(world.delta(5, 1));
    world.hub.publish(&Arc::new(world.delta(9, 1)));
    world.hub.publish(&Arc::new(world.delta(9, 2)));
    let (mut viewer, reset) = world.attach(Some(id(4, 0))).await;
    assert!(!reset);
    assert_eq!(take(&mut viewer, 3).await, [id(5, 1), id(9, 1), id(9, 2)]);
    world.hub.publish(&Arc::new(world.delta(9, 3)));
    assert_eq!(take(&mut viewer, 1).await, [id(9, 3)]);
    drop(viewer);
    assert_eq!(world.hub.viewers(), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_while_nobody_watches() {
    let world = World::new(10);
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    world.hint.send_modify(|count| *count += 1);
    world.hub.publish(&Arc::new(world.delta(5, 1)));
    world.hub.stored(world.conversation, id(5, 1));
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert_eq!(world.table.queries.load(Ordering::Relaxed), 0);
    assert!(world.hub.inner.lock().windows.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_no_longer_kept_is_reset() {
    let world = World::new(10);
    *world.table.kept_from.lock() = Kept(id(5, 1));
    world.store(world.delta(5, 1));
    let (mut viewer, reset) = world.attach(Some(id(3, 7))).await;
    assert!(reset);
    world.elsewhere(world.delta(5, 2));
    assert_eq!(take(&mut viewer, 1).await, [id(5, 2)]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn places_are_limited_and_given_back() {
    let world = World::new(1);
    let place = world.hub.take_place().unwrap();
    assert!(world.hub.take_place().is_none());
    drop(place);
    assert!(world.hub.take_place().is_some());
    world.end().await;
}

/// A conversation goes back and forth between this process and another one, viewers come and go and
/// fall behind: each sees every event once and in order.
#[tokio::test(start_paused = true)]
async fn every_viewer_sees_every_event_once() {
    for seed in 1..=40_u64 {
        let world = World::new(10);
        let mut random = seed;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut all = Vec::new();
        let mut viewers: Vec<(Viewer, usize, Vec<EventId>)> = Vec::new();
        for fence in 1..=8 {
            let here = next(2) == 0;
            let mut unstored = Vec::new();
            for number in 1..=(1 + next(300) as i64) {
                let envelope = world.delta(fence, number);
                all.push(envelope.id);
                if here {
                    world.hub.publish(&Arc::new(envelope.clone()));
                    unstored.push(envelope);
                    if next(5) == 0 {
                        unstored.drain(..).for_each(|envelope| world.store(envelope));
                        world.hub.stored(world.conversation, id(fence, number));
                    }
                } else {
                    world.elsewhere(envelope);
                }
                if next(60) == 0 && viewers.len() < 4 {
                    let seen = all.len() - 1 - next(all.len() as u64) as usize;
                    let after = all[seen];
                    let (viewer, _) = world.attach(Some(after)).await;
                    viewers.push((viewer, seen, Vec::new()));
                }
                if next(7) == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(next(60))).await;
                }
                for (viewer, _, ids) in &mut viewers {
                    // Dropping the future in the middle loses nothing.
                    let wait = std::time::Duration::from_millis(next(3));
                    if next(10) == 0
                        && let Ok(frames) = tokio::time::timeout(wait, viewer.next()).await
                    {
                        ids.extend(frames.unwrap().iter().map(|frame| frame.id()));
                    }
                }
            }
            unstored.drain(..).for_each(|envelope| world.store(envelope));
            world.hub.stored(world.conversation, *all.last().unwrap());
        }
        for (viewer, seen, ids) in &mut viewers {
            let expected = &all[*seen + 1..];
            let missing = expected.len().saturating_sub(ids.len());
            let rest =
                tokio::time::timeout(std::time::Duration::from_mins(1), take(viewer, missing));
            ids.extend(rest.await.unwrap_or_else(|_| panic!("seed {seed}: {missing} missing")));
            assert!(ids.as_slice() == expected, "seed {seed}");
        }
        drop(viewers);
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_hears_of_its_turns_end() {
    let world = World::new(10);
    let mut waiter = world.hub.wait_for(world.turn);
    world.hub.publish(&Arc::new(world.delta(5, 1)));
    assert_eq!(waiter.changed().await, Progress::Here);
    let message = Some(MessageId::new());
    let state = TurnState::Complete;
    let complete = Event::Complete { turn: world.turn, state, message, text: "done".to_owned() };
    world.hub.publish(&Arc::new(world.event(5, 2, complete)));
    let done = Progress::Done { state, message, text: "done".to_owned() };
    assert_eq!(waiter.changed().await, done);
    drop(waiter);
    assert!(world.hub.inner.lock().waiters.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_persons_stream_tells_lists_and_status() {
    let world = World::new(10);
    let place = world.hub.take_place().unwrap();
    let mut viewer = PersonViewer::attach(place, world.person);
    assert_eq!(viewer.next().await.len(), 5, "whoever connects looks at every list");
    *world.table.live.lock() = Some(world.conversation);
    let mut told = Vec::new();
    let mut until = async |wanted: &str| {
        while !told.iter().any(|text: &String| text.contains(wanted)) {
            for bytes in viewer.next().await {
                told.push(String::from_utf8(bytes.to_vec()).unwrap());
            }
        }
    };
    until(r#""list":"conversations""#).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let streaming = Event::Status { turn: world.turn, status: Status::Streaming };
    world.elsewhere(world.event(5, 1, streaming));
    until(r#""is":"streaming""#).await;
    // Another process changes a list, and its turn ends.
    world.table.marks.lock().knowledge = "2".to_owned();
    until(r#""list":"knowledge""#).await;
    *world.table.live.lock() = None;
    until(r#""is":"idle""#).await;
    assert!(told.iter().all(|text| !text.contains("id: ")), "no place to go on from");
    drop(viewer);
    assert!(world.hub.inner.lock().people.is_empty());
    world.end().await;
}
