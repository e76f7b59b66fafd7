//! What people write, heard once and in order.

use super::Bench;
use crate::support::{Files, Kept, listen, until};
use famulus_channels::signal::{Config, Signal as Channel};
use famulus_core::{
    intake::{FetchError, Happening, ListenError, RemoteFile, Written},
    outbound::Channel as _,
};
use famulus_scripted_signal::{Fault, Mode, User};
use futures::TryStreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

fn read(bench: &Bench, kept: &Kept) -> Vec<Written> {
    let listener = bench.channel.listener().unwrap();
    let arrivals = kept.arrivals.lock();
    let read = arrivals.iter().map(|one| listener.read(&bench.signal.account(), &one.body));
    read.filter_map(
        |happening| {
            if let Happening::Wrote(written) = happening { Some(*written) } else { None }
        },
    )
    .collect()
}

fn texts(bench: &Bench, kept: &Kept) -> Vec<String> {
    read(bench, kept).into_iter().map(|one| one.text).collect()
}

fn say(bench: &Bench, expected: &mut Vec<String>) {
    let text = format!("message {}", expected.len());
    bench.signal.write(&bench.ada, &text);
    expected.push(text);
}

#[tokio::test]
async fn every_message_is_heard_once_and_in_order_on_bad_days_too() {
    let bench = Bench::new().await;
    let kept = Arc::new(Kept::default());
    let mut expected = Vec::new();
    // What was written while nobody listened waits with Signal.
    for _ in 0..5 {
        say(&bench, &mut expected);
    }
    let tasks = listen(bench.channel.listener().unwrap(), Arc::clone(&kept));
    for round in 0..12 {
        for _ in 0..3 {
            say(&bench, &mut expected);
        }
        match round % 4 {
            0 => *kept.fails.lock() = 2,
            1 => {
                bench.signal.fault("events", Fault::Status(500));
                bench.signal.fault("listAccounts", Fault::CutAfter);
                // Only once all of it was read: what is on its way when a stream breaks is gone.
                let all = expected.len();
                until("all is heard", || texts(&bench, &kept).len() == all).await;
                bench.signal.drop_streams();
            }
            2 => bench.signal.tell(json!({"sourceUuid": bench.ada.id, "receiptMessage": {}})),
            _ => {}
        }
    }
    let all = expected.len();
    until("all is heard", || texts(&bench, &kept).len() >= all).await;
    assert_eq!(texts(&bench, &kept), expected);
    // Each is shown as read once it is stored, and so a moment later.
    until("all are shown as read", || bench.signal.receipts().len() >= all).await;
    assert_eq!(bench.signal.receipts().len(), all);
    tasks.shutdown();
}

/// The store is away just when another process is to listen, or this one ends.
#[tokio::test]
async fn whoever_is_to_listen_no_more_keeps_what_is_on_its_way() {
    let bench = Bench::new().await;
    let (kept, listener) = (Kept::default(), bench.channel.listener().unwrap());
    assert!(listener.tells_once());
    let mut expected = Vec::new();
    let ends = async {
        until("it listens", || bench.signal.streams() == 1).await;
        *kept.fails.lock() = 5;
        for _ in 0..10 {
            say(&bench, &mut expected);
        }
        kept.over.notify_one();
    };
    let (ended, ()) = tokio::join!(listener.listen(None, &kept), ends);
    assert!(matches!(ended, ListenError::Passing { .. }), "{ended:?}");
    assert_eq!(texts(&bench, &kept), expected);
    assert_eq!(*kept.place.lock(), None, "nobody is told from a place on");
    // What comes behind it waits with Signal.
    until("the stream is closed", || bench.signal.streams() == 0).await;
    say(&bench, &mut expected);
    assert_eq!(bench.signal.waiting(), 1);
}

#[tokio::test]
async fn a_daemon_without_an_account_of_ours_says_so() {
    let bench = Bench::new().await;
    let listener = bench.channel.listener().unwrap();
    let kept = Kept::default();
    bench.signal.set_accounts(&[]);
    let ended = listener.listen(None, &kept).await;
    assert!(
        matches!(&ended, ListenError::Passing { reason, .. } if reason.contains("famulus channel link")),
        "{ended:?}"
    );
    bench.signal.set_accounts(&[User::new(1, "A"), User::new(2, "B")]);
    let ended = listener.listen(None, &kept).await;
    assert!(
        matches!(&ended, ListenError::Lasting { remedy, .. } if remedy.contains("channels.signal.account")),
        "{ended:?}"
    );
    bench.signal.set_accounts(&[User::new(1, "A")]);
    let account = listener.account().await.unwrap();
    assert_eq!((account.id, account.name), (User::new(1, "A").id, User::new(1, "A").number));
    bench.signal.fault("events", Fault::Status(400));
    let ended = listener.listen(None, &kept).await;
    assert!(matches!(ended, ListenError::Lasting { .. }), "{ended:?}");
    let away = Bench::new().await;
    away.signal.stop().await;
    let ended = away.channel.listener().unwrap().listen(None, &kept).await;
    assert!(matches!(ended, ListenError::Passing { .. }), "{ended:?}");
}

