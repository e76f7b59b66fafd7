//! Codes and links by which strangers become known are good for a quarter of an hour, and no longer.

use crate::support::{World, with_store};
use famulus_core::{
    intake::Account,
    pairing::{Asked, Identities as _, Stranger},
    person::Role,
};
use famulus_store::{Becomes, Invited, Paired};
use std::time::Duration;

/// As long as they are promised to be good for, in seconds, and how far off a test may be.
const PROMISED: i64 = 15 * 60;
const NEARLY: i64 = PROMISED - 30;

fn stranger(id: &str) -> Stranger {
    Stranger {
        channel: "telegram".into(),
        account: "99".into(),
        chat: Some(id.into()),
        external_id: id.into(),
        name: "Somebody".into(),
        language: None,
    }
}

/// What is kept there was made so much earlier.
async fn age(world: &World, table: &str, seconds: i64) {
    let older = format!(
        "update {table} set created_at = created_at - $1 * interval '1 second',
                            expires_at = expires_at - $1 * interval '1 second'"
    );
    let older = sqlx::query(sqlx::AssertSqlSafe(older)).bind(seconds as f64);
    assert_eq!(older.execute(&world.admin).await.unwrap().rows_affected(), 1);
}

#[tokio::test]
async fn a_code_is_good_for_a_quarter_of_an_hour() {
    with_store(async |world| {
        let store = &world.store;
        store.ensure_owner("Olga", "UTC").await.unwrap();
        let newcomer = Becomes::Newcomer { role: Role::Member, name: None };
        let is_let_in = async |code: &str| {
            matches!(store.pair(code, &newcomer).await.unwrap(), Paired::Done { .. })
        };
        for (id, code, waited, is_good) in
            [("1", "AAAAAAAA", NEARLY, true), ("2", "BBBBBBBB", PROMISED, false)]
        {
            assert_eq!(store.ask_in(&stranger(id), code).await.unwrap(), Asked::Coded);
            age(world, "pairing", waited).await;
            assert_eq!(store.pairings().await.unwrap().len(), usize::from(is_good), "{id} waits");
            assert_eq!(is_let_in(code).await, is_good, "{waited} s after {id} had it");
            let known = store.whose("telegram", "99", id).await.unwrap();
            assert_eq!(known.is_some(), is_good);
        }
        // Whoever was late gets another code, which is good.
        assert_eq!(store.ask_in(&stranger("2"), "CCCCCCCC").await.unwrap(), Asked::Coded);
        assert!(!is_let_in("BBBBBBBB").await);
        assert!(is_let_in("CCCCCCCC").await);
    })
    .await;
}

#[tokio::test]
async fn a_link_is_good_for_a_quarter_of_an_hour() {
    with_store(async |world| {
        let store = &world.store;
        let ours = Account { id: "99".into(), name: None, link: Some("https://t.me/x?y=".into()) };
        let listens = store.take_account("telegram", &ours, Duration::from_secs(20)).await;
        listens.unwrap().unwrap();
        let ada = world.person("Ada").await;
        for (id, secret, waited, is_good) in
            [("1", "first", NEARLY, true), ("2", "second", PROMISED, false)]
        {
            let invited = store.invite("telegram", ada.id, secret).await.unwrap();
            assert!(matches!(invited, Invited::Done(_)), "{invited:?}");
            age(world, "invitation", waited).await;
            let joined = store.join(&stranger(id), secret).await.unwrap();
            assert_eq!(
                joined.map(|known| known.person.id),
                is_good.then_some(ada.id),
                "{waited} s"
            );
        }
    })
    .await;
}
