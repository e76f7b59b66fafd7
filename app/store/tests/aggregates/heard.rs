//! What was heard in a recording becomes a part of its message, by whoever holds the turn.

use crate::{accept::file_of, support::with_store, talk};
use famulus_core::{
    StoreError,
    blob::BlobRef,
    ids::{MessageId, TurnId},
    inbound::Attachment,
    message::{Heard, Message, PartBody},
    turn::{Fence, TurnLog as _},
};
use famulus_queue::Class;

fn heard(message: &Message, part: usize) -> Option<Heard> {
    let PartBody::Audio(file) = &message.parts[part].body else { return None };
    file.heard.clone()
}

#[tokio::test]
async fn what_was_heard_is_read_by_whoever_goes_on() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let conversation = talk::conversation(world, ada, "hers").await;
        let file = file_of(store, ada).await;
        let blob = BlobRef { mime: "audio/ogg".into(), ..file.blob };
        let recording = Attachment { blob, name: "voice.ogg".into() };
        talk::say(world, ada, conversation, "listen", vec![recording]).await;
        let lease = talk::claim(store, Class::Turn).await;
        let turn = TurnId(lease.job.id);
        let loaded = store.take_up(&lease.fence, turn).await.unwrap();
        let message = loaded.history.last().unwrap();
        assert_eq!(heard(message, 1), None);

        let words = Heard::Words("good\0morning".into());
        let stranger = Fence { token: lease.fence.token - 1, ..lease.fence };
        let robbed = store.record_heard(&stranger, turn, message.id, 1, &words).await;
        assert!(matches!(robbed, Err(StoreError::LeaseLost)), "{robbed:?}");
        for (message, part) in [(message.id, 0), (message.id, 2), (MessageId::new(), 1)] {
            let refused = store.record_heard(&lease.fence, turn, message, part, &words).await;
            assert!(refused.is_err(), "{part}");
        }
        store.record_heard(&lease.fence, turn, message.id, 1, &words).await.unwrap();

        let again = store.take_up(&lease.fence, turn).await.unwrap();
        let message = again.history.last().unwrap();
        assert_eq!(heard(message, 1), Some(words));
        assert_eq!(message.parts[0], loaded.history.last().unwrap().parts[0]);
    })
    .await;
}
