//! Conversations and turns as pages show them.

use crate::{support::with_store, talk};
use famulus_core::{
    conversation::{ConversationKey, NewConversation},
    message::MessageRole,
    model::Usage,
    turn::{TurnLog, TurnState},
};
use famulus_queue::Class;
use famulus_store::{Error, MAIN_AGENT};

#[tokio::test]
async fn messages_are_paged_from_the_end() {
    with_store(async |world| {
        let store = &world.store;
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        let conversation = talk::conversation(world, ada, "a").await;
        // The second question waits while the first is answered: answers follow their questions.
        talk::say(world, ada, conversation, "one?", Vec::new()).await;
        talk::say(world, ada, conversation, "two?", Vec::new()).await;
        talk::work(store, "one!", None).await;
        talk::work(store, "  ", None).await;
        let texts = ["one?", "one!", "two?", "  "];

        let all = store.messages(ada, conversation, None, 4).await.unwrap();
        assert_eq!(all.items.iter().map(|m| m.text.as_str()).collect::<Vec<_>>(), texts);
        assert_eq!(all.before, None);
        assert_eq!(
            all.items.iter().map(|m| (m.role, m.has_text)).collect::<Vec<_>>(),
            [
                (MessageRole::User, true),
                (MessageRole::Assistant, true),
                (MessageRole::User, true),
                (MessageRole::Assistant, false)
            ]
        );
        let last = store.messages(ada, conversation, None, 3).await.unwrap();
        assert_eq!(last.items, all.items[1..]);
        let first = store.messages(ada, conversation, last.before, 3).await.unwrap();
        assert_eq!((first.items.as_slice(), first.before), (&all.items[..1], None));
        assert_eq!(store.messages(bob, conversation, None, 3).await.unwrap().items, vec![]);
    })
    .await;
}

#[tokio::test]
async fn a_turn_shows_how_far_it_is_and_what_it_said() {
    with_store(async |world| {
        let store = &world.store;
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        let conversation = talk::conversation(world, ada, "a").await;
        let accepted = talk::say(world, ada, conversation, "hello", Vec::new()).await;
        let live = async || store.conversation(ada, conversation).await.unwrap().unwrap().live;
        let queued = store.turn(ada, accepted.turn).await.unwrap().unwrap();
        assert_eq!((queued.state, queued.text, queued.started_at), (TurnState::Queued, None, None));

        let lease = talk::claim(store, Class::Turn).await;
        store.take_up(&lease.fence, accepted.turn).await.unwrap();
        assert_eq!(live().await, Some((accepted.turn, TurnState::Running)));
        sqlx::query("update queue_lane set due_at = now()").execute(&world.admin).await.unwrap();
        talk::work(store, "good day", None).await;
        assert_eq!(live().await, None);
        let done = store.turn(ada, accepted.turn).await.unwrap().unwrap();
        assert_eq!(done.state, TurnState::Complete);
        assert_eq!(done.text.as_deref(), Some("good day"));
        assert_eq!(done.usage, Usage { input_tokens: Some(3), output_tokens: Some(2) });
        assert_eq!((done.model.as_deref(), done.steps), (Some("demo"), 1));
        assert!(done.started_at.is_some() && done.ended_at.is_some());
        assert_eq!(done.approvals, vec![]);
        assert_eq!(store.turn(bob, accepted.turn).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn conversations_are_listed_by_their_last_use_and_titled_once() {
    with_store(async |world| {
        let store = &world.store;
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        let mut made = Vec::new();
        for key in ["a", "b", "c"] {
            made.push(talk::conversation(world, ada, key).await);
        }
        let accepted = talk::say(world, ada, made[0], "hello", Vec::new()).await;
        let list = async |before, limit| -> Vec<_> {
            let found = store.conversations(ada, before, limit).await.unwrap();
            found.into_iter().map(|conversation| conversation.id).collect()
        };
        assert_eq!(list(None, 10).await, [made[0], made[2], made[1]]);
        assert_eq!(list(None, 2).await, [made[0], made[2]]);
        assert_eq!(list(Some(made[2]), 2).await, [made[1]]);
        assert_eq!(store.conversations(bob, None, 10).await.unwrap(), vec![]);

        let title = async || store.conversation(ada, made[0]).await.unwrap().unwrap().title;
        store.set_title(accepted.turn, "A first hello").await.unwrap();
        assert_eq!(title().await.as_deref(), Some("A first hello"));
        store.set_title(accepted.turn, "Another").await.unwrap();
        assert_eq!(title().await.as_deref(), Some("A first hello"));
        assert!(store.rename(ada, made[0], "Mine").await.unwrap());
        assert_eq!(title().await.as_deref(), Some("Mine"));
        assert!(!store.rename(bob, made[0], "His").await.unwrap());
        assert_eq!(title().await.as_deref(), Some("Mine"));

        assert_eq!(talk::conversation(world, ada, "a").await, made[0], "the key is the identity");
        let new =
            NewConversation { agent: MAIN_AGENT, key: ConversationKey("a".into()), title: None };
        let refused = store.ensure_conversation(bob, new).await;
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    })
    .await;
}
