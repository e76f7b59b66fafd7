//! Every bad day, through a real connection.

use crate::support::{ask, client, hear, request, tools, user};
use famulus_core::message::{Part, PartBody};
use famulus_core::model::{Disposition, ModelError, ModelEvent, Usage};
use famulus_models::scripted::{Scenario, Script, Scripted, Step};
use futures::StreamExt as _;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn errors_say_what_they_are() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "api_key = 'sesame'");
    let check = async |day: Scenario, expected: &str, retry: bool| {
        let shown = format!("{day:?}");
        server.push(day);
        let heard = ask(&model, "hello").await;
        let error = heard.error.unwrap_or_else(|| panic!("{shown}: {:?}", heard.reply));
        assert!(format!("{error:?}").starts_with(expected), "{shown}: {error:?}");
        let retries = matches!(error.disposition(), Disposition::Retry { .. });
        assert_eq!(retries, retry, "{shown}: {error:?}");
    };
    for bytes in [0, 1, 100, 400, 700] {
        check(Scenario::Cut { bytes }, "Cut", true).await;
        check(Scenario::End { bytes }, "Cut", true).await;
    }
    let busy = |after: &str| Scenario::Busy { retry_after: after.into() };
    check(busy("7"), "Busy { status: 429, after: Some(7s) }", true).await;
    check(busy("Fri, 01 Jan 2100 00:00:00 GMT"), "Busy { status: 429, after: Some(86400s) }", true)
        .await;
    check(busy("later"), "Busy { status: 429, after: None }", true).await;
    check(Scenario::Status(503), "Busy { status: 503, after: None }", true).await;
    check(Scenario::Status(529), "Busy { status: 529, after: None }", true).await;
    check(Scenario::Status(500), "Failed { status: 500, message: \"a bad day (500)\" }", true)
        .await;
    check(Scenario::Status(401), "Unauthorized { status: 401 }", false).await;
    check(Scenario::Status(403), "Unauthorized { status: 403 }", false).await;
    for status in [400, 404, 413, 422] {
        let expected =
            format!("Rejected {{ status: {status}, message: \"a bad day ({status})\" }}");
        check(Scenario::Status(status), &expected, false).await;
    }
    check(Scenario::Malformed, "Malformed", true).await;
    check(Scenario::HugeLine, "Malformed { what: \"a line longer than 1 MiB\" }", true).await;
    check(Scenario::ErrorInStream, "Failed { status: 502, message: \"the worker died\" }", true)
        .await;
    check(Scenario::Page, "Rejected { status: 200", false).await;
    check(Scenario::Endless, "Rejected { status: 200", false).await;
    let elsewhere = server.base_url().to_string();
    check(Scenario::Redirect(elsewhere), "Rejected { status: 307", false).await;
    let quoting = serde_json::json!({"error": {"message": "bad: sesame"}});
    check(
        Scenario::Script(Script::json(400, &quoting)),
        "Rejected { status: 400, message: \"bad: [key]\" }",
        false,
    )
    .await;
    let hollow = serde_json::json!({"error": {"message": "no model", "code": 404}});
    check(Scenario::Script(Script::json(200, &hollow)), "Rejected { status: 404", false).await;
    let withheld = r#"data: {"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#;
    let steps = vec![Step::Send(format!("{withheld}\n\n").into())];
    check(Scenario::Script(Script::events(steps)), "Rejected { status: 200", false).await;
}

#[tokio::test]
async fn what_was_streamed_before_a_cut_was_given_out() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    server.push(Scenario::Cut { bytes: 600 });
    let heard = ask(&model, "hello").await;
    assert!(matches!(heard.error, Some(ModelError::Cut)), "{heard:?}");
    assert!(heard.text.starts_with("Hello!"), "{heard:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_key() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "api_key = 'sesame'");
    let url = server.base_url().to_string();
    drop(server);
    // The listener closes once its task has seen the end.
    let error = loop {
        match ask(&model, "hello").await.error {
            Some(error @ ModelError::Unreachable { .. }) => break error,
            _ => tokio::task::yield_now().await,
        }
    };
    let shown = format!("{error} {error:?}");
    assert!(shown.contains(&url) && !shown.contains("sesame"), "{shown}");
}

#[tokio::test]
async fn a_good_answer_on_a_bad_line_is_whole() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    let good = ask(&model, "hello").await;
    assert!(good.reply.as_ref().unwrap().usage.output_tokens.is_some());

    server.push(Scenario::Slow(Duration::from_millis(1)));
    let slow = ask(&model, "hello").await;
    assert_eq!(slow.text, good.text);
    assert_eq!(slow.reply.unwrap().parts, good.reply.unwrap().parts);

    server.push(Scenario::NoUsage);
    let uncounted = ask(&model, "hello").await;
    assert_eq!(uncounted.reply.unwrap().usage, Usage::default());

    server.push(Scenario::DuplicateIds(vec![
        ("get_time".into(), "{}".into()),
        ("get_time".into(), "{\"zone\":\"UTC\"}".into()),
    ]));
    let calls = ask(&model, "hello").await.reply.unwrap().parts;
    let id = |part: &Part| {
        let PartBody::ToolCall(call) = &part.body else { panic!("{part:?}") };
        call.id.clone()
    };
    assert_eq!(calls.iter().map(id).collect::<Vec<_>>(), ["call_same", "call_same_2"]);
}

