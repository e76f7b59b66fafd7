//! How the accounts of ours on platforms stand.

use crate::support::with_store;
use famulus_core::intake::Account;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(8);

fn ours(id: &str, name: Option<&str>) -> Account {
    Account { id: id.to_owned(), name: name.map(str::to_owned), link: None }
}

/// Whoever changes a bot does not hear of the one before for ever.
#[tokio::test]
async fn a_channel_stands_as_the_account_that_was_taken_last() {
    with_store(async |world| {
        let old = world
            .store
            .take_account("telegram", &ours("99", Some("@old")), LEASE)
            .await
            .unwrap()
            .unwrap();
        world.store.account_is(&old, Some("revoked")).await.unwrap();
        world.store.leave_account(&old).await.unwrap();
        // It may be called otherwise from one day to the next.
        for name in [None, Some("@new"), Some("@newer")] {
            world.store.take_account("telegram", &ours("100", name), LEASE).await.unwrap().unwrap();
            let [one] = world.store.accounts().await.unwrap().try_into().unwrap();
            let found = (one.account.as_str(), one.name.as_deref(), one.down.as_deref());
            assert_eq!(found, ("100", name, None));
        }
    })
    .await;
}

/// It looks each second, on every replica, for as long as the installation stands.
#[tokio::test]
async fn whoever_stands_by_writes_nothing() {
    with_store(async |world| {
        let (account, other) = (ours("99", Some("@bot")), world.another_store().await);
        let listens = world.store.take_account("telegram", &account, LEASE).await.unwrap().unwrap();
        let row = async || -> (String, String, Option<String>) {
            sqlx::query_as("select xmin::text, xmax::text, name from channel_account")
                .fetch_one(&world.admin)
                .await
                .unwrap()
        };
        let before = row().await;
        for name in [Some("@bot"), Some("@other"), None] {
            let taken = other.take_account("telegram", &ours("99", name), LEASE).await.unwrap();
            assert_eq!(taken, None, "another process listens");
            assert_eq!(row().await, before, "neither written nor locked");
        }
        world.store.leave_account(&listens).await.unwrap();
        let renamed = ours("99", Some("@other"));
        other.take_account("telegram", &renamed, LEASE).await.unwrap().unwrap();
        assert_eq!(row().await.2.as_deref(), Some("@other"), "whoever listens names it");
        other.close().await;
    })
    .await;
}
