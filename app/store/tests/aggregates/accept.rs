//! Messages that come in at the same time share a transaction, and nothing else.

use crate::{support::with_store, talk};
use bytes::Bytes;
use famulus_core::{
    accept::{Accept as _, AcceptError, Accepted, Disposition},
    blob::Blobs,
    conversation::ConversationKey,
    ids::{BlobId, ConversationId, PersonId},
    inbound::{Attachment, Inbound, Meeting, Target},
    turn::TurnLog,
};
use famulus_queue::Class;
use famulus_store::Store;
use futures::{StreamExt, future::join_all, stream};

/// On the one thread of these tests all messages are there before the door is looked at.
async fn together(
    store: &Store,
    messages: impl IntoIterator<Item = Inbound>,
) -> Vec<Result<Accepted, AcceptError>> {
    join_all(messages.into_iter().map(|message| store.accept(message))).await
}

fn keyed(message: Inbound, key: &str) -> Inbound {
    Inbound { external_id: Some(key.to_owned()), ..message }
}

pub(crate) async fn file_of(store: &Store, person: PersonId) -> Attachment {
    let bytes = stream::iter([Ok(Bytes::from_static(b"the file"))]).boxed();
    let blob = store.put(person, "text/plain", 100, bytes).await.unwrap();
    Attachment { blob, name: "a.txt".into() }
}

#[tokio::test]
async fn each_message_of_a_batch_has_its_own_fate() {
    with_store(async |world| {
        let store = &world.store;
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        let hers = Target::Existing(talk::conversation(world, ada, "hers").await);
        let his = Target::Existing(talk::conversation(world, bob, "his").await);
        let his_file = file_of(store, bob).await;
        let with = |file: &Attachment| Inbound {
            attachments: vec![file.clone()],
            ..talk::message(ada, hers.clone(), "look")
        };
        let mut no_file = his_file.clone();
        no_file.blob.id = BlobId::new();

        let mut fates = together(
            store,
            [
                keyed(talk::message(ada, hers.clone(), "one"), "1"),
                talk::message(ada, his.clone(), "into his"),
                with(&his_file),
                with(&file_of(store, ada).await),
                keyed(talk::message(ada, hers.clone(), "one"), "1"),
                keyed(talk::message(ada, hers.clone(), "other"), "1"),
                talk::message(ada, Target::Existing(ConversationId::new()), "nowhere"),
                with(&no_file),
                talk::message(bob, his.clone(), "two"),
            ],
        )
        .await
        .into_iter();
        let mut next = || fates.next().unwrap();

        let first = next().unwrap();
        assert_eq!(first.disposition, Disposition::Started);
        assert!(matches!(next(), Err(AcceptError::NoConversation { .. })), "not hers");
        let refused = next().unwrap_err();
        assert!(matches!(refused, AcceptError::NoAttachment { id } if id == his_file.blob.id));
        assert_eq!(next().unwrap().disposition, Disposition::Started, "her own file");
        let again = next().unwrap();
        assert_eq!(again, Accepted { disposition: Disposition::Duplicate, ..first });
        assert!(matches!(next(), Err(AcceptError::KeyReused { key }) if key == "1"));
        assert!(matches!(next(), Err(AcceptError::NoConversation { .. })));
        assert!(matches!(next(), Err(AcceptError::NoAttachment { id }) if id == no_file.blob.id));
        assert_eq!(next().unwrap().disposition, Disposition::Started);

        let stored = "select count(*) from message where person_id = $1";
        assert_eq!((world.count(stored, ada).await, world.count(stored, bob).await), (2, 1));
        // A key is its sender's: to Bob it does not say what Ada wrote, nor that it was she.
        let stolen = store.accept(keyed(talk::message(bob, his, "one"), "1")).await;
        assert!(matches!(stolen, Err(AcceptError::KeyReused { .. })));
    })
    .await;
}

#[tokio::test]
async fn a_conversation_that_many_open_at_once_is_one() {
    with_store(async |world| {
        let ada = world.person("Ada").await.id;
        let other = world.another_store().await;
        let message = |number: usize| {
            let key = ConversationKey(format!("chat {}", number % 7));
            talk::message(ada, Target::Key(key), &number.to_string())
        };
        let (here, there) = tokio::join!(
            together(&world.store, (0..60).map(message)),
            together(&other, (0..60).rev().map(message)),
        );
        assert!(here.iter().chain(&there).all(Result::is_ok), "{here:?} {there:?}");
        let count = "select count(*) from conversation where person_id = $1";
        assert_eq!(world.count(count, ada).await, 7);
        let doubled = "select count(*) from (select conversation_id, seq from message
             where person_id = $1 group by 1, 2 having count(*) > 1) d";
        assert_eq!(world.count(doubled, ada).await, 0, "every message has its own number");
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn of_a_batch_only_the_senders_own_messages_join_her_turn() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "hers").await;
        let begun = talk::say(world, ada, conversation, "start", Vec::new()).await;
        let lease = talk::claim(store, Class::Turn).await;
        store.take_up(&lease.fence, begun.turn).await.unwrap();

        let message = |text| talk::message(ada, Target::Existing(conversation), text);
        let steering = Inbound { meeting: Meeting::Steer, ..message("by the way") };
        let guest = world.person("Bob").await.id;
        let guests = Inbound { person: guest, host: ada, ..steering.clone() };
        let fates = together(store, [message("next"), steering, guests]).await;
        let fates: Vec<Accepted> = fates.into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(fates[0].disposition, Disposition::Started);
        assert_eq!((fates[1].disposition, fates[1].turn), (Disposition::Steered, begun.turn));
        assert_eq!(fates[2].disposition, Disposition::Started, "he may not steer hers");
    })
    .await;
}

#[tokio::test]
async fn who_leases_the_turn_of_a_message_begins_nothing_else() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let busy = Target::Existing(talk::conversation(world, ada, "busy").await);
        let other = Target::Existing(talk::conversation(world, ada, "other").await);
        store.accept(talk::message(ada, busy.clone(), "this waits")).await.unwrap();
        let (accepted, lease) =
            store.accept_leased(talk::message(ada, other.clone(), "mine")).await.unwrap();
        let lease = lease.unwrap();
        assert_eq!((lease.job.id, accepted.disposition), (accepted.turn.0, Disposition::Started));
        assert_eq!(lease.job.lane, accepted.conversation.0);
        let leased =
            "select count(*) from queue_lane where state = 'leased' and $1 <> gen_random_uuid()";
        assert_eq!(world.count(leased, ada).await, 1, "what waited still waits");

        let behind = Inbound { meeting: Meeting::Queue, ..talk::message(ada, busy, "and this") };
        let (_, none) = store.accept_leased(behind).await.unwrap();
        assert!(none.is_none(), "others are before it");
        let refused = store.accept_leased(talk::message(
            ada,
            Target::Existing(ConversationId::new()),
            "nowhere",
        ));
        assert!(matches!(refused.await, Err(AcceptError::NoConversation { .. })));
    })
    .await;
}
