//! A phone scans a link, or a number is registered, and the daemon has an account.

use super::Bench;
use famulus_core::linking::{LinkError, Proof, Registration};
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

const NUMBER: &str = "+15550000098";

#[tokio::test]
async fn a_number_is_registered_by_the_code_that_comes_to_it() {
    let bench = Bench::new().await;
    bench.signal.set_accounts(&[]);
    let linker = bench.channel.linker().unwrap();
    let plain = Registration { number: NUMBER.into(), captcha: None, by_call: false };
    linker.register(&plain).await.unwrap();
    assert_eq!(bench.signal.code_of(NUMBER).map(|(_, by_call)| by_call), Some(false));
    linker.register(&Registration { by_call: true, ..plain }).await.unwrap();
    let (code, by_call) = bench.signal.code_of(NUMBER).unwrap();
    assert!(by_call);

    bench.signal.lock(NUMBER, "2468");
    let proof =
        |code: &str, pin: Option<&str>| Proof { code: code.into(), pin: pin.map(Into::into) };
    for (wrong, says) in [(proof("000-000", None), "403"), (proof(&code, None), "pin")] {
        let refused = linker.verify(NUMBER, &wrong).await.unwrap_err();
        assert!(matches!(&refused, LinkError::Refused(why) if why.contains(says)), "{refused:?}");
    }
    linker.verify(NUMBER, &proof(&code, Some("2468"))).await.unwrap();
    let again = linker.verify(NUMBER, &proof(&code, Some("2468"))).await.unwrap_err();
    assert!(matches!(again, LinkError::Refused(_)), "{again:?}");
}

#[tokio::test]
async fn a_captcha_and_a_limit_are_told_apart_from_what_is_refused() {
    let bench = Bench::new().await;
    let linker = bench.channel.linker().unwrap();
    bench.signal.want_captcha();
    let new = |captcha: Option<&str>| Registration {
        number: NUMBER.into(),
        captcha: captcha.map(Into::into),
        by_call: false,
    };
    for captcha in [None, Some("signalcaptcha://old")] {
        let wanted = linker.register(&new(captcha)).await.unwrap_err();
        assert!(matches!(wanted, LinkError::Captcha { at } if at.contains("signalcaptchas.org")));
    }
    linker.register(&new(Some("signalcaptcha://signal-hcaptcha.solved"))).await.unwrap();
    let limit = Fault::Refused(-5, "Rate limit reached: an hour".into(), Value::Null);
    bench.signal.fault("register", limit);
    let limited = linker.register(&new(None)).await.unwrap_err();
    assert_eq!(limited, LinkError::TooOften("Rate limit reached: an hour".into()));
    bench.signal.fault("verify", Fault::Status(502));
    let proof = Proof { code: "1".into(), pin: None };
    assert!(matches!(linker.verify(NUMBER, &proof).await.unwrap_err(), LinkError::Away(_)));
}
