//! What goes out and what comes back on good days.

use crate::support::{Files, ask, client, events, hear, kept, message, request, tools, user};
use famulus_core::message::{
    FilePart, MessageRole, Part, PartBody, Provenance, Sentinel, ToolCall, ToolResult, visible_text,
};
use famulus_core::model::{Model, ModelError, Usage};
use famulus_core::tool::ToolOutput;
use famulus_models::scripted::{Scenario, Script, Scripted, Step};
use serde_json::json;
use std::sync::Arc;

fn sent(server: &Scripted) -> String {
    String::from_utf8(server.received().pop().unwrap().body).unwrap()
}

#[tokio::test]
async fn a_request_is_these_bytes() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "api_key = 'sesame'\nheaders = { X-Title = 'home' }");
    let one = || request(vec![user("hi")], tools()[..1].into());
    let heard = hear(&model, one()).await;
    assert!(heard.error.is_none(), "{heard:?}");
    let expected = concat!(
        r#"{"model":"m","messages":[{"role":"system","content":"be kind"},"#,
        r#"{"role":"system","content":"memory: tea"},{"role":"user","content":"hi"}],"#,
        r#""tools":[{"type":"function","function":{"name":"get_time","description":"d","#,
        r#""parameters":{"type":"object","properties":{"zone":{"type":"string"}}}}}],"#,
        r#""stream":true,"stream_options":{"include_usage":true}}"#,
    );
    assert_eq!(sent(&server), expected);
    let received = server.received().pop().unwrap();
    assert_eq!(received.path, "/v1/chat/completions");
    assert_eq!(received.header("authorization"), Some("Bearer sesame"));
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(received.header("accept"), Some("text/event-stream"));
    assert_eq!(received.header("x-title"), Some("home"));

    let mut named = one();
    named.model = Some("other".into());
    named.context = String::new();
    named.tools = [].into();
    hear(&model, named).await;
    assert_eq!(
        sent(&server),
        r#"{"model":"other","messages":[{"role":"system","content":"be kind"},{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}"#
    );

    let joined = client(&server, "system_prompt = 'joined'");
    hear(&joined, request(vec![user("hi")], [].into())).await;
    assert!(sent(&server).contains(r#"[{"role":"system","content":"be kind\n\nmemory: tea"},{"#));
}

#[tokio::test]
async fn an_answer_comes_back_whole() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    server.push(events(&[
        r#"{"model":"m-2026","choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"Let me "},"finish_reason":""}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"think."}}]}"#,
        r#"{"choices":[{"delta":{"content":"Grüß"}}]}"#,
        r#"{"choices":[{"delta":{"content":" dich"},"finish_reason":"eos_token"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#,
        "[DONE]",
    ]));
    let heard = ask(&model, "hi").await;
    let reply = heard.reply.unwrap();
    assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), ("Grüß dich", "Let me think."));
    assert_eq!(reply.model, "m-2026");
    assert_eq!(reply.usage, Usage { input_tokens: Some(7), output_tokens: Some(3) });
    let thought = PartBody::Reasoning { text: "Let me think.".into() };
    assert_eq!(
        reply.parts,
        [Part::new(thought, Provenance::Assistant), Part::assistant_text("Grüß dich")]
    );
    let blocks = reply.blocks.unwrap();
    assert_eq!(blocks.provider, "openai@127.0.0.1");
    assert_eq!(
        String::from_utf8(blocks.bytes).unwrap(),
        r#"{"role":"assistant","content":"Grüß dich","reasoning_content":"Let me think."}"#
    );
}

