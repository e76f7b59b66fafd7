//! Messages of ours on their way, on good days and bad ones.

use super::bench::{Bench, channel};
use bytes::Bytes;
use famulus_core::{
    ids::TurnId,
    inbound::Address,
    outbound::{Button, Channel as _, Outbound, SendError},
};
use famulus_scripted_telegram::{Chat, Fault, Kind};
use std::time::Duration;

async fn send_all(bench: &Bench, message: &Outbound) -> Vec<String> {
    let mut ids = Vec::new();
    for piece in 0..bench.channel.pieces(message) {
        ids.push(bench.channel.send(message, piece).await.unwrap().id.unwrap());
    }
    ids
}

#[tokio::test]
async fn a_reply_arrives_with_its_styles_and_its_id() {
    let bench = Bench::new().await;
    let ids = send_all(&bench, &bench.message("**Tea** is `ready`, <Ada> & co.")).await;
    let sent = bench.telegram.sent_to(7);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].text, "Tea is ready, <Ada> & co.");
    assert_eq!(ids, [sent[0].id.to_string()]);
    let kinds: Vec<&str> = sent[0].entities.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["bold", "code"]);
}

#[tokio::test]
async fn a_long_reply_is_cut_at_its_seams() {
    let bench = Bench::new().await;
    let paragraph = "It was a dark and stormy night, and the kettle sang. ".repeat(30);
    let message = bench.message(&[paragraph.trim(); 6].join("\n\n"));
    assert_eq!(bench.channel.pieces(&message), 3);
    send_all(&bench, &message).await;
    let sent = bench.telegram.sent_to(7);
    let whole = sent.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("\n\n");
    assert_eq!(whole, message.markdown);
}

#[tokio::test]
async fn a_reply_goes_to_its_topic_and_behind_what_it_answers() {
    let bench = Bench::new().await;
    let mut message = bench.message("here");
    message.to = Address { thread: Some("4".into()), reply_to: Some("1".into()), ..message.to };
    send_all(&bench, &message).await;
    let sent = bench.telegram.sent_to(7).remove(0);
    assert_eq!((sent.thread, sent.reply_to), (Some(4), Some(1)));
    // The topic that a forum begins with cannot be named.
    message.to.thread = Some("1".into());
    send_all(&bench, &message).await;
    assert_eq!(bench.telegram.sent_to(7)[1].thread, None);
}

#[tokio::test]
async fn a_file_is_sent_as_what_it_is_with_what_is_said_of_it() {
    let bench = Bench::new().await;
    let check = async |mime: &str, field: &str| {
        let bytes = Bytes::from(vec![7; 5_000]);
        let file = bench.files.keep("a name.bin", mime, bytes.clone());
        let message = Outbound { attachments: vec![file], ..bench.message("**Look**") };
        assert_eq!(bench.channel.pieces(&message), 1);
        send_all(&bench, &message).await;
        let sent = bench.telegram.sent_to(7).pop().unwrap();
        let kind = Kind::File {
            field: field.into(),
            name: "a name.bin".into(),
            media_type: mime.into(),
            bytes,
        };
        assert_eq!((sent.text.as_str(), sent.kind), ("Look", kind));
        assert_eq!(sent.entities[0].kind, "bold");
    };
    check("image/png", "photo").await;
    check("audio/ogg", "voice").await;
    check("audio/mpeg", "audio").await;
    check("video/mp4", "video").await;
    check("application/pdf", "document").await;
    // What is too long to stand below it comes before it, and several files one by one.
    let file = |name: &str| bench.files.keep(name, "text/plain", "x");
    let long = Outbound { attachments: vec![file("a")], ..bench.message(&"tea ".repeat(400)) };
    assert_eq!(bench.channel.pieces(&long), 2);
    let two = Outbound { attachments: vec![file("a"), file("b")], ..bench.message("both") };
    assert_eq!(bench.channel.pieces(&two), 3);
    let silent = Outbound { attachments: vec![file("a")], ..bench.message("") };
    send_all(&bench, &silent).await;
    assert_eq!(bench.telegram.sent_to(7).pop().unwrap().text, "");
}

#[tokio::test]
async fn what_was_not_sent_is_told_from_what_may_have_been() {
    let bench = Bench::new().await;
    let fate = async |fault: Fault| {
        bench.telegram.fault("sendmessage", fault);
        let before = bench.telegram.sent_to(7).len();
        let error = bench.channel.send(&bench.message("tea"), 0).await.unwrap_err();
        let said = error.to_string();
        assert!(!said.contains("secret") && !said.contains("127.0.0.1"), "{said}");
        let arrived = bench.telegram.sent_to(7).len() - before;
        match error {
            SendError::NotSent { after, .. } => (format!("not sent {after:?}"), arrived),
            SendError::Unknown { .. } => ("unknown".to_owned(), arrived),
            SendError::Refused { reason, .. } => (format!("refused: {reason}"), arrived),
            SendError::Unreachable { reason, .. } => (format!("unreachable: {reason}"), arrived),
        }
    };
    let told = |fate: &str| (fate.to_owned(), 0);
    assert_eq!(fate(Fault::Busy(7)).await, told("not sent Some(7s)"));
    assert_eq!(fate(Fault::Refused(500, "Internal".into())).await, told("not sent None"));
    assert_eq!(fate(Fault::Status(502)).await, told("unknown"));
    assert_eq!(fate(Fault::CutBefore).await, told("unknown"));
    assert_eq!(fate(Fault::CutAfter).await, ("unknown".to_owned(), 1));
    assert_eq!(fate(Fault::Malformed).await, ("unknown".to_owned(), 1));
    let blocked = Fault::Refused(403, "Forbidden: bot was blocked by the user".into());
    let unreachable = "unreachable: Forbidden: bot was blocked by the user";
    assert_eq!(fate(blocked).await, told(unreachable));
    assert_eq!(fate(Fault::Refused(401, "Unauthorized".into())).await, told("not sent Some(60s)"));
    let nobody = channel("http://127.0.0.1:1", "1:x", &bench.files);
    let away = nobody.send(&bench.message("tea"), 0).await.unwrap_err();
    assert!(matches!(away, SendError::NotSent { after: None, .. }), "{away}");
}

