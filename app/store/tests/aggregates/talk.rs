//! Messages and turns for the tests that need some.

use crate::support::World;
use famulus_core::{
    StoreError,
    accept::{Accept as _, Accepted},
    conversation::{ConversationKey, NewConversation},
    event::{DeltaKind, Envelope, Event, EventId, EventLog as _, VERSION},
    ids::{ConversationId, MessageId, PersonId, TurnId},
    inbound::{Address, Attachment, ChatKind, Inbound, Meeting, Source, Target},
    message::{Message, Part, Provenance},
    model::Usage,
    turn::{Ending, NewMessage, TurnLog, TurnState},
};
use famulus_queue::{Class, Lease};
use famulus_store::{MAIN_AGENT, Store};
use sha2::{Digest, Sha256};
use std::sync::Arc;

pub(crate) async fn conversation(world: &World, person: PersonId, key: &str) -> ConversationId {
    let new =
        NewConversation { agent: MAIN_AGENT, key: ConversationKey(key.to_owned()), title: None };
    world.store.ensure_conversation(person, new).await.unwrap()
}

pub(crate) fn address() -> Address {
    Address {
        channel: "http".into(),
        account: "famulus".into(),
        chat: "1".into(),
        thread: None,
        reply_to: None,
    }
}

/// A message that waits for its turn.
pub(crate) fn message(person: PersonId, target: Target, text: &str) -> Inbound {
    Inbound {
        source: Source::Http,
        person,
        host: person,
        sender: "somebody".into(),
        time_zone: "Europe/Berlin".into(),
        agent: MAIN_AGENT,
        target,
        external_id: None,
        keyed_by: None,
        body_hash: Sha256::digest(text.as_bytes()).into(),
        reply: address(),
        chat: ChatKind::Direct,
        sent_at: None,
        arrived_at: "2026-11-21T10:00:00Z".parse().unwrap(),
        text: text.to_owned(),
        attachments: Vec::new(),
        provenance: Provenance::Member,
        meeting: Meeting::Queue,
    }
}

pub(crate) async fn say(
    world: &World,
    person: PersonId,
    conversation: ConversationId,
    text: &str,
    attachments: Vec<Attachment>,
) -> Accepted {
    let inbound = message(person, Target::Existing(conversation), text);
    world.store.accept(Inbound { attachments, ..inbound }).await.unwrap()
}

/// Leases the one lane of the class that is due.
pub(crate) async fn claim(store: &Store, class: Class) -> Lease {
    let mut leases = store.queue.claim(class, 8).await.unwrap();
    assert_eq!(leases.len(), 1, "{leases:?}");
    leases.remove(0)
}

/// Records something that the turn of a lease said on its way.
pub(crate) async fn record(store: &Store, lease: &Lease) -> Result<Arc<Message>, StoreError> {
    let message = NewMessage {
        id: MessageId::new(),
        parts: vec![Part::assistant_text("so far")],
        blocks: None,
    };
    let turn = TurnId(lease.job.id);
    let (shown, events) = (EventId::START, Vec::new());
    let stored = store.record_interrupted(&lease.fence, turn, Some(message), shown, events).await;
    stored.map(|stored| stored.expect("what is kept is a message"))
}

/// Shows a word of the turn of a lease, as its event with that number.
pub(crate) async fn show(store: &Store, lease: &Lease, number: i64) {
    let turn = TurnId(lease.job.id);
    let event = Event::Delta { turn, kind: DeltaKind::Text, text: "so far".to_owned() };
    let id = EventId { fence: lease.fence.token, number };
    let (conversation, at) = (ConversationId(lease.fence.lane), jiff::Timestamp::UNIX_EPOCH);
    let event = Arc::new(Envelope { v: VERSION, id, conversation, at, event });
    store.append(lease.fence.person, vec![event], None).await.unwrap();
}

/// Works the one turn that is due: it says `text`, and fails when there is an `error`.
pub(crate) async fn work(store: &Store, text: &str, error: Option<&str>) -> TurnId {
    let lease = claim(store, Class::Turn).await;
    finish(store, &lease, text, error).await
}

/// Works the turn of a lease in the same way.
pub(crate) async fn finish(
    store: &Store,
    lease: &Lease,
    text: &str,
    error: Option<&str>,
) -> TurnId {
    store.take_up(&lease.fence, TurnId(lease.job.id)).await.unwrap();
    finish_to(store, lease, text, error, &["http"]).await
}

/// Ends a turn that was taken up; these channels deliver.
pub(crate) async fn finish_to(
    store: &Store,
    lease: &Lease,
    text: &str,
    error: Option<&str>,
    delivering: &[&str],
) -> TurnId {
    store.finish(&lease.fence, ending(lease, text, error, delivering)).await.unwrap();
    TurnId(lease.job.id)
}

/// The end of the turn of a lease.
pub(crate) fn ending(
    lease: &Lease,
    text: &str,
    error: Option<&str>,
    delivering: &[&str],
) -> Ending {
    let turn = TurnId(lease.job.id);
    let state = if error.is_some() { TurnState::Failed } else { TurnState::Complete };
    let complete = Arc::new(Envelope {
        v: VERSION,
        id: EventId { fence: lease.fence.token, number: 1 },
        conversation: ConversationId(lease.fence.lane),
        at: jiff::Timestamp::UNIX_EPOCH,
        event: Event::Complete { turn, state, message: None, text: text.to_owned() },
    });
    Ending {
        turn,
        state,
        message: Some(NewMessage {
            id: MessageId::new(),
            parts: vec![Part::assistant_text(text)],
            blocks: None,
        }),
        // The last message of a turn that fails is no model's.
        model: error.is_none().then(|| "demo".into()),
        usage: Usage { input_tokens: Some(3), output_tokens: Some(2) },
        steps: 1,
        error: error.map(str::to_owned),
        reply: Some(text.to_owned()),
        delivering: delivering.iter().map(|name| (*name).to_owned()).collect(),
        shown: EventId::START,
        events: Vec::new(),
        complete,
    }
}
