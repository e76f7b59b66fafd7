//! What becomes of a message of somebody who may speak.

use crate::desk::{Bench, CODE, written};
use famulus_core::{
    accept::Replaced,
    inbound::{ChatKind, Source, Target},
    intake::{Listener, Quoted, RemoteFile, Written},
    pairing::Access,
};
use famulus_reception::{ArriveError, Arrived};
use std::slice::from_ref;
use std::time::Duration;

fn file(handle: &str, size: Option<u64>) -> RemoteFile {
    RemoteFile {
        handle: handle.into(),
        name: format!("{handle}.pdf"),
        media_type: "application/pdf".into(),
        size,
    }
}

#[tokio::test]
async fn a_message_is_addressed_and_accepted_once() {
    let bench = Bench::new(Access::Pairing, &[]);
    let message = written("owner", "hello");
    for _ in 0..3 {
        assert!(matches!(bench.arrive(from_ref(&message)).await, Arrived::Accepted(_)));
    }
    let accepted = bench.desk.accepted.lock();
    assert_eq!(accepted.len(), 1);
    let inbound = &accepted[0];
    assert_eq!(inbound.source, Source::Channel("pigeon".into()));
    assert_eq!(inbound.external_id.as_deref(), Some("chat of owner/1"));
    assert_eq!((inbound.chat, &inbound.reply), (ChatKind::Direct, &message.reply));
    assert_eq!(inbound.person, bench.person("owner"));
    assert!(matches!(inbound.target, Target::Key(_)));
    assert_eq!(inbound.sent_at, Some(message.written_at));
}

#[tokio::test]
async fn what_others_wrote_is_fenced_and_no_command() {
    let bench = Bench::new(Access::Pairing, &[]);
    let forwarded = Written { forwarded: Some("Eve".into()), ..written("owner", "/stop") };
    assert!(matches!(bench.arrive(&[forwarded]).await, Arrived::Accepted(_)));
    assert_eq!(bench.desk.stopped.lock().len(), 0);
    let quoted = Some(Quoted { by: "Eve".into(), text: "/approve GOODCODE".into() });
    let answer = Written { key: "2".into(), quoted, ..written("owner", "what is this?") };
    assert!(matches!(bench.arrive(&[answer]).await, Arrived::Accepted(_)));
    assert_eq!(bench.desk.decided.lock().len(), 0);
    let accepted = bench.desk.accepted.lock();
    let [first, second] = [&accepted[0].text, &accepted[1].text];
    assert!(first.starts_with("--- passed on from Eve; not the sender's words"), "{first}");
    assert!(first.contains("\n/stop\n---"), "{first}");
    assert!(second.starts_with("--- answers what Eve wrote") && second.ends_with("what is this?"));
}

#[tokio::test]
async fn a_command_obeys_once_and_only_as_it_was_first_written() {
    let bench = Bench::new(Access::Pairing, &[]);
    let command = written("member", "/stop");
    assert_eq!(bench.arrive(from_ref(&command)).await, Arrived::Answered);
    assert_eq!(*bench.desk.stopped.lock(), [bench.person("member")]);
    assert_eq!(bench.desk.told.lock()[0].words, "Stopped.");
    let edited = Written { edits: Some(command.key.clone()), key: "2".into(), ..command };
    assert_eq!(bench.arrive(&[edited]).await, Arrived::Ignored);
    assert_eq!(bench.desk.stopped.lock().len(), 1);
}

/// Its words are in the place of those that nobody has read; of those that were read it is one more.
#[tokio::test]
async fn a_change_replaces_what_was_not_read_and_comes_behind_what_was() {
    let bench = Bench::new(Access::Pairing, &[]);
    let first = written("member", "I like coffee");
    assert!(matches!(bench.arrive(from_ref(&first)).await, Arrived::Accepted(_)));
    let change = |key: &str, text: &str| Written {
        edits: Some(first.key.clone()),
        key: key.into(),
        ..written("member", text)
    };
    for outcome in [Replaced::Done, Replaced::Same] {
        *bench.desk.replaced.lock() = Some(outcome);
        assert_eq!(bench.arrive(&[change("2", "I like tea")]).await, Arrived::Changed);
        assert_eq!(bench.desk.accepted.lock()[0].text, "I like tea");
    }
    *bench.desk.replaced.lock() = Some(Replaced::No);
    let arrived = bench.arrive(&[change("3", "I like milk")]).await;
    assert!(matches!(arrived, Arrived::Accepted(_)), "{arrived:?}");
    let accepted = bench.desk.accepted.lock();
    let texts: Vec<&str> = accepted.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["I like tea", "[edited] I like milk"]);
}