#[tokio::test]
async fn a_rendering_that_is_refused_goes_as_plain_text() {
    let bench = Bench::new().await;
    let refusal = "Bad Request: can't parse entities: byte offset 3";
    bench.telegram.fault("sendmessage", Fault::Refused(400, refusal.into()));
    send_all(&bench, &bench.message("**Tea** & *more*")).await;
    let sent = bench.telegram.sent_to(7).remove(0);
    assert_eq!((sent.text.as_str(), sent.entities.len()), ("Tea & more", 0));
}

#[tokio::test]
async fn what_goes_to_a_group_that_became_another_arrives_there() {
    let bench = Bench::new().await;
    let (old, new) = (Chat::group(-4, "Tea"), Chat::group(-1_004, "Tea"));
    bench.telegram.write(&bench.ada, &old, "hello");
    bench.telegram.migrate(&bench.ada, &old, &new);
    let mut message = bench.message("good day");
    message.to.chat = old.id.to_string();
    send_all(&bench, &message).await;
    assert_eq!(bench.telegram.sent_to(old.id), []);
    assert_eq!(bench.telegram.sent_to(new.id)[0].text, "good day");
}

#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    let bench = Bench::new().await;
    bench.telegram.fault("sendmessage", Fault::Slow(Duration::from_secs(2)));
    send_all(&bench, &bench.message("tea")).await;
    assert_eq!(bench.telegram.sent_to(7).len(), 1);
}

#[tokio::test]
async fn files_that_are_gone_or_too_large_are_refused_by_name() {
    let bench = Bench::new().await;
    let mut file = bench.files.keep("report.pdf", "application/pdf", "x");
    file.blob.id = famulus_core::ids::BlobId::new();
    let gone = Outbound { attachments: vec![file], ..bench.message("") };
    let error = bench.channel.send(&gone, 0).await.unwrap_err().to_string();
    assert!(error.contains("`report.pdf` is gone"), "{error}");
}

/// A question: its buttons stand under it until something takes its place.
#[tokio::test]
async fn buttons_stand_under_the_last_words_until_these_are_changed() {
    let bench = Bench::new().await;
    let button = |text: &str| Button { text: text.into(), data: format!("/{text} CODE") };
    let question = Outbound {
        buttons: vec![button("yes"), button("no")],
        ..bench.message(&"May I? ".repeat(1_000))
    };
    let mut ids = Vec::new();
    for piece in 0..bench.channel.pieces(&question) {
        ids.extend(bench.channel.send(&question, piece).await.unwrap().id);
    }
    let sent = bench.telegram.sent_to(7);
    assert_eq!(sent.len(), 2);
    assert!(sent[0].buttons.is_empty());
    let pair = |text: &str| (text.to_owned(), format!("/{text} CODE"));
    assert_eq!(sent[1].buttons, [[pair("yes"), pair("no")]]);
    let answer = bench.message("**Approved** by Ada");
    for _ in 0..2 {
        // Whoever died behind it does it again.
        bench.channel.edit(&answer, &ids).await.unwrap();
    }
    let closed = &bench.telegram.sent_to(7)[1];
    assert_eq!((closed.text.as_str(), closed.edits), ("Approved by Ada", 1));
    assert!(closed.buttons.is_empty());
    // Nobody knows whether the question arrived.
    bench.channel.edit(&answer, &[]).await.unwrap();
    let gone = bench.channel.edit(&answer, &["999".to_owned()]).await.unwrap_err();
    assert!(matches!(gone, SendError::Refused { .. }), "{gone}");
}

#[tokio::test]
async fn a_reply_is_shown_while_it_grows_and_an_older_server_is_told_that_somebody_writes() {
    let bench = Bench::new().await;
    let (to, turn) = (bench.message("").to, TurnId::new());
    bench.channel.grow(&to, turn, "").await.unwrap();
    assert_eq!(bench.telegram.actions(), [(7, "typing".to_owned())]);
    bench.channel.grow(&to, turn, "**One** two").await.unwrap();
    let long = "tea ".repeat(2_000);
    bench.channel.grow(&to, turn, &long).await.unwrap();
    let drafts = bench.telegram.drafts();
    assert_eq!(drafts[0], (7, "One two".to_owned()));
    assert!(long.ends_with(&format!("{} ", drafts[1].1.trim())), "the end of it is shown");
    let busy = Fault::Busy(3);
    bench.telegram.fault("sendmessagedraft", busy);
    let later = bench.channel.grow(&to, turn, "more").await.unwrap_err();
    assert!(matches!(later, SendError::NotSent { after: Some(_), .. }), "{later}");
    let older = Fault::Refused(404, "Not Found: method not found".into());
    bench.telegram.fault("sendmessagedraft", older);
    bench.channel.grow(&to, turn, "more").await.unwrap();
    bench.channel.grow(&to, turn, "and more").await.unwrap();
    assert_eq!(bench.telegram.actions().len(), 3);
    assert_eq!(bench.telegram.drafts().len(), 2);
    assert_eq!(bench.telegram.sent_to(7), [], "none of it is a message");
}
