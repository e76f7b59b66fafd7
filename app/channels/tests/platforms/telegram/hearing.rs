//! What people write, heard once and in order, whatever the platform does.

use super::bench::{Bench, TOKEN, channel};
use crate::support::{Kept, listen, until};
use famulus_core::{
    intake::{FetchError, Happening, ListenError, Listener, Written},
    outbound::Channel as _,
};
use famulus_scripted_telegram::{Fault, Telegram};
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

fn written(listener: &dyn Listener, kept: &Kept) -> Vec<Written> {
    let arrivals = kept.arrivals.lock();
    let read = arrivals.iter().map(|one| listener.read("99", &one.body));
    read.filter_map(
        |happening| {
            if let Happening::Wrote(written) = happening { Some(*written) } else { None }
        },
    )
    .collect()
}

fn texts(listener: &dyn Listener, kept: &Kept) -> Vec<String> {
    written(listener, kept).into_iter().map(|one| one.text).collect()
}

#[tokio::test]
async fn every_message_is_heard_once_and_in_order_on_bad_days_too() {
    let bench = Bench::new().await;
    let listener = bench.channel.listener().unwrap();
    let kept = Arc::new(Kept::default());
    let tasks = listen(Arc::clone(&listener), Arc::clone(&kept));
    let faults = [
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::Malformed,
        Fault::Busy(0),
        Fault::Status(502),
        Fault::Refused(500, "Internal Server Error: restart".into()),
    ];
    let mut expected = vec!["/start".to_owned()];
    for number in 0..60 {
        if let Some(fault) = faults.get(number / 10).filter(|_| number % 10 == 3) {
            bench.telegram.fault("getupdates", fault.clone());
        }
        if number % 20 == 7 {
            *kept.fails.lock() = 2;
        }
        let text = format!("message {number}");
        bench.telegram.write(&bench.ada, &bench.ada.chat(), &text);
        expected.push(text);
        sleep(Duration::from_millis(5)).await;
    }
    until("all is heard", || kept.arrivals.lock().len() >= expected.len()).await;
    assert_eq!(texts(listener.as_ref(), &kept), expected);
    // What was kept is confirmed, by the next poll.
    until("all is confirmed", || bench.telegram.unconfirmed() == 0).await;
    tasks.shutdown();
}

/// The API grows: what nobody knows yet must not stand in the way of what comes behind it.
#[tokio::test]
async fn what_cannot_be_read_is_kept_and_passed() {
    let bench = Bench::new().await;
    bench.telegram.tell("message", serde_json::json!({"chat": "no chat", "text": 7}));
    bench.telegram.tell("something_new", serde_json::json!([1, 2]));
    bench.telegram.write(&bench.ada, &bench.ada.chat(), "behind it");
    let listener = bench.channel.listener().unwrap();
    let kept = Arc::new(Kept::default());
    let tasks = listen(Arc::clone(&listener), Arc::clone(&kept));
    until("all is confirmed", || bench.telegram.unconfirmed() == 0).await;
    assert_eq!(kept.arrivals.lock().len(), 4);
    assert_eq!(texts(listener.as_ref(), &kept), ["/start", "behind it"]);
    tasks.shutdown();
}

#[tokio::test]
async fn nothing_is_confirmed_that_was_not_kept() {
    let bench = Bench::new().await;
    let listener = bench.channel.listener().unwrap();
    let kept = Kept::default();
    *kept.fails.lock() = 1;
    let error = listener.listen(None, &kept).await;
    assert!(matches!(error, ListenError::Store(_)), "{error}");
    assert_eq!(bench.telegram.unconfirmed(), 1);
}

#[tokio::test]
async fn a_listener_says_what_is_wrong_and_what_to_do() {
    let bench = Bench::new().await;
    let listener = bench.channel.listener().unwrap();
    let account = listener.account().await.unwrap();
    assert_eq!((account.id.as_str(), account.name.as_deref()), ("99", Some("@famulus_bot")));
    assert_eq!(account.link.as_deref(), Some("https://t.me/famulus_bot?start="));
    let kept = Kept::default();
    bench.telegram.set_webhook(Some("https://elsewhere.example"));
    let error = listener.listen(None, &kept).await;
    let said = error.to_string();
    assert!(
        matches!(error, ListenError::Lasting { .. }) && said.contains("deleteWebhook"),
        "{said}"
    );
    bench.telegram.set_webhook(None);
    bench.telegram.revoke("99:another");
    for error in [listener.listen(None, &kept).await, listener.account().await.unwrap_err()] {
        let said = error.to_string();
        assert!(said.contains("channels.telegram.token") && said.contains("BotFather"), "{said}");
        assert!(!said.contains("secret") && !said.contains("127.0.0.1"), "{said}");
    }
    let nobody = channel("http://127.0.0.1:1", TOKEN, &bench.files).listener().unwrap();
    let error = nobody.listen(None, &kept).await;
    assert!(matches!(error, ListenError::Passing { .. }), "{error}");
}

