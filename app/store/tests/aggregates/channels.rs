//! How the accounts of ours on platforms stand.

use crate::support::with_store;

/// Whoever changes a bot does not hear of the one before for ever.
#[tokio::test]
async fn a_channel_stands_as_the_account_that_was_taken_last() {
    with_store(async |world| {
        let lease = std::time::Duration::from_secs(8);
        let old = world.store.take_account("telegram", "99", lease).await.unwrap().unwrap();
        world.store.account_is(&old, Some("revoked")).await.unwrap();
        world.store.leave_account(&old).await.unwrap();
        world.store.take_account("telegram", "100", lease).await.unwrap().unwrap();
        let accounts = world.store.accounts().await.unwrap();
        let standing: Vec<_> =
            accounts.iter().map(|one| (one.account.as_str(), one.down.as_deref())).collect();
        assert_eq!(standing, [("100", None)]);
    })
    .await;
}
