//! A phone scans a link, and the daemon has an account.

use super::Bench;
use famulus_core::linking::LinkError;
use famulus_core::outbound::Channel as _;
use famulus_scripted_signal::{Fault, User};
use serde_json::Value;
use std::time::Duration;

#[tokio::test]
async fn a_scanned_link_is_an_account() {
    let bench = Bench::new().await;
    bench.signal.set_accounts(&[]);
    let linker = bench.channel.linker().unwrap();
    let link = linker.begin().await.unwrap();
    assert!(link.starts_with("sgnl://linkdevice?"), "{link}");
    let phone = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        bench.signal.scan(&link, &User::new(99, "Home"));
    };
    let (account, ()) = tokio::join!(linker.finish(&link), phone);
    assert_eq!(account.unwrap(), "+15550000099");
    // Each is good once.
    let again = linker.finish(&link).await.unwrap_err();
    assert_eq!(again, LinkError::Refused("Unknown device link uri.".into()));
}

#[tokio::test]
async fn a_link_that_comes_to_nothing_says_why() {
    let bench = Bench::new().await;
    let linker = bench.channel.linker().unwrap();
    bench.signal.set_link_patience(Duration::from_millis(100));
    let link = linker.begin().await.unwrap();
    assert_eq!(linker.finish(&link).await.unwrap_err(), LinkError::Late);
    let link = linker.begin().await.unwrap();
    bench.signal.scan(&link, &User::new(99, "Home"));
    let known = linker.finish(&link).await.unwrap_err();
    assert!(
        matches!(&known, LinkError::Refused(why) if why.contains("already exists")),
        "{known:?}"
    );

    let one = Fault::Refused(-32601, "Method not implemented".into(), Value::Null);
    bench.signal.fault("startLink", one);
    let refused = linker.begin().await.unwrap_err().to_string();
    assert!(refused.contains("without -a"), "{refused}");
    bench.signal.fault("startLink", Fault::Status(502));
    assert!(matches!(linker.begin().await.unwrap_err(), LinkError::Away(_)));
}