/// In this mode the daemon throws away what nobody listens to, and nothing of ours can change it.
#[tokio::test]
async fn what_is_said_while_nobody_listens_is_lost_in_the_wrong_mode() {
    let bench = Bench::new().await;
    bench.signal.set_mode(Mode::OnStart);
    bench.signal.write(&bench.ada, "into the void");
    let kept = Arc::new(Kept::default());
    let tasks = listen(bench.channel.listener().unwrap(), Arc::clone(&kept));
    until("somebody listens", || bench.signal.streams() == 1).await;
    bench.signal.write(&bench.ada, "hello");
    until("it is heard", || texts(&bench, &kept).len() == 1).await;
    assert_eq!((texts(&bench, &kept), bench.signal.lost()), (vec!["hello".to_owned()], 1));
    tasks.shutdown();
}

#[tokio::test]
async fn a_persons_own_account_hears_what_they_write_to_themselves_alone() {
    let bench = Bench::with(false).await;
    let kept = Arc::new(Kept::default());
    let tasks = listen(bench.channel.listener().unwrap(), Arc::clone(&kept));
    let own = bench.signal.account();
    bench.signal.write(&bench.ada, "are you there?");
    bench.signal.sync(&bench.ada.id, json!({"message": "yes"}));
    bench.signal.sync(&own, json!({"message": "remember the milk"}));
    until("the note is heard", || !texts(&bench, &kept).is_empty()).await;
    sleep(Duration::from_millis(100)).await;
    let heard = read(&bench, &kept);
    assert_eq!(heard.len(), 1);
    assert_eq!((heard[0].text.as_str(), &heard[0].from.id), ("remember the milk", &own));
    assert_eq!(kept.arrivals.lock().len(), 1, "nothing of a friend's is stored");
    assert_eq!(bench.signal.receipts(), [], "friends are not told that somebody reads");
    assert!(!bench.channel.grows());
    tasks.shutdown();
}

#[tokio::test]
async fn a_file_is_fetched_as_it_was_sent_or_not_at_all() {
    let bench = Bench::new().await;
    let listener = bench.channel.listener().unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_001).collect();
    let file = |handle: &str, size: Option<u64>| RemoteFile {
        handle: handle.to_owned(),
        name: "a".to_owned(),
        media_type: "image/jpeg".to_owned(),
        size,
    };
    let fetched = async |file: &RemoteFile| -> std::io::Result<Vec<u8>> {
        let pieces = listener.fetch(file).await.unwrap();
        Ok(pieces.try_collect::<Vec<_>>().await?.concat())
    };
    let id = bench.signal.keep(bytes.clone());
    let size = Some(bytes.len() as u64);
    assert!(fetched(&file(&id, size)).await.unwrap() == bytes);
    assert!(fetched(&file(&id, None)).await.unwrap() == bytes);
    // A download of the daemon's that broke off has no other mark.
    fetched(&file(&id, Some(bytes.len() as u64 + 1))).await.unwrap_err();
    let empty = bench.signal.keep("");
    assert!(fetched(&file(&empty, Some(0))).await.unwrap().is_empty());
    fetched(&file(&empty, Some(9))).await.unwrap_err();
    bench.signal.fault("getAttachment", Fault::Malformed);
    fetched(&file(&id, size)).await.unwrap_err();
    let gone = listener.fetch(&file("none", None)).await.err();
    assert!(matches!(gone, Some(FetchError::Lasting { .. })), "{gone:?}");
    bench.signal.fault("getAttachment", Fault::CutBefore);
    let cut = listener.fetch(&file(&id, size)).await.err();
    assert!(matches!(cut, Some(FetchError::Passing { .. })), "{cut:?}");
}

