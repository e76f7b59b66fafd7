//! What tools send: to whom it goes, once, and with whose words.

use crate::{
    support::{World, with_store},
    talk,
};
use bytes::Bytes;
use famulus_core::{
    blob::Blobs as _,
    ids::{BlobId, ConversationId, OutboundId, TurnId},
    inbound::Address,
    pairing::Identities as _,
    person::Person,
    post::{Enclosed, Letter, Post as _, PostError, Posted, Recipient, Way},
    tool::CallKey,
};
use famulus_queue::Class;
use famulus_store::DeliveryRecord;
use futures::{StreamExt as _, stream};

/// Two people with a chat each, and a turn of the first one.
struct Desk<'a> {
    world: &'a World,
    ada: Person,
    bob: Person,
    conversation: ConversationId,
    turn: TurnId,
}

impl<'a> Desk<'a> {
    async fn new(world: &'a World) -> Self {
        let (ada, bob) = (world.person("Ada").await, world.person("Bob").await);
        for (person, id) in [(&ada, "7"), (&bob, "8")] {
            let linked = world.store.link_identity(person.id, "telegram", "99", id).await.unwrap();
            world.store.seen(linked.id, id).await.unwrap();
        }
        let conversation = talk::conversation(world, ada.id, "a").await;
        talk::say(world, ada.id, conversation, "hello", Vec::new()).await;
        let turn = TurnId(talk::claim(&world.store, Class::Turn).await.job.id);
        Self { world, ada, bob, conversation, turn }
    }

    fn letter(&self, call: u32, to: Recipient) -> Letter {
        let way =
            |channel: &str| Way { channel: channel.to_owned(), takes_files: true, is_reply: false };
        Letter {
            key: CallKey { turn: self.turn, step: 0, call, item: 0 },
            from: self.ada.clone(),
            conversation: self.conversation,
            to,
            markdown: "dinner is ready".into(),
            files: Vec::new(),
            ways: vec![way("telegram"), way("signal")],
            may_be_first: false,
        }
    }

    fn to(&self, call: u32, name: &str) -> Letter {
        self.letter(call, Recipient::Other(name.into()))
    }

    async fn post(&self, letter: &Letter) -> Result<Posted, PostError> {
        self.world.store.post(letter).await
    }

    async fn refused(&self, letter: &Letter) -> String {
        self.post(letter).await.unwrap_err().to_string()
    }

    /// What leaves next.
    async fn next(&self) -> DeliveryRecord {
        let store = &self.world.store;
        let lease = talk::claim(store, Class::Delivery).await;
        let id = OutboundId(lease.job.id);
        let record = store.load_delivery(id).await.unwrap().unwrap();
        store.delivered(&lease.fence, id).await.unwrap();
        record
    }
}

fn chat(id: &str) -> Address {
    Address {
        channel: "telegram".into(),
        account: "99".into(),
        chat: id.into(),
        thread: None,
        reply_to: None,
    }
}

#[tokio::test]
async fn a_call_sends_once_to_whoever_asks() {
    with_store(async |world| {
        let desk = Desk::new(world).await;
        for (call, to) in [(0, Recipient::Here(chat("7"))), (1, Recipient::Themselves)] {
            let letter = desk.letter(call, to);
            let posted = desk.post(&letter).await.unwrap();
            assert_eq!((posted.channel.as_str(), posted.to.as_str()), ("telegram", "Ada"));
            assert_eq!(desk.post(&letter).await.unwrap(), posted, "again, as after a crash");
            let sent = desk.next().await;
            assert_eq!(sent.outbound.to, chat("7"));
            assert_eq!(sent.outbound.markdown, "dinner is ready");
            assert_eq!(sent.outbound.person, Some(desk.ada.id));
            assert!(!sent.may_come_twice, "nobody knows what a model sends");
            let more = world.store.queue.claim(Class::Delivery, 8).await.unwrap();
            assert_eq!(more, vec![]);
        }
    })
    .await;
}