#[tokio::test]
async fn calls_come_back_and_are_replayed_byte_for_byte() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    server.push(events(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"get_"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"time","arguments":"{\"zone\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","extra_content":{"z":"signature","a":1}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":" \"UTC\"}"}}]},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ]));
    let heard = ask(&model, "what time is it?").await;
    let reply = heard.reply.unwrap();
    assert_eq!(heard.calling, ["get_time", "get_time"]);
    assert_eq!(reply.usage, Usage::default());
    let call = |id: &str, arguments: &str| {
        Part::call(ToolCall { id: id.into(), name: "get_time".into(), arguments: arguments.into() })
    };
    assert_eq!(reply.parts, [call("a", "{\"zone\": \"UTC\"}"), call("b", "{}")]);
    let bytes = String::from_utf8(reply.blocks.as_ref().unwrap().bytes.clone()).unwrap();
    assert_eq!(
        bytes,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"get_time","arguments":"{\"zone\": \"UTC\"}"},"extra_content":{"z":"signature","a":1}},{"id":"b","type":"function","function":{"name":"get_time","arguments":"{}"}}]}"#
    );

    let result = |id: &str| {
        Part::result(ToolResult {
            call_id: id.into(),
            name: "get_time".into(),
            output: ToolOutput::Json("{\"time\":\"now\"}".into()),
        })
    };
    let results = message(MessageRole::Tool, vec![result("a"), result("b")]);
    let history = vec![user("what time is it?"), kept(&reply), results];
    let heard = hear(&model, request(history.clone(), tools())).await;
    assert!(heard.error.is_none(), "{heard:?}");
    let first = sent(&server);
    assert!(first.contains(&bytes), "{first}");
    hear(&model, request(history, tools())).await;
    assert_eq!(sent(&server), first, "the same question is the same bytes");
}

#[tokio::test]
async fn servers_that_do_less_are_understood() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    let check = async |day: Scenario, text: &str| {
        server.push(day);
        let heard = ask(&model, "hi").await;
        assert!(heard.error.is_none(), "{heard:?}");
        assert_eq!(heard.text, text);
        assert_eq!(visible_text(&heard.reply.unwrap().parts), text);
    };
    let a = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    // No reason but an end; a reason but no end; neither blank line nor usage behind the last.
    check(events(&[a, "[DONE]"]), "a").await;
    check(events(&[a, stop]), "a").await;
    let ragged = format!("\u{feff}: hi\r\n\r\ndata:{a}\r\n\r\ndata: {stop}\r\n\r\ndata: [DONE]");
    check(Scenario::Script(Script::events(vec![Step::Send(ragged.into())])), "a").await;
    // A connection that breaks behind the end.
    let end = format!("data: {a}\n\ndata: {stop}\n\n");
    let steps = vec![Step::Send(end.into()), Step::Reset];
    check(Scenario::Script(Script::events(steps)), "a").await;
    // The whole answer at once.
    let whole = json!({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]});
    check(Scenario::Script(Script::json(200, &whole)), "a").await;
    // No content type.
    let untyped = format!("data: {a}\n\ndata: [DONE]\n\n");
    let script = Script { status: 200, headers: vec![], steps: vec![Step::Send(untyped.into())] };
    check(Scenario::Script(script), "a").await;
}

#[tokio::test]
async fn every_cut_of_the_bytes_reads_alike() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    let whole = concat!(
        "data: {\"choices\":[{\"delta\":{\"content\":\"Grüß \"}}]}\r\n\r\n: ping\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"<tool_\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"call>{\\\"name\\\":\\\"get_time\\\"}</tool_call>\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n"
    )
    .as_bytes();
    for cut in (0..whole.len()).step_by(7) {
        let (head, tail) = whole.split_at(cut);
        server.push(Scenario::Script(Script::events(vec![
            Step::Send(head.to_vec().into()),
            Step::Pause(std::time::Duration::from_millis(1)),
            Step::Send(tail.to_vec().into()),
        ])));
        let heard = ask(&model, "hi").await;
        let reply = heard.reply.unwrap_or_else(|| panic!("{cut}: {:?}", heard.error));
        assert_eq!((heard.text.as_str(), heard.pings), ("Grüß ", 2), "cut at {cut}");
        assert_eq!(reply.parts.len(), 2, "cut at {cut}");
    }
}