#[tokio::test]
async fn what_a_message_says_is_told_in_words() {
    let bench = Bench::new().await;
    let kept = Arc::new(Kept::default());
    let tasks = listen(bench.channel.listener().unwrap(), Arc::clone(&kept));
    let hidden = User::hidden(8, "Bob");
    let first = bench.signal.write(&hidden, "cold tea");
    bench.signal.edit(&hidden, first, json!({"message": "hot tea"}));
    let style = json!([{"style": "BOLD", "start": 0, "length": 3}]);
    bench.signal.send(&hidden, json!({"message": "hot tea", "textStyles": style}));
    let group: Value =
        json!({"groupId": "Zm9v", "groupName": null, "revision": 3, "type": "DELIVER"});
    bench.signal.send(&hidden, json!({"message": "all of you", "groupInfo": group}));
    until("all is heard", || read(&bench, &kept).len() == 4).await;
    let heard = read(&bench, &kept);
    assert_eq!(heard[1].edits.as_ref(), Some(&heard[0].key));
    assert_eq!(heard[2].text, "**hot** tea");
    assert_eq!(
        (heard[0].from.name.as_str(), heard[0].chat.id.as_str()),
        ("Bob", hidden.id.as_str())
    );
    assert_eq!(heard[3].chat, famulus_core::inbound::Chat::group("Zm9v"));
    bench.channel.listener().unwrap().leave("Zm9v").await.unwrap();
    assert_eq!(bench.signal.left(), ["Zm9v"]);
    tasks.shutdown();
}

#[tokio::test]
async fn numbers_are_looked_up_once_for_all_strangers_and_count_for_nothing_by_themselves() {
    let bench = Bench::new().await;
    let listener = bench.channel.listener().unwrap();
    let bob = User::new(8, "Bob");
    let listed = [bob.number.clone().unwrap(), bench.ada.id.clone()];
    assert!(listener.lists(&listed, &bench.ada.id).await.unwrap(), "listed by her id");
    // Whose the numbers are is not known yet, so that nobody is turned away.
    listener.account().await.unwrap();
    for bad in [Fault::CutBefore, Fault::Malformed, Fault::Status(502)] {
        bench.signal.fault("getUserStatus", bad.clone());
        let ended = listener.lists(&listed, &bob.id).await.unwrap_err();
        assert!(matches!(ended, ListenError::Passing { .. }), "{bad:?}: {ended}");
    }
    let asked = || bench.signal.calls().iter().filter(|(name, _)| name == "getUserStatus").count();
    let before = asked();
    assert!(listener.lists(&listed, &bob.id).await.unwrap(), "his number is listed");
    for stranger in 20..30 {
        assert!(!listener.lists(&listed, &User::new(stranger, "Eve").id).await.unwrap());
    }
    // An id that looks like a number, and the number itself, are nobody's.
    assert!(!listener.lists(&listed, "+15550000009").await.unwrap());
    assert_eq!(asked(), before + 1);

    // Whoever is refused lets nobody in, and does not ask for each stranger anew.
    let bench = Bench::new().await;
    let listener = bench.channel.listener().unwrap();
    listener.account().await.unwrap();
    bench.signal.fault("getUserStatus", Fault::Refused(-5, "Rate limited".into(), Value::Null));
    for _ in 0..3 {
        assert!(!listener.lists(&listed, &bob.id).await.unwrap(), "it was not said whose it is");
    }
}

#[tokio::test]
async fn a_list_that_names_no_account_starts_no_channel() {
    let new = |allow: &str| {
        let url = Some("http://127.0.0.1:9".parse().unwrap());
        let config = Config { url, allow: vec![allow.to_owned()], ..Config::default() };
        Channel::new(config, Arc::new(Files::default())).map(drop)
    };
    for good in ["*", "+491701234567", "0fbc1e0a-9d10-4f4c-8f6e-1b8f2f4a7c11"] {
        assert!(new(good).is_ok(), "{good}");
    }
    for odd in ["", "Ada", "491701234567", "+49 170", "+1", "0fbc1e0a-9d10-4f4c-8f6e"] {
        let refused = new(odd).unwrap_err().to_string();
        assert!(refused.contains(&format!("`{odd}`")) && refused.contains("`*`"), "{refused}");
    }
}

#[tokio::test]
async fn what_somebody_wrote_cannot_be_deleted_and_a_value_is_what_was_typed() {
    let bench = Bench::new().await;
    let kept = Arc::new(Kept::default());
    let tasks = listen(bench.channel.listener().unwrap(), Arc::clone(&kept));
    let style = json!([{"style": "BOLD", "start": 0, "length": 10}]);
    let assigns = json!({"message": "/configure weather api_key a", "textStyles": style});
    bench.signal.send(&bench.ada, assigns);
    until("it is heard", || read(&bench, &kept).len() == 1).await;
    let heard = read(&bench, &kept).remove(0);
    assert_eq!(heard.text, "/configure weather api_key a");
    let refused = bench.channel.listener().unwrap().delete(&heard).await;
    assert!(matches!(refused, Err(ListenError::Lasting { .. })), "{refused:?}");
    tasks.shutdown();
}