#[tokio::test]
async fn somebody_is_written_to_first_when_somebody_said_yes() {
    with_store(async |world| {
        let desk = Desk::new(world).await;
        let first = "`Bob` was not written to before";
        assert!(desk.refused(&desk.to(0, "bob")).await.contains(first));
        let may = Letter { may_be_first: true, ..desk.to(0, "bob") };
        let posted = desk.post(&may).await.unwrap();
        assert_eq!(posted.to, "Bob", "what was refused left the key free");
        let sent = desk.next().await.outbound;
        assert_eq!((sent.to, sent.person), (chat("8"), Some(desk.ada.id)));
        assert_eq!(sent.markdown, "From Ada:\n\ndinner is ready");
        // From now on, by name or by the platform's id.
        desk.post(&desk.to(1, "Bob")).await.unwrap();
        desk.next().await;
        desk.post(&desk.to(2, "8")).await.unwrap();
        desk.next().await;
        // The other way round it is the first.
        let back = Letter { from: desk.bob.clone(), ..desk.to(3, "Ada") };
        assert!(desk.refused(&back).await.contains("`Ada` was not written to before"));
        // Whoever names themselves writes to nobody else.
        desk.post(&desk.to(4, "ada")).await.unwrap();
        assert_eq!(desk.next().await.outbound.markdown, "dinner is ready");
    })
    .await;
}

#[tokio::test]
async fn whom_nothing_reaches_is_said() {
    with_store(async |world| {
        let desk = Desk::new(world).await;
        assert!(desk.refused(&desk.to(0, "Eve")).await.contains("nobody is called `Eve`"));
        world.person("Eve").await;
        assert!(desk.refused(&desk.to(0, "Eve")).await.contains("have to write to us first"));
        let other = world.person("EVE").await;
        assert!(desk.refused(&desk.to(0, "eve")).await.contains("several people"));
        // The id of an account says which.
        let linked = world.store.link_identity(other.id, "signal", "1", "+49").await.unwrap();
        world.store.seen(linked.id, "+49").await.unwrap();
        let may = Letter { may_be_first: true, ..desk.to(0, "+49") };
        assert_eq!(desk.post(&may).await.unwrap().channel, "signal");
        world.store.may_reach("telegram", "99", "8", false).await.unwrap();
        assert!(desk.refused(&desk.to(1, "Bob")).await.contains("have to write to us first"));
        let disabled = "update person set disabled_at = now() where id = $1";
        sqlx::query(disabled).bind(desk.bob.id.0).execute(&world.admin).await.unwrap();
        assert!(desk.refused(&desk.to(1, "Bob")).await.contains("is disabled"));
    })
    .await;
}

#[tokio::test]
async fn files_go_with_a_message_if_they_are_the_senders() {
    with_store(async |world| {
        let desk = Desk::new(world).await;
        let store = async |person: &Person| {
            let bytes = stream::iter([Ok(Bytes::from_static(b"miso"))]).boxed();
            world.store.put(person.id, "image/png", 1 << 20, bytes).await.unwrap()
        };
        let (mine, theirs) = (store(&desk.ada).await, store(&desk.bob).await);
        let with = |id: BlobId| Letter {
            files: vec![Enclosed { id, name: Some("../cat.png".into()) }],
            markdown: String::new(),
            ..desk.letter(0, Recipient::Themselves)
        };
        assert!(desk.refused(&with(theirs.id)).await.contains("belongs to somebody else"));
        assert!(desk.refused(&with(BlobId::new())).await.contains("is not stored"));
        desk.post(&with(mine.id)).await.unwrap();
        let sent = desk.next().await.outbound;
        let [file] = sent.attachments.as_slice() else { panic!("{sent:?}") };
        assert_eq!((file.name.as_str(), &file.blob), ("cat.png", &mine));
        assert_eq!(sent.markdown, "");
    })
    .await;
}
