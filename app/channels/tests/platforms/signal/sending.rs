//! What is sent, and what becomes of it on bad days.

use super::Bench;
use famulus_core::{
    ids::TurnId,
    outbound::{Channel as _, SendError},
};
use famulus_scripted_signal::{Fault, Message};
use serde_json::json;
use std::slice::from_ref;
use std::time::Duration;

async fn sent(bench: &Bench, markdown: &str) -> Result<Option<String>, SendError> {
    Ok(bench.channel.send(&bench.message(markdown), 0).await?.id)
}

fn styles(message: &Message) -> Vec<(&str, &str)> {
    message.styles.iter().map(|(kind, text)| (kind.as_str(), text.as_str())).collect()
}

#[tokio::test]
async fn a_text_arrives_with_its_styles() {
    let bench = Bench::new().await;
    let id = sent(&bench, "😀 **hot *green* tea**\n\n- `one`\n- [two](https://a.example)")
        .await
        .unwrap();
    let [message] = &bench.signal.sent_to(&bench.ada.id)[..] else { panic!("one message") };
    assert_eq!(id, Some(message.timestamp.to_string()));
    assert_eq!(message.text, "😀 hot green tea\n\n• one\n• two (https://a.example)");
    assert_eq!(
        styles(message),
        [("ITALIC", "green"), ("BOLD", "hot green tea"), ("MONOSPACE", "one")]
    );
}

#[tokio::test]
async fn a_long_text_is_one_message_and_a_very_long_one_is_cut() {
    let bench = Bench::new().await;
    let long = "word ".repeat(4_000);
    assert_eq!(bench.channel.pieces(&bench.message(&long)), 1);
    let very = "Some words in a line.\n\n".repeat(8_000);
    let message = bench.message(&very);
    let pieces = bench.channel.pieces(&message);
    assert!(pieces > 3, "{pieces}");
    for piece in 0..pieces {
        bench.channel.send(&message, piece).await.unwrap();
    }
    let arrived = bench.signal.sent_to(&bench.ada.id);
    assert!(arrived.iter().all(|one| one.text.len() <= 64 * 1024));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let all: Vec<String> = arrived.iter().flat_map(|one| words(&one.text)).collect();
    assert_eq!(all, words(&very));
}

#[tokio::test]
async fn files_go_with_their_names_and_a_voice_as_one() {
    let bench = Bench::new().await;
    let mut message = bench.message("Here you are.");
    message.attachments =
        vec![bench.files.keep("a tea; green.pdf", "application/pdf", vec![7; 100_000])];
    bench.channel.send(&message, 0).await.unwrap();
    message.attachments = vec![bench.files.keep("voice.ogg", "audio/ogg", vec![8; 1_000])];
    message.markdown = String::new();
    bench.channel.send(&message, 0).await.unwrap();
    let [pdf, voice] = &bench.signal.sent_to(&bench.ada.id)[..] else { panic!("two messages") };
    assert_eq!(
        (pdf.text.as_str(), pdf.files[0].name.as_str()),
        ("Here you are.", "a tea; green.pdf")
    );
    assert_eq!(
        (pdf.files[0].media_type.as_str(), pdf.files[0].bytes.len()),
        ("application/pdf", 100_000)
    );
    assert!(!pdf.is_voice && voice.is_voice);
    message.attachments =
        vec![bench.files.keep("large.bin", "application/octet-stream", vec![0; 15_000_000])];
    let refused = bench.channel.send(&message, 0).await.unwrap_err();
    assert!(
        matches!(&refused, SendError::Refused { reason, .. } if reason.contains("large.bin")),
        "{refused}"
    );
}

#[tokio::test]
async fn a_message_is_changed_in_its_place() {
    let bench = Bench::new().await;
    let id = sent(&bench, "May I?").await.unwrap().unwrap();
    for _ in 0..2 {
        bench.channel.edit(&bench.message("**Approved**"), from_ref(&id)).await.unwrap();
    }
    let [message] = &bench.signal.sent_to(&bench.ada.id)[..] else { panic!("one message") };
    assert_eq!(
        (message.text.as_str(), message.edits),
        ("Approved", 1),
        "the second finds what is changed"
    );
}

