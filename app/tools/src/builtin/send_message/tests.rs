use crate::fixture::Bench;
use famulus_core::ids::BlobId;
use famulus_core::inbound::Address;
use famulus_core::message::Provenance;
use famulus_core::post::{Enclosed, Recipient};
use famulus_core::tool::Verdict;
use serde_json::json;

fn chat() -> Address {
    Address {
        channel: "telegram".into(),
        account: "99".into(),
        chat: "7".into(),
        thread: None,
        reply_to: None,
    }
}

#[tokio::test]
async fn whoever_asks_gets_it_in_the_chat_that_asked_else_at_home() {
    let mut bench = Bench::new();
    let id = BlobId::new();
    let files = json!([{"id": id.to_string(), "name": "cat.png"}]);
    let send = json!({"action": "send", "files": files});
    let told = bench.done("send_message", send.clone()).await;
    assert_eq!(told, json!({"on_its_way": {"channel": "telegram", "to": "Ada"}}));
    bench.context.origin = Some(chat());
    bench.done("send_message", send).await;
    let letters = bench.post.letters.lock().clone();
    let to: Vec<&Recipient> = letters.iter().map(|letter| &letter.to).collect();
    assert_eq!(to, [&Recipient::Themselves, &Recipient::Here(chat())]);
    for letter in &letters {
        let enclosed = [Enclosed { id, name: Some("cat.png".into()) }];
        assert_eq!((letter.files.as_slice(), letter.may_be_first), (&enclosed[..], false));
        assert_eq!((letter.markdown.as_str(), letter.from.name.as_str()), ("", "Ada"));
        // Files do not go by words alone.
        assert_eq!(letter.ways.len(), 1);
    }
}

#[tokio::test]
async fn somebody_else_is_written_to_first_when_the_owner_says_yes() {
    let mut bench = Bench::new();
    let send = json!({"action": "send", "to": "Bob", "text": "dinner is ready"});
    let error = bench.error("send_message", send.clone()).await;
    assert!(error.contains("`Bob` was not written to before") && error.contains("send_first"));
    let first = json!({"action": "send_first", "to": "Bob", "text": "dinner is ready"});
    let call = crate::fixture::call_of("send_message", &first.to_string());
    let Verdict::Ask { summary, .. } = bench.check(&call).unwrap().plan().verdict else {
        panic!("nobody is asked")
    };
    assert_eq!(summary, "write to Bob for the first time: \"dinner is ready\"");
    bench.done("send_message", first).await;
    bench.done("send_message", send.clone()).await;
    bench.context.began_by = Provenance::Contact;
    let error = bench.error("send_message", send).await;
    assert!(error.contains("nobody else is written to"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_sent_is_said() {
    let mut bench = Bench::new();
    let many = vec![json!({"id": BlobId::new().to_string()}); 11];
    let cases = [
        (json!({"action": "send"}), "there is nothing to send"),
        (json!({"action": "send", "text": "  "}), "there is nothing to send"),
        (json!({"action": "send", "text": "a", "channel": "pigeon"}), "are: telegram, words"),
        (json!({"action": "send", "text": "a\u{0}"}), "U+0000"),
        (json!({"action": "send", "text": "a".repeat(20_001)}), "at most 20000"),
        (json!({"action": "send", "files": [{"id": "cat.png"}]}), "is no id of a file"),
        (json!({"action": "send", "files": many}), "11 files are too many"),
    ];
    for (arguments, words) in cases {
        let error = bench.error("send_message", arguments.clone()).await;
        assert!(error.contains(words), "{arguments}: {error}");
    }
    let files = json!([{"id": BlobId::new().to_string()}]);
    let by_words = json!({"action": "send", "channel": "words", "files": files});
    let error = bench.error("send_message", by_words).await;
    assert!(error.contains("no file can go there"), "{error}");
    let nobody = json!({"action": "send_first", "text": "a"});
    let error = bench.check(&crate::fixture::call_of("send_message", &nobody.to_string()));
    let Verdict::Refuse(why) = error.unwrap().plan().verdict else { panic!("it is not refused") };
    assert!(why.text().contains("`to` is missing"), "{why:?}");
}
