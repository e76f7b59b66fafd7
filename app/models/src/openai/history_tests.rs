//! Tests of what a conversation becomes on the wire, as whole bytes.

use super::history::{self, Shape};
use super::{body, files::Loaded};
use crate::config::ToolDialect;
use famulus_core::blob::BlobRef;
use famulus_core::ids::{BlobId, MessageId};
use famulus_core::message::{
    FilePart, Message, MessageRole, Part, PartBody, Provenance, ProviderBlocks, Sentinel, ToolCall,
    ToolResult,
};
use famulus_core::tool::ToolOutput;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::Value;
use std::sync::Arc;

const ID: BlobId = BlobId(uuid::Uuid::nil());

fn message(role: MessageRole, parts: Vec<Part>) -> Message {
    Message {
        id: MessageId::new(),
        seq: 0,
        role,
        person: None,
        turn: None,
        parts,
        blocks: None,
        created_at: Timestamp::UNIX_EPOCH,
    }
}

fn user(text: &str) -> Message {
    let body = PartBody::Text { text: text.to_owned() };
    message(MessageRole::User, vec![Part::new(body, Provenance::Owner)])
}

fn assistant(parts: Vec<Part>) -> Message {
    message(MessageRole::Assistant, parts)
}

fn said(text: &str) -> Part {
    Part::assistant_text(text)
}

fn call(id: &str, arguments: &str) -> Part {
    Part::call(ToolCall { id: id.into(), name: "f".into(), arguments: arguments.into() })
}

fn result(id: &str, output: ToolOutput) -> Part {
    Part::result(ToolResult { call_id: id.into(), name: "f".into(), output })
}

fn results(parts: Vec<Part>) -> Message {
    message(MessageRole::Tool, parts)
}

fn stored(mut message: Message, provider: &str, bytes: &[u8]) -> Message {
    message.blocks = Some(ProviderBlocks { provider: provider.into(), bytes: bytes.into() });
    message
}

fn file(name: &str, mime: &str) -> FilePart {
    let blob = BlobRef { id: ID, sha256: String::new(), mime: mime.into(), size: 3 };
    FilePart::new(blob, name)
}

fn shape(dialect: ToolDialect) -> Shape {
    let name = if dialect == ToolDialect::Xml { "openai-xml" } else { "openai" };
    let labels = [name.to_owned(), format!("{name}@host")];
    Shape { dialect, images: true, audio: true, labels }
}