#[tokio::test]
async fn whoever_waits_sees_that_somebody_writes() {
    let bench = Bench::new().await;
    let to = bench.message("").to;
    bench.channel.grow(&to, TurnId::new(), "so far").await.unwrap();
    assert_eq!(bench.signal.typing(), from_ref(&bench.ada.id));
}

/// Whose account it is is asked first, and of that nothing goes out.
#[tokio::test]
async fn what_breaks_before_a_message_leaves_is_no_doubt_about_it() {
    for (method, fault) in [
        ("listAccounts", Fault::CutAfter),
        ("getUserStatus", Fault::Malformed),
        ("getUserStatus", Fault::Refused(-3, "network".into(), json!({}))),
    ] {
        let bench = Bench::new().await;
        bench.signal.fault(method, fault.clone());
        let error = sent(&bench, "hello").await.unwrap_err();
        assert!(matches!(error, SendError::NotSent { .. }), "{method} {fault:?}: {error:?}");
        assert_eq!(bench.signal.sent(), []);
        sent(&bench, "hello").await.unwrap();
    }
}

#[derive(Debug, PartialEq)]
enum Fate {
    Later(Option<Duration>),
    Unknown,
    Never,
    Closed,
}

#[tokio::test]
async fn what_becomes_of_a_message_is_told_apart() {
    let bench = Bench::new().await;
    let fate = async |fault: Option<Fault>| {
        if let Some(fault) = fault {
            bench.signal.fault("send", fault);
        }
        match sent(&bench, "hello").await {
            Ok(_) => panic!("it was sent"),
            Err(SendError::NotSent { after, .. }) => Fate::Later(after),
            Err(SendError::Unknown { .. }) => Fate::Unknown,
            Err(SendError::Refused { .. }) => Fate::Never,
            Err(SendError::Unreachable { .. }) => Fate::Closed,
        }
    };
    let minute = Some(Duration::from_mins(1));
    let nothing = json!({});
    let cases = [
        (Fault::CutBefore, Fate::Unknown),
        (Fault::CutAfter, Fate::Unknown),
        (Fault::Malformed, Fate::Unknown),
        (Fault::Status(502), Fate::Unknown),
        (Fault::Status(421), Fate::Later(None)),
        (Fault::undelivered(-1, "NETWORK_FAILURE", nothing.clone()), Fate::Unknown),
        (Fault::undelivered(-1, "UNREGISTERED_FAILURE", nothing.clone()), Fate::Closed),
        (Fault::undelivered(-4, "IDENTITY_FAILURE", nothing.clone()), Fate::Never),
        (Fault::undelivered(-1, "INVALID_PRE_KEY_FAILURE", nothing.clone()), Fate::Later(None)),
        (
            Fault::undelivered(-5, "RATE_LIMIT_FAILURE", json!({"retryAfterSeconds": 77})),
            Fate::Later(Some(Duration::from_secs(77))),
        ),
        (Fault::undelivered(-5, "RATE_LIMIT_FAILURE", json!({"token": "t"})), Fate::Later(minute)),
        (
            Fault::Refused(-32602, "Specified account does not exist".into(), nothing.clone()),
            Fate::Later(minute),
        ),
        (Fault::Refused(-32603, "timeout (IOException)".into(), nothing.clone()), Fate::Unknown),
        (
            Fault::Refused(-32603, "x (AttachmentInvalidException)".into(), nothing.clone()),
            Fate::Never,
        ),
        (Fault::Refused(-3, "network".into(), nothing.clone()), Fate::Unknown),
        (Fault::Refused(-1, "Invalid style string".into(), nothing), Fate::Never),
    ];
    for (fault, expected) in cases {
        let found = fate(Some(fault.clone())).await;
        assert_eq!(found, expected, "{fault:?}");
    }
    bench.signal.leaves(&bench.ada);
    assert_eq!(fate(None).await, Fate::Closed);
    bench.signal.set_accounts(&[]);
    assert_eq!(fate(None).await, Fate::Later(minute));
    let away = Bench::new().await;
    away.signal.stop().await;
    let error = sent(&away, "hello").await.unwrap_err();
    assert!(matches!(error, SendError::NotSent { after: None, .. }), "{error:?}");
}