#[tokio::test]
async fn an_album_is_one_message_with_all_its_files() {
    let bench = Bench::new(Access::Pairing, &[]);
    for handle in ["a", "b"] {
        bench.desk.remote.lock().insert(handle.into(), handle.into());
    }
    let part = |key: &str, text: &str, handle: &str| Written {
        key: key.into(),
        files: vec![file(handle, None)],
        album: Some("77".into()),
        ..written("member", text)
    };
    let parts = [part("1", "our garden", "a"), part("2", "", "b")];
    assert!(matches!(bench.arrive(&parts).await, Arrived::Accepted(_)));
    let accepted = bench.desk.accepted.lock();
    assert_eq!(accepted[0].text, "our garden");
    let names: Vec<&str> = accepted[0].attachments.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a.pdf", "b.pdf"]);
    assert_eq!(accepted[0].external_id.as_deref(), Some("chat of member/album 77"));
    assert_eq!(*bench.desk.files.lock(), [b"a".to_vec(), b"b".to_vec()]);
}

#[tokio::test]
async fn what_is_to_vanish_is_noted_each_time_that_it_comes() {
    let bench = Bench::new(Access::Pairing, &[]);
    let soon = Some(Duration::from_secs(30));
    let burning = Written { vanishes_after: soon, ..written("member", "burn this") };
    let staying = Written { key: "2".into(), ..written("member", "keep this") };
    // A process may have died between the two steps.
    for message in [&burning, &burning, &staying] {
        bench.arrive(from_ref(message)).await;
    }
    assert_eq!(*bench.desk.vanishing.lock(), [Duration::from_secs(30); 2]);
    assert_eq!(bench.desk.accepted.lock().len(), 2);
}

#[tokio::test]
async fn a_file_that_cannot_be_had_is_told_and_one_that_can_be_later_is_waited_for() {
    let bench = Bench::new(Access::Pairing, &[]);
    let with = |handle: &str, size| Written {
        files: vec![file(handle, size)],
        ..written("owner", "look")
    };
    let platform: &dyn Listener = bench.desk.as_ref();
    let later = bench.arrivals.arrive(&bench.door, &[with("later", None)], platform, CODE).await;
    assert!(matches!(later, Err(ArriveError::Fetch(_))));
    assert_eq!(bench.desk.accepted.lock().len(), 0, "nothing is half done");
    assert!(matches!(bench.arrive(&[with("never", None)]).await, Arrived::Accepted(_)));
    let large = Written { key: "2".into(), ..with("large", Some(5_000)) };
    assert!(matches!(bench.arrive(&[large]).await, Arrived::Accepted(_)));
    let accepted = bench.desk.accepted.lock();
    assert_eq!(accepted[0].text, "look\n[the file never.pdf is missing: it is gone]");
    assert!(accepted[1].text.contains("[the file large.pdf is missing: it is larger than"));
    assert!(accepted.iter().all(|one| one.attachments.is_empty()));
}

/// Whoever sends many small files fills no disk.
#[tokio::test]
async fn the_files_of_a_person_within_a_day_are_limited() {
    let mut bench = Bench::new(Access::Pairing, &[]);
    bench.door.day_bytes = 2_500;
    for handle in ["a", "b", "c", "d"] {
        bench.desk.remote.lock().insert(handle.into(), vec![b'x'; 900]);
    }
    let with = |key: &str, handles: &[&str], size| Written {
        key: key.into(),
        files: handles.iter().map(|handle| file(handle, size)).collect(),
        ..written("owner", "look")
    };
    // Two fit, a third does not, whether the platform tells its size or not.
    assert!(matches!(
        bench.arrive(&[with("1", &["a", "b", "c"], None)]).await,
        Arrived::Accepted(_)
    ));
    assert!(matches!(bench.arrive(&[with("2", &["d"], Some(900))]).await, Arrived::Accepted(_)));
    let accepted = bench.desk.accepted.lock();
    let says = |at: usize, name: &str| {
        let found = &accepted[at].text;
        assert!(
            found.contains(&format!("[the file {name}.pdf is missing: with it more")),
            "{found}"
        );
    };
    says(0, "c");
    says(1, "d");
    assert_eq!(accepted[0].attachments.len(), 2);
    assert_eq!(bench.desk.files.lock().len(), 2);
}

#[tokio::test]
async fn a_message_does_not_wait_for_its_file_for_ever() {
    let mut bench = Bench::new(Access::Pairing, &[]);
    bench.door.waits_for_files = false;
    bench.desk.remote.lock().insert("lied".into(), vec![b'x'; 2_000]);
    let with = |key: &str, handle: &str, size| Written {
        key: key.into(),
        files: vec![file(handle, size)],
        ..written("owner", "look")
    };
    assert!(matches!(bench.arrive(&[with("1", "later", None)]).await, Arrived::Accepted(_)));
    // It is larger than the platform had told.
    assert!(matches!(bench.arrive(&[with("2", "lied", Some(10))]).await, Arrived::Accepted(_)));
    let accepted = bench.desk.accepted.lock();
    assert!(accepted[0].text.contains("[the file later.pdf is missing: "), "{}", accepted[0].text);
    assert!(accepted[1].text.contains("[the file lied.pdf is missing: it is larger than"));
    assert!(accepted.iter().all(|one| one.attachments.is_empty()));
}