fn wire(messages: Vec<Message>, shape: &Shape) -> String {
    let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
    let loaded = Loaded::from([(ID, b"abc".to_vec())]);
    let bytes = body::encode("m", &history::entries(&messages, shape), &[], &loaded).unwrap();
    let whole = String::from_utf8(bytes).unwrap();
    whole
        .strip_prefix(r#"{"model":"m","messages":["#)
        .and_then(|w| w.strip_suffix(r#"],"stream":true,"stream_options":{"include_usage":true}}"#))
        .unwrap_or_else(|| panic!("{whole}"))
        .to_owned()
}

fn check(what: &str, messages: Vec<Message>, expected: &[&str]) {
    assert_eq!(wire(messages, &shape(ToolDialect::Auto)), expected.join(","), "{what}");
}

#[test]
fn conversations_become_what_providers_accept() {
    check("one word", vec![user("hi")], &[r#"{"role":"user","content":"hi"}"#]);
    check(
        "tools, in order, errors marked",
        vec![
            user("hi"),
            assistant(vec![said("Let me see."), call("a", "{\"x\": 1}"), call("b", "")]),
            results(vec![
                result("a", ToolOutput::Json("{}".into())),
                result("b", ToolOutput::Error("no such thing".into())),
            ]),
        ],
        &[
            r#"{"role":"user","content":"hi"}"#,
            r#"{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"a","content":"{}"}"#,
            r#"{"role":"tool","tool_call_id":"b","content":"[error] no such thing"}"#,
        ],
    );
    check(
        "empty answers are left out, reasoning too",
        vec![
            user("a"),
            assistant(vec![said(" \n")]),
            assistant(vec![Part::new(
                PartBody::Reasoning { text: "hm".into() },
                Provenance::Assistant,
            )]),
            user("b"),
        ],
        &[r#"{"role":"user","content":"a"}"#, r#"{"role":"user","content":"b"}"#],
    );
    check(
        "two answers in a row, and one at the end",
        vec![user("a"), assistant(vec![said("b")]), assistant(vec![said("c")])],
        &[
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"assistant","content":"b"}"#,
            r#"{"role":"user","content":"[system: go on]"}"#,
            r#"{"role":"assistant","content":"c"}"#,
            r#"{"role":"user","content":"[system: go on]"}"#,
        ],
    );
    check(
        "an answer at the beginning",
        vec![assistant(vec![said("b")]), user("c")],
        &[
            r#"{"role":"user","content":"[system: the conversation before this is left out]"}"#,
            r#"{"role":"assistant","content":"b"}"#,
            r#"{"role":"user","content":"c"}"#,
        ],
    );
    check(
        "an interrupted answer is gone on with",
        vec![user("a"), assistant(vec![said("Once upon"), Part::sentinel(Sentinel::Interrupted)])],
        &[
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"assistant","content":"Once upon"}"#,
            r#"{"role":"user","content":"[system: the answer above was cut off; go on from exactly where it ends, without repeating any of it]"}"#,
        ],
    );
    check(
        "a mark between calls and results waits for them; so do files of tools",
        vec![
            user("a"),
            assistant(vec![call("a", "{}"), Part::sentinel(Sentinel::StepCap)]),
            results(vec![
                result("a", ToolOutput::Denied("the answer was no".into())),
                Part::new(PartBody::File(file("x.txt", "text/plain")), Provenance::Tool),
            ]),
            assistant(vec![Part::system_text("the turn was ended")]),
        ],
        &[
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"a","content":"[denied] the answer was no"}"#,
            r#"{"role":"user","content":"[system: the assistant had used up its steps here]\n\n[file: x.txt (text/plain, 3 bytes), id 00000000-0000-0000-0000-000000000000]\n\n[system: the turn was ended]"}"#,
        ],
    );
    check(
        "a call without a result, and a result without a call",
        vec![
            user("a"),
            assistant(vec![call("a", "{}")]),
            user("b"),
            results(vec![result("z", ToolOutput::Text("late".into()))]),
        ],
        &[
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"a","content":"[outcome unknown] no result of this call was recorded"}"#,
            r#"{"role":"user","content":"b"}"#,
            r#"{"role":"user","content":"[system: the result of an earlier call of f: late]"}"#,
        ],
    );
    check(
        "malformed arguments do not close the conversation",
        vec![
            user("a"),
            assistant(vec![call("a", "{\"x\":")]),
            results(vec![result("a", ToolOutput::Error("not JSON".into()))]),
        ],
        &[
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"malformed\":\"{\\\"x\\\":\"}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"a","content":"[error] not JSON"}"#,
        ],
    );
}

#[test]
fn stored_bytes_go_out_as_they_are() {
    let odd = br#"{ "content" : "b" ,"role":"assistant","reasoning_content":"\u00e4", "n": 1.50 }"#;
    let kept = std::str::from_utf8(odd).unwrap();
    let replayed = |provider: &str, expected: &str| {
        check(
            provider,
            vec![user("a"), stored(assistant(vec![said("rebuilt")]), provider, odd), user("c")],
            &[r#"{"role":"user","content":"a"}"#, expected, r#"{"role":"user","content":"c"}"#],
        );
    };
    let rebuilt = r#"{"role":"assistant","content":"rebuilt"}"#;
    replayed("openai", kept);
    replayed("openai@host", kept);
    replayed("openai@elsewhere", rebuilt);
    replayed("openai-xml", rebuilt);
    replayed("anthropic", rebuilt);
    check(
        "broken bytes",
        vec![user("a"), stored(assistant(vec![said("rebuilt")]), "openai", b"{"), user("c")],
        &[r#"{"role":"user","content":"a"}"#, rebuilt, r#"{"role":"user","content":"c"}"#],
    );
    check(
        "the blocks are the answer behind the cut",
        vec![
            user("a"),
            stored(
                assistant(vec![
                    said("Once "),
                    Part::sentinel(Sentinel::Interrupted),
                    said("upon"),
                    Part::sentinel(Sentinel::Cancelled),
                ]),
                "openai",
                br#"{"role":"assistant","content":"upon" }"#,
            ),
            user("c"),
        ],
        &[
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"assistant","content":"Once "}"#,
            r#"{"role":"user","content":"[system: the answer above was cut off; go on from exactly where it ends, without repeating any of it]"}"#,
            r#"{"role":"assistant","content":"upon" }"#,
            r#"{"role":"user","content":"[system: the owner stopped the assistant here]"}"#,
            r#"{"role":"user","content":"c"}"#,
        ],
    );
}

#[test]
fn files_are_shown_or_named() {
    let with = |body: PartBody| {
        let mut message = user("look");
        message.parts.push(Part::new(body, Provenance::Owner));
        message
    };
    let noted = |note: &str| format!(r#"{{"role":"user","content":"look\n\n[file: {note}]"}}"#);
    let id = "id 00000000-0000-0000-0000-000000000000";
    let of = |body: PartBody, expected: &str| {
        assert_eq!(wire(vec![with(body)], &shape(ToolDialect::Auto)), expected);
    };
    of(
        PartBody::Image(file("a.png", "image/png")),
        r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,YWJj"}}]}"#,
    );
    of(
        PartBody::Audio(file("a.mp3", "audio/mpeg")),
        r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"input_audio","input_audio":{"data":"YWJj","format":"mp3"}}]}"#,
    );
    of(
        PartBody::File(file("a.pdf", "application/pdf")),
        &noted(&format!("a.pdf (application/pdf, 3 bytes), {id}")),
    );
    of(
        PartBody::Audio(file("a.ogg", "audio/ogg")),
        &noted(&format!(
            "a.ogg (audio/ogg, 3 bytes), {id}; not shown: its format is not one that models hear; \
             nobody has heard it, so tell whoever sent it"
        )),
    );
    let blind = Shape { images: false, audio: false, ..shape(ToolDialect::Auto) };
    assert_eq!(
        wire(vec![with(PartBody::Image(file("a.png", "image/png")))], &blind),
        noted(&format!("a.png (image/png, 3 bytes), {id}; not shown: this model sees no images"))
    );
    // What was heard once is read by every model that comes later, also by one that hears.
    let mut recording = file("a.mp3", "audio/mpeg");
    recording.heard = Some(famulus_core::message::Heard::Words("good morning".into()));
    let read = wire(vec![with(PartBody::Audio(recording))], &shape(ToolDialect::Auto));
    assert!(read.contains("good morning") && !read.contains("input_audio"), "{read}");
    // What the header of a message names already is not named twice.
    let mut named =
        user(&format!("Attached file: a.pdf (application/pdf, 3 bytes), {id}\nText: look"));
    named
        .parts
        .push(Part::new(PartBody::File(file("a.pdf", "application/pdf")), Provenance::Owner));
    assert_eq!(wire(vec![named], &shape(ToolDialect::Auto)).matches("a.pdf").count(), 1);
}

#[test]
fn the_xml_dialect_keeps_calls_and_results_in_text() {
    let messages = vec![
        user("a"),
        assistant(vec![said("Let me see."), call("a", "{\"x\":1}"), call("b", "{}")]),
        results(vec![
            result("a", ToolOutput::Text("1".into())),
            result("b", ToolOutput::Text("2".into())),
        ]),
        assistant(vec![said("Done.")]),
        user("c"),
    ];
    let expected = [
        r#"{"role":"user","content":"a"}"#,
        r#"{"role":"assistant","content":"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"}"#,
        r#"{"role":"user","content":"<tool_response name=\"f\">\n1\n</tool_response>\n\n<tool_response name=\"f\">\n2\n</tool_response>"}"#,
        r#"{"role":"assistant","content":"Done."}"#,
        r#"{"role":"user","content":"c"}"#,
    ];
    assert_eq!(wire(messages, &shape(ToolDialect::Xml)), expected.join(","));
}

/// Any conversation that a store may hold.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let part = prop_oneof![
        Just(said("words")),
        Just(said(" ")),
        Just(call("a", "{}")),
        Just(call("b", "{")),
        Just(Part::sentinel(Sentinel::Interrupted)),
        Just(Part::sentinel(Sentinel::Failed)),
        Just(Part::system_text("a note")),
    ];
    let assistant_message = prop::collection::vec(part, 0..5).prop_map(|parts| {
        let mut seen = std::collections::BTreeSet::new();
        let unique = |part: &Part| {
            let PartBody::ToolCall(call) = &part.body else { return true };
            seen.insert(call.id.clone())
        };
        assistant(parts.into_iter().filter(unique).collect())
    });
    let result_part = prop_oneof![
        Just(result("a", ToolOutput::Text("1".into()))),
        Just(result("b", ToolOutput::Error("2".into()))),
    ];
    let message = prop_oneof![
        Just(user("hi")),
        Just(user("")),
        assistant_message,
        prop::collection::vec(result_part, 0..3).prop_map(results),
    ];
    prop::collection::vec(message, 0..8)
}