#[tokio::test]
async fn an_older_poll_gives_way_to_a_newer_one() {
    let bench = Bench::new().await;
    let place = Some("200000".to_owned());
    let (first, second) = (Kept::default(), Kept::default());
    let (one, two) = (bench.channel.listener().unwrap(), bench.channel.listener().unwrap());
    let older = one.listen(place.clone(), &first);
    let newer = async {
        sleep(Duration::from_millis(200)).await;
        let _still_waits = timeout(Duration::from_secs(2), two.listen(place, &second)).await;
    };
    let (error, ()) = tokio::join!(older, newer);
    assert!(matches!(error, ListenError::Passing { after: Some(_), .. }), "{error}");
    assert!(error.to_string().contains("only one bot instance"), "{error}");
}

async fn heard(telegram: &Telegram, listener: &dyn Listener) -> Vec<Written> {
    let kept = Kept::default();
    let count = telegram.unconfirmed();
    let listening = listener.listen(None, &kept);
    let done = until("all is heard", || kept.arrivals.lock().len() >= count);
    tokio::select! {
        error = listening => panic!("{error}"),
        () = done => {}
    }
    written(listener, &kept)
}

#[tokio::test]
async fn a_file_is_fetched_as_it_was_sent() {
    let bench = Bench::new().await;
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
    let handle = bench.telegram.keep(bytes.clone());
    let document = serde_json::json!({"caption": "the report", "document": {
        "file_id": handle, "file_unique_id": "u", "file_name": "report.pdf",
        "mime_type": "application/pdf", "file_size": bytes.len()}});
    bench.telegram.send(&bench.ada, &bench.ada.chat(), document);
    let listener = bench.channel.listener().unwrap();
    let written = heard(&bench.telegram, listener.as_ref()).await.pop().unwrap();
    assert_eq!(written.text, "the report");
    let file = &written.files[0];
    assert_eq!((file.name.as_str(), file.size), ("report.pdf", Some(300_000)));
    let pieces: Vec<_> = listener.fetch(file).await.unwrap().try_collect().await.unwrap();
    assert!(pieces.concat() == bytes);
    // One that breaks off is no file.
    bench.telegram.fault("file", Fault::CutAfter);
    let is_cut = match listener.fetch(file).await {
        Ok(pieces) => pieces.try_collect::<Vec<_>>().await.is_err(),
        Err(error) => matches!(error, FetchError::Passing { .. }),
    };
    assert!(is_cut, "half of a file is none");
    let large = bench.telegram.keep(vec![0; 20 * 1024 * 1024 + 1]);
    let file = famulus_core::intake::RemoteFile { handle: large, size: None, ..file.clone() };
    let refused = listener.fetch(&file).await.err().unwrap();
    assert!(matches!(refused, FetchError::Lasting { .. }), "{refused}");
}

#[tokio::test]
async fn what_somebody_wrote_is_deleted_once_and_what_is_gone_is_deleted_already() {
    let bench = Bench::new().await;
    let text = "/configure weather api_key `a` *b*";
    let styled = serde_json::json!({"text": text, "entities": [
        {"type": "bold", "offset": 0, "length": 10}, {"type": "code", "offset": 27, "length": 3}]});
    let number = bench.telegram.send(&bench.ada, &bench.ada.chat(), styled);
    let listener = bench.channel.listener().unwrap();
    let written = heard(&bench.telegram, listener.as_ref()).await.pop().unwrap();
    assert_eq!(written.text, text, "a value is what was typed");
    listener.delete(&written).await.unwrap();
    assert_eq!(bench.telegram.deleted(), [(7, number)]);
    listener.delete(&written).await.unwrap();
    assert_eq!(bench.telegram.deleted().len(), 1);
    for bad in [
        Fault::CutBefore,
        Fault::Status(502),
        Fault::Refused(400, "Bad Request: message can't be deleted".into()),
    ] {
        bench.telegram.fault("deletemessage", bad.clone());
        let still_there = listener.delete(&written).await;
        assert!(still_there.is_err(), "{bad:?}");
    }
}
