//! Messages that their senders change.

use crate::{
    support::with_store,
    talk::{self, claim, message},
};
use famulus_core::{
    accept::{Accept as _, Replaced},
    ids::PersonId,
    inbound::{Inbound, Target},
    turn::TurnLog as _,
};
use famulus_queue::Class;

const KEY: &str = "7/1";

#[tokio::test]
async fn a_message_changes_until_it_is_read_and_by_its_sender_alone() {
    with_store(async |world| {
        let store = &world.store;
        let ada: PersonId = world.person("Ada").await.id;
        let eve: PersonId = world.person("Eve").await.id;
        let place = talk::conversation(world, ada, "main").await;
        let says = |person, text: &str| message(person, Target::Existing(place), text);
        let first = Inbound { external_id: Some(KEY.to_owned()), ..says(ada, "coffee") };
        let accepted = store.accept(first.clone()).await.unwrap();
        let change = async |person, text| store.replace(KEY, &says(person, text)).await.unwrap();
        let stands = async || {
            let query =
                "select body || ' ' || (convert_from(parts, 'utf8') like '%' || body || '%')
                         from message where id = $1";
            let found: String = sqlx::query_scalar(query)
                .bind(accepted.message.0)
                .fetch_one(&world.admin)
                .await
                .unwrap();
            found
        };
        assert_eq!(change(eve, "poison").await, Replaced::No);
        assert_eq!(store.replace("7/2", &says(ada, "tea")).await.unwrap(), Replaced::No);
        assert_eq!(change(ada, "coffee").await, Replaced::Same);
        assert_eq!(stands().await, "coffee true");
        for _ in 0..2 {
            let outcome = change(ada, "tea").await;
            assert!(matches!(outcome, Replaced::Done | Replaced::Same), "{outcome:?}");
            assert_eq!(stands().await, "tea true");
        }
        // It came again meanwhile, as it was first.
        store.accept(first).await.unwrap();
        assert_eq!(stands().await, "tea true");

        let lease = claim(store, Class::Turn).await;
        let read = store.take_up(&lease.fence, accepted.turn).await.unwrap();
        let read = format!("{:?}", read.history);
        assert!(read.contains("tea") && !read.contains("coffee"), "{read}");
        assert_eq!(change(ada, "milk").await, Replaced::No);
        assert_eq!(change(ada, "tea").await, Replaced::Same);
        assert_eq!(stands().await, "tea true");
    })
    .await;
}

#[tokio::test]
async fn a_change_of_a_change_is_a_change_of_the_message() {
    with_store(async |world| {
        let store = &world.store;
        let ada: PersonId = world.person("Ada").await.id;
        let place = talk::conversation(world, ada, "main").await;
        let says = |key: &str, text: &str| Inbound {
            external_id: Some(key.to_owned()),
            ..message(ada, Target::Existing(place), text)
        };
        let bodies = async || {
            let query = "select body from message where role = 'user' order by seq";
            sqlx::query_scalar::<_, String>(query).fetch_all(&world.admin).await.unwrap()
        };
        let first = store.accept(says("7/1", "coffee")).await.unwrap();
        for (original, key, text) in
            [("7/1", "7/2", "tea"), ("7/2", "7/3", "milk"), ("7/3", "7/4", "milk")]
        {
            store.replace(original, &says(key, text)).await.unwrap();
        }
        assert_eq!(store.replace("7/4", &says("7/5", "water")).await.unwrap(), Replaced::Done);
        assert_eq!(bodies().await, ["water"]);
        // One that comes again after all of them changes nothing, and is no message of its own.
        let again = store.accept(says("7/2", "tea")).await.unwrap();
        assert_eq!(again.message, first.message);

        // What changes a message that was read is a message, and is known as a change when it changes.
        let lease = claim(store, Class::Turn).await;
        store.take_up(&lease.fence, first.turn).await.unwrap();
        assert_eq!(store.replace("7/5", &says("7/6", "juice")).await.unwrap(), Replaced::No);
        store.accept(says("7/6", "[edited] juice")).await.unwrap();
        assert_eq!(store.replace("7/6", &says("7/7", "beer")).await.unwrap(), Replaced::Done);
        assert_eq!(bodies().await, ["water", "[edited] beer"]);
    })
    .await;
}