proptest! {
    #[test]
    fn whatever_is_stored_becomes_acceptable(messages in conversation()) {
        let wire = wire(messages, &shape(ToolDialect::Auto));
        let list: Vec<Value> = serde_json::from_str(&format!("[{wire}]")).unwrap();
        let mut open: Vec<String> = Vec::new();
        let mut before = "";
        for message in &list {
            let role = message["role"].as_str().unwrap();
            if role == "tool" {
                let id = message["tool_call_id"].as_str().unwrap();
                let at = open.iter().position(|open| open == id);
                prop_assert!(at.is_some(), "{wire}");
                open.remove(at.unwrap());
            } else {
                prop_assert!(open.is_empty(), "{wire}");
            }
            if role == "assistant" {
                prop_assert!(before == "user" || before == "tool", "{wire}");
                let text = message["content"].as_str().unwrap_or_default();
                let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
                prop_assert!(!text.trim().is_empty() || !calls.is_empty(), "{wire}");
                open = calls.iter().map(|c| c["id"].as_str().unwrap().to_owned()).collect();
            }
            before = role;
        }
        prop_assert!(open.is_empty() && before != "assistant", "{wire}");
    }

    /// The beginning of a history stays what it was when the conversation goes on with a question.
    #[test]
    fn a_history_that_grows_keeps_its_beginning(messages in conversation()) {
        let shape = shape(ToolDialect::Auto);
        let mut asked = messages.clone();
        asked.push(user("more"));
        let short = wire(asked.clone(), &shape);
        asked.push(assistant(vec![said("yes")]));
        asked.push(user("even more"));
        prop_assert!(wire(asked, &shape).starts_with(&short));
    }
}