#[tokio::test]
async fn silence_is_told_from_life_and_ends_with_the_listener() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    let text = || request(vec![user("hello")], tools());

    server.push(Scenario::Silent { pings: Some(Duration::from_millis(5)) });
    let mut events = model.ask(text());
    for _ in 0..4 {
        assert_eq!(events.next().await.unwrap().unwrap(), ModelEvent::Ping);
    }
    drop(events);
    server.wait_for_hang_up(1).await;

    server.push(Scenario::Silent { pings: None });
    let mut events = model.ask(text());
    assert_eq!(events.next().await.unwrap().unwrap(), ModelEvent::Ping);
    let silence = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    drop(events);
    server.wait_for_hang_up(2).await;

    server.push(Scenario::Deaf);
    let mut events = model.ask(text());
    tokio::select! {
        said = events.next() => panic!("{said:?}"),
        () = server.wait_for(3) => {}
    }
    let silence = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    drop(events);
    server.wait_for_hang_up(3).await;

    // A half-heard stream loses nothing: a wait that is given up can be taken up again.
    let gate = CancellationToken::new();
    server.push(Scenario::LateCall {
        after: gate.clone(),
        name: "get_time".into(),
        arguments: "{}".into(),
    });
    let mut events = model.ask(text());
    assert_eq!(events.next().await.unwrap().unwrap(), ModelEvent::Text("Let me think. ".into()));
    let silence = tokio::time::timeout(Duration::from_millis(20), events.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    gate.cancel();
    let rest: Vec<_> = events.map(Result::unwrap).collect().await;
    assert!(matches!(rest.last(), Some(ModelEvent::Done(reply)) if reply.parts.len() == 2));
}

#[tokio::test]
async fn a_call_after_the_end_of_interest_reaches_nobody() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    let gate = CancellationToken::new();
    let late =
        Scenario::LateCall { after: gate.clone(), name: "get_time".into(), arguments: "{}".into() };
    server.push(late);
    let mut events = model.ask(request(vec![user("hello")], tools()));
    assert!(events.next().await.is_some());
    drop(events);
    server.wait_for_hang_up(1).await;
    gate.cancel();
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_server_that_holds_the_line_behind_its_answer_is_not_waited_for() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    let end =
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    server.push(Scenario::Script(Script::events(vec![Step::Send(end.into()), Step::Hang])));
    let started = std::time::Instant::now();
    let heard = ask(&model, "hello").await;
    assert_eq!((heard.text.as_str(), heard.error.is_none()), ("a", true));
    assert!(started.elapsed() < Duration::from_secs(20));
    let done = format!("{end}data: [DONE]\n\n");
    server.push(Scenario::Script(Script::events(vec![Step::Send(done.into()), Step::Hang])));
    let started = std::time::Instant::now();
    assert!(ask(&model, "hello").await.reply.is_some());
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    for _ in 0..3 {
        assert!(ask(&model, "hello").await.error.is_none());
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn the_wrong_key_is_refused() {
    let server = Scripted::listen(0, Some("sesame")).await.unwrap();
    let heard = ask(&client(&server, "api_key = 'sesame'"), "hello").await;
    assert!(heard.error.is_none(), "{heard:?}");
    let heard = ask(&client(&server, "api_key = 'simsim'"), "hello").await;
    assert!(matches!(heard.error, Some(ModelError::Unauthorized { status: 401 })), "{heard:?}");
}

#[tokio::test]
async fn the_scripted_server_is_strict() {
    let server = Scripted::start().await.unwrap();
    let check = async |messages: &str, expected: &str| {
        let body = format!(
            r#"{{"model":"m","messages":{messages},"stream":true,"stream_options":{{"include_usage":true}}}}"#
        );
        let url = format!("{}/chat/completions", server.base_url());
        let answer = reqwest::Client::new().post(url).body(body).send().await.unwrap();
        let text = answer.text().await.unwrap();
        assert!(text.contains(expected), "{messages}: {text}");
    };
    let (u, a) = (r#"{"role":"user","content":"x"}"#, r#"{"role":"assistant","content":"x"}"#);
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"1","content":"x"}"#;
    let system = r#"{"role":"system","content":"x"}"#;
    check(&format!("[{u},{a},{a},{u}]"), "two assistant messages in a row").await;
    check(&format!("[{u},{a}]"), "the last message is the assistant's").await;
    check(&format!("[{u},{call},{u}]"), "a tool call has no result").await;
    check(&format!("[{u},{result}]"), "answers no call").await;
    check(&format!("[{u},{system}]"), "at the beginning").await;
    check(r#"[{"role":"user","content":"x"},{"role":"assistant","content":" "}]"#, "is empty")
        .await;
    check(&format!("[{system},{u},{call},{result},{a},{u}]"), "data: ").await;
    let whole = hear(&client(&server, ""), request(vec![user("x")], [].into())).await;
    assert!(whole.error.is_none(), "{whole:?}");
}
