//! How the accounts of ours on platforms stand.

use crate::support::with_store;
use famulus_core::intake::Account;

/// Whoever changes a bot does not hear of the one before for ever.
#[tokio::test]
async fn a_channel_stands_as_the_account_that_was_taken_last() {
    with_store(async |world| {
        let lease = std::time::Duration::from_secs(8);
        let ours = |id: &str, name: Option<&str>| Account {
            id: id.to_owned(),
            name: name.map(str::to_owned),
            link: None,
        };
        let old = world
            .store
            .take_account("telegram", &ours("99", Some("@old")), lease)
            .await
            .unwrap()
            .unwrap();
        world.store.account_is(&old, Some("revoked")).await.unwrap();
        world.store.leave_account(&old).await.unwrap();
        // It may be called otherwise from one day to the next.
        for name in [None, Some("@new"), Some("@newer")] {
            world.store.take_account("telegram", &ours("100", name), lease).await.unwrap().unwrap();
            let [one] = world.store.accounts().await.unwrap().try_into().unwrap();
            let found = (one.account.as_str(), one.name.as_deref(), one.down.as_deref());
            assert_eq!(found, ("100", name, None));
        }
    })
    .await;
}