#[tokio::test]
async fn calls_in_the_text_are_obeyed_by_dialect() {
    let server = Scripted::start().await.unwrap();
    let text = r#"{"choices":[{"delta":{"content":"I look. <tool_call>{\"name\":\"get_time\",\"arguments\":{\"zone\":\"UTC\"}}</tool_call>"},"finish_reason":"stop"}]}"#;
    let raw =
        "I look. <tool_call>{\"name\":\"get_time\",\"arguments\":{\"zone\":\"UTC\"}}</tool_call>";

    server.push(events(&[text]));
    let heard = ask(&client(&server, "tool_dialect = 'native'"), "hi").await;
    assert_eq!((heard.text.as_str(), heard.calling.len()), (raw, 0));

    server.push(events(&[text]));
    let heard = ask(&client(&server, "tool_dialect = 'auto'"), "hi").await;
    assert_eq!(heard.text, "I look. ");
    assert_eq!(heard.calling, ["get_time"]);
    let reply = heard.reply.unwrap();
    let PartBody::ToolCall(call) = &reply.parts[1].body else { panic!("{reply:?}") };
    assert_eq!(call.arguments, "{\"zone\":\"UTC\"}");
    assert!(call.id.starts_with("call_"));
    let bytes = String::from_utf8(reply.blocks.unwrap().bytes).unwrap();
    assert!(
        bytes.starts_with(r#"{"role":"assistant","content":"I look. ","tool_calls":["#),
        "{bytes}"
    );

    let xml = client(&server, "tool_dialect = 'xml'");
    server.push(events(&[text]));
    let heard = ask(&xml, "hi").await;
    assert_eq!(heard.calling, ["get_time"]);
    let first = server.received().pop().unwrap().json();
    assert!(first.get("tools").is_none());
    let system = first["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("be kind\n\nYou can use the tools"), "{system}");
    assert!(
        system.contains("{\"name\":\"get_time\",\"description\":\"d\",\"schema\":{"),
        "{system}"
    );
    let reply = heard.reply.unwrap();
    assert_eq!(reply.blocks.as_ref().unwrap().provider, "openai-xml");
    let PartBody::ToolCall(call) = &reply.parts[1].body else { panic!("{reply:?}") };
    let result = Part::result(ToolResult {
        call_id: call.id.clone(),
        name: "get_time".into(),
        output: ToolOutput::Json("{\"time\":1}".into()),
    });
    let history = vec![user("hi"), kept(&reply), message(MessageRole::Tool, vec![result])];
    let heard = hear(&xml, request(history, tools())).await;
    assert!(heard.error.is_none(), "{heard:?}");
    let messages = server.received().pop().unwrap().json()["messages"].clone();
    assert_eq!(
        messages.as_array().unwrap()[3..],
        [
            json!({"role": "assistant", "content": raw}),
            json!({"role": "user", "content":
                "<tool_response name=\"get_time\">\n{\"time\":1}\n</tool_response>"}),
        ]
    );
}

#[tokio::test]
async fn files_are_read_while_the_body_is_made() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    let files = Files::default();
    let small = files.add("image/png", b"abcde", 5);
    let wav = files.add("audio/wav", b"xyz", 3);
    let huge = files.add("image/png", b"", 30 << 20);
    let gone =
        famulus_core::blob::BlobRef { id: famulus_core::ids::BlobId::new(), ..small.clone() };
    let files = Arc::new(files);
    let look = |bodies: Vec<PartBody>| {
        let mut parts = user("look").parts.clone();
        parts.extend(bodies.into_iter().map(|body| Part::new(body, Provenance::Owner)));
        message(MessageRole::User, parts)
    };
    let image = |blob: &famulus_core::blob::BlobRef, name: &str| {
        PartBody::Image(FilePart::new(blob.clone(), name))
    };
    let with = |messages| {
        let blobs: Arc<dyn famulus_core::blob::Blobs> = files.clone();
        famulus_core::model::ModelRequest { blobs, ..request(messages, [].into()) }
    };

    let audio = PartBody::Audio(FilePart::new(wav.clone(), "a.wav"));
    let heard = hear(&model, with(vec![look(vec![image(&small, "a.png"), audio])])).await;
    assert!(heard.error.is_none(), "{heard:?}");
    assert_eq!(
        server.received().pop().unwrap().json()["messages"][2]["content"],
        json!([
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJjZGU="}},
            {"type": "input_audio", "input_audio": {"data": "eHl6", "format": "wav"}},
        ])
    );

    // A new file that is too large is an error that names it; an old one is only named.
    let heard = hear(&model, with(vec![look(vec![image(&huge, "huge.png")])])).await;
    let error = heard.error.unwrap().to_string();
    assert!(error.contains("`huge.png` has 31457280 bytes"), "{error}");
    let old = vec![
        look(vec![image(&huge, "huge.png"), image(&gone, "gone.png")]),
        message(MessageRole::Assistant, vec![Part::assistant_text("too large")]),
        user("so be it"),
    ];
    let heard = hear(&model, with(old)).await;
    assert!(heard.error.is_none(), "{heard:?}");
    let body = sent(&server);
    assert!(body.contains("huge.png") && body.contains("it is not stored any more"), "{body}");

    let down: Arc<dyn famulus_core::blob::Blobs> =
        Arc::new(Files { down: true, ..Files::default() });
    let asked = vec![look(vec![image(&small, "a.png")])];
    let mut failing = request(asked, [].into());
    failing.blobs = down;
    let heard = hear(&model, failing).await;
    assert!(matches!(heard.error, Some(ModelError::Failed { .. })), "{heard:?}");
}

#[tokio::test]
async fn a_whole_conversation_goes_over_the_wire() {
    for (day, dialect) in
        [(Scenario::Demo, "native"), (Scenario::DemoXml, "auto"), (Scenario::Whole, "auto")]
    {
        let server = Scripted::start().await.unwrap();
        server.otherwise(day);
        let model = client(&server, &format!("tool_dialect = '{dialect}'"));
        let mut history = vec![user("remember that my cat is called Miso and tell me the time")];
        let reply = hear(&model, request(history.clone(), tools())).await.reply.unwrap();
        history.push(kept(&reply));
        let mut names = Vec::new();
        let results = reply.parts.iter().filter_map(|part| {
            let PartBody::ToolCall(call) = &part.body else { return None };
            names.push(call.name.clone());
            let output = match call.name.as_str() {
                "get_time" => ToolOutput::Json(
                    json!({"time": "2026-11-21T10:00:00+00:00", "zone": "UTC"}).to_string(),
                ),
                _ => ToolOutput::Error("the store is full".into()),
            };
            let (call_id, name) = (call.id.clone(), call.name.clone());
            Some(Part::result(ToolResult { call_id, name, output }))
        });
        history.push(message(MessageRole::Tool, results.collect()));
        assert_eq!(names, ["manage_knowledge", "get_time"]);
        let heard = hear(&model, request(history, tools())).await;
        assert_eq!(
            heard.text,
            "That did not work: the store is full\n\nIt is 10:00 on Saturday, 21 November 2026 (UTC)."
        );
        assert!(heard.reply.unwrap().usage.input_tokens.is_some());
    }
}

/// What the turn loop sends around a conversation reaches the demo model as it is meant.
#[tokio::test]
async fn notes_of_the_installation_are_no_questions() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    let said = |text: &str| {
        user(&format!(
            "Time: Sat 2026-11-21 11:00:00 +01:00\nSource: http\nSender: o\nText: {text}"
        ))
    };
    let whole = hear(&model, request(vec![said("hello")], tools())).await.text;
    let cut = vec![
        said("hello"),
        message(
            MessageRole::Assistant,
            vec![Part::assistant_text(&whole[..30]), Part::sentinel(Sentinel::Interrupted)],
        ),
    ];
    assert_eq!(hear(&model, request(cut, tools())).await.text, whole[30..]);

    let reply = hear(&model, request(vec![said("what time is it?")], tools())).await.reply.unwrap();
    let PartBody::ToolCall(call) = &reply.parts[0].body else { panic!("{reply:?}") };
    let result = Part::result(ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        output: ToolOutput::Denied("no".into()),
    });
    let wrap_up = vec![
        said("what time is it?"),
        kept(&reply),
        message(MessageRole::Tool, vec![result]),
        message(MessageRole::User, vec![Part::system_text("Stop working on this now.")]),
    ];
    let heard = hear(&model, request(wrap_up, [].into())).await;
    assert_eq!(heard.text, "I left it as it is: no");

    let mut titled = request(vec![said("plan the garden for spring")], [].into());
    titled.system = "Make a title of at most four words.".into();
    assert_eq!(hear(&model, titled).await.text, "Plan the garden for");
}

#[tokio::test]
async fn names_choose_the_provider() {
    let server = Scripted::start().await.unwrap();
    let model = client(&server, "");
    assert_eq!(model.provider(), "openai");
    let named = |name: &str| {
        let mut request = request(vec![user("hello")], [].into());
        request.model = Some(name.into());
        request
    };
    let heard = hear(&model, named("demo")).await;
    assert_eq!(heard.reply.unwrap().model, "demo");
    assert_eq!(server.received().len(), 0);
    hear(&model, named("another")).await;
    assert_eq!(server.received()[0].json()["model"], "another");

    let demo: Arc<dyn Model> =
        famulus_models::Models::from_config(famulus_models::Config::default()).unwrap();
    assert_eq!(demo.provider(), "demo");
    let heard = hear(&demo, request(vec![user("hello")], [].into())).await;
    assert!(heard.text.starts_with("Hello!"), "{heard:?}");
    let heard = hear(&demo, named("another")).await;
    assert!(matches!(heard.error, Some(ModelError::Unknown { name }) if name == "another"));
}
