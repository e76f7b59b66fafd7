//! Whole conversations with the demo model, over tools that really keep what they are given.

mod files;
mod plugins;

use super::{Answer, Question, answer};
use famulus_core::blob::BlobRef;
use famulus_core::ids::{BlobId, MessageId, TurnId};
use famulus_core::message::{
    FilePart, Heard, Message, MessageRole, Part, PartBody, Provenance, Sentinel, ToolCall,
    ToolResult,
};
use famulus_core::tool::{ToolOutput, ToolSpec};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// Tools, of which one keeps what it is given and lists it page by page, an entry each.
#[derive(Default)]
struct World {
    /// By id.
    memories: Vec<(String, String)>,
    made: usize,
    owner_says_no: bool,
}

impl World {
    fn run(&mut self, call: &ToolCall) -> ToolOutput {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let json = |value: Value| ToolOutput::Json(value.to_string());
        match (call.name.as_str(), text("action").as_str()) {
            ("get_time", _) => json(json!({"time": "2026-11-21T11:00:00+01:00", "zone": "CET"})),
            ("run_plugin_tool", _) => ToolOutput::Text(format!("{} says hi", text("plugin"))),
            ("manage_knowledge", "delete") | ("manage_plugins", "permit") if self.owner_says_no => {
                ToolOutput::Denied("the owner said no".into())
            }
            ("manage_plugins", "install") if text("url").ends_with("tea") => json(json!({
                "plugin": "tea", "revision": "r1", "tools": [{"name": "brew", "description": "Brews."}],
                "keys": [{"key": "sugar", "description": "Spoons."}], "instructions": "Buy tea.",
            })),
            ("manage_plugins", "install") => ToolOutput::Error("there is no repository".into()),
            ("manage_plugins", "permit") if text("name") == "coffee" => {
                let rights = (&arguments["internet"], &arguments["tools"]);
                assert_eq!(rights, (&json!(true), &json!(["brew"])));
                json(json!({"plugin": "coffee", "ready": true}))
            }
            ("manage_plugins", "permit") if arguments["internet"] == json!(true) => {
                json(json!({"plugin": "tea", "not_ready": "its init script failed"}))
            }
            ("manage_plugins", "permit") => json(json!({"plugin": "tea", "ready": true})),
            ("manage_plugins", "update") if text("name") == "coffee" => json(json!({
                "plugin": "coffee", "revision": "r2",
                "until_now": {"tools": ["brew"], "network": "internet"},
            })),
            ("manage_plugins", "update") => json(json!({"plugin": "tea", "nothing_new": true})),
            ("manage_plugins", "rollback") => json(json!({"plugin": "tea", "building": "a while"})),
            ("manage_plugins", "configure") => json(json!({"set": text("key")})),
            ("manage_plugins", "remove") => json(json!({"removed": text("name")})),
            ("manage_knowledge", "list") => {
                let at = arguments["offset"].as_u64().unwrap_or(0) as usize;
                let entry = |(id, body): &(String, String)| json!({"id": id, "content": body});
                let entries: Vec<Value> =
                    self.memories.iter().skip(at).take(1).map(entry).collect();
                let next = (at + 1 < self.memories.len()).then_some(at + 1);
                json(json!({"entries": entries, "next_offset": next}))
            }
            ("manage_knowledge", "upsert") => {
                self.made += 1;
                let id = format!("k{}", self.made);
                self.memories.push((id.clone(), text("content")));
                json(json!({"id": id, "saved": "added"}))
            }
            ("manage_knowledge", "delete") => {
                self.memories.retain(|(id, _)| *id != text("id"));
                json(json!({"deleted": true}))
            }
            ("text_to_speech", _) => json(json!({"id": "f1", "name": "speech.ogg"})),
            ("send_message", "send") => json(json!({"on_its_way": {"to": "Ada"}})),
            ("manage_schedules", "create") => json(json!({"next": "2026-11-22T09:00:00+01:00"})),
            _ => panic!("{call:?}"),
        }
    }
}

fn tools() -> Vec<ToolSpec> {
    [
        "get_time",
        "manage_knowledge",
        "manage_plugins",
        "manage_schedules",
        "send_message",
        "run_plugin_tool",
        "text_to_speech",
    ]
    .map(|name| ToolSpec { name: name.into(), description: String::new(), schema: json!({}) })
    .into()
}

fn message(role: MessageRole, turn: TurnId, parts: Vec<Part>) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId::new(),
        seq: 0,
        role,
        person: None,
        turn: Some(turn),
        parts,
        blocks: None,
        created_at: Timestamp::UNIX_EPOCH,
    })
}

fn said(turn: TurnId, source: &str, text: &str) -> Arc<Message> {
    let text = format!(
        "Time: Sat 2026-11-21 11:00:00 +01:00\nSource: {source}\nSender: owner\nText: {text}"
    );
    message(MessageRole::User, turn, vec![Part::new(PartBody::Text { text }, Provenance::Owner)])
}

#[derive(Default)]
struct Chat {
    world: World,
    history: Vec<Arc<Message>>,
    /// Calls of the last turn, step by step.
    steps: Vec<Vec<String>>,
}

impl Chat {
    fn say(&mut self, text: &str) -> String {
        self.hear("http", text)
    }

    fn hear(&mut self, source: &str, text: &str) -> String {
        self.history.push(said(TurnId::new(), source, text));
        self.reply()
    }

    /// What is answered to what was said last.
    fn reply(&mut self) -> String {
        let turn = self.history.last().and_then(|last| last.turn).expect("somebody spoke");
        self.steps.clear();
        for _ in 0..8 {
            match self.answer(&tools()) {
                Answer::Text(text) => {
                    let part = Part::assistant_text(text.clone());
                    self.history.push(message(MessageRole::Assistant, turn, vec![part]));
                    return text;
                }
                Answer::Calls(calls) => self.run(turn, calls),
            }
        }
        panic!("no end: {:?}", self.steps);
    }

    /// Somebody sent a file, and what was answered is forgotten.
    fn get_file(&mut self) {
        self.get_file_with("look");
    }

    fn get_file_with(&mut self, words: &str) {
        let turn = TurnId::new();
        let text = format!(
            "Time: Sat 2026-11-21 11:00:00 +01:00\nSource: telegram\nSender: owner\n\
             Attached file: a cat.png (image/png, 3 bytes), id b1\nText: {words}"
        );
        let part = Part::new(PartBody::Text { text }, Provenance::Owner);
        self.history.push(message(MessageRole::User, turn, vec![part]));
    }

    /// Somebody speaks, and this was heard.
    fn get_recording(&mut self, heard: Option<Heard>) {
        let mut recording = FilePart::new(
            BlobRef { id: BlobId::new(), sha256: String::new(), mime: "audio/ogg".into(), size: 3 },
            "voice.ogg",
        );
        recording.heard = heard;
        let spoken = said(TurnId::new(), "telegram", "");
        let mut spoken = Arc::unwrap_or_clone(spoken);
        spoken.parts.push(Part::new(PartBody::Audio(recording), Provenance::Owner));
        self.history.push(Arc::new(spoken));
    }

    fn answer(&self, tools: &[ToolSpec]) -> Answer {
        answer(Question { system: "", messages: &self.history, tools })
    }

    fn run(&mut self, turn: TurnId, calls: Vec<ToolCall>) {
        let shown = |call: &ToolCall| format!("{} {}", call.name, call.arguments);
        self.steps.push(calls.iter().map(shown).collect());
        let result = |call: &ToolCall| {
            let output = self.world.run(call);
            let (call_id, name) = (call.id.clone(), call.name.clone());
            Part::result(ToolResult { call_id, name, output })
        };
        let results = calls.iter().map(result).collect();
        let calls = calls.into_iter().map(Part::call).collect();
        self.history.push(message(MessageRole::Assistant, turn, calls));
        self.history.push(message(MessageRole::Tool, turn, results));
    }
}

#[test]
fn a_first_conversation() {
    let mut chat = Chat::default();
    let mut check = |said: &str, expected: &str| assert_eq!(chat.say(said), expected, "{said}");
    let nothing = "I remember nothing about that. Tell me with `remember that ...`.";
    check("what is my cat called?", nothing);
    check("Remember that my cat is called Miso.", "I will remember: my cat is called Miso");
    check("what is my cat called?", "You told me: my cat is called Miso");
    check("what is my dog called?", nothing);
    check(
        "remember I like green tea and tell me the time",
        "I will remember: I like green tea\n\nIt is 11:00 on Saturday, 21 November 2026 (CET).",
    );
    check("remember that the cat likes fish", "I will remember: the cat likes fish");
    check(
        "forget the cat",
        "More than one memory is like that. Which of these shall I forget?\n- my cat is called Miso\n- the cat likes fish",
    );
    check("forget Miso", "I have forgotten: my cat is called Miso");
    check("what is my cat called?", "You told me: the cat likes fish");
    check("forget my dog", "I remember nothing like that, so there is nothing to forget.");
    check("Throw the die.", "`throw_die` of `dice` gave:\ndice says hi");
}

#[test]
fn reminders() {
    let mut chat = Chat::default();
    let reply = chat.say("remind me every day at 9 to water the plants");
    let next = "(next at 09:00 on Sunday, 22 November 2026)";
    assert_eq!(reply, format!("I will remind you: water the plants {next}"));
    assert_eq!(
        chat.steps,
        [[r#"manage_schedules {"action":"create","note":"water the plants","cron":"0 9 * * *"}"#]]
    );
    chat.say("remind me in 10 minutes to look");
    assert_eq!(
        chat.steps,
        [
            ["get_time {}"],
            [r#"manage_schedules {"action":"create","note":"look","at":"2026-11-21T10:10:00Z"}"#],
        ]
    );
    assert!(chat.say("remind me to look").starts_with("When?"));
}

/// What it says that one should try is what it can do.
#[test]
fn what_it_claims_is_true() {
    let mut chat = Chat::default();
    let hello = chat.say("Hello!");
    chat.get_file();
    let examples: Vec<&str> = hello.lines().filter(|line| line.starts_with("- ")).collect();
    assert!(examples.len() >= 5, "{hello}");
    for example in examples.iter().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let reply = chat.say(example);
        let is_useless =
            reply.contains("demo model") || reply.contains("nothing") || reply.contains("no such");
        assert!(!chat.steps.is_empty() && !is_useless, "{example}: {reply}");
    }
    let reply = chat.say("write a poem on Berlin");
    for word in ["demo model", "model.base_url", "model.name", "model.api_key", "`help`"] {
        assert!(reply.contains(word), "{word}: {reply}");
    }
}

#[test]
fn a_changed_memory_changes_the_reply() {
    let mut chat = Chat::default();
    chat.say("remember that my cat is called Miso");
    chat.world.memories[0].1 = "my cat is called Tofu".into();
    assert_eq!(chat.say("what is my cat called?"), "You told me: my cat is called Tofu");
}

#[test]
fn two_wishes_run_side_by_side() {
    let mut chat = Chat::default();
    chat.say("remember that I like tea and tell me the time");
    assert_eq!(
        chat.steps,
        [[
            r#"manage_knowledge {"action":"upsert","store":"memory","content":"I like tea"}"#,
            "get_time {}",
        ]]
    );
    // What would not see the write yet comes after it.
    let reply = chat.say("remember that my cake is dry and what is my cake?");
    assert!(reply.ends_with("You told me: my cake is dry"), "{reply}");
}

#[test]
fn a_no_of_the_owner_is_told() {
    let mut chat = Chat::default();
    chat.say("remember that I like tea");
    chat.world.owner_says_no = true;
    assert_eq!(chat.say("forget tea"), "I left it as it is: the owner said no");
    assert_eq!(chat.world.memories.len(), 1);
}

#[test]
fn schedules_and_plugins_ask_for_nothing() {
    let mut chat = Chat::default();
    assert_eq!(chat.hear("schedule", "drink tea"), "Reminder: drink tea");
    let due =
        "Schedule 7 is due. Its slot: noon (UTC).\nIts note: drink\n\ntea\n\nDo now what it says.";
    assert_eq!(chat.hear("schedule", due), "Reminder: drink\n\ntea");
    assert_eq!(chat.hear("callback", "remember that I won"), "remember that I won");
    assert!(chat.world.memories.is_empty());
}

#[test]
fn a_cut_answer_goes_on_where_it_ended() {
    let mut chat = Chat::default();
    let whole = chat.say("hello");
    chat.history.pop();
    let turn = chat.history[0].turn.unwrap();
    let partial = [Part::assistant_text(&whole[..20]), Part::sentinel(Sentinel::Interrupted)];
    chat.history.push(message(MessageRole::Assistant, turn, partial.into()));
    assert_eq!(chat.answer(&tools()), Answer::Text(whole[20..].to_owned()));
}

#[test]
fn without_tools_it_says_how_far_it_came() {
    let mut chat = Chat::default();
    chat.say("remember that I like tea");
    let turn = TurnId::new();
    chat.history.push(said(turn, "http", "forget tea"));
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    chat.run(turn, calls);
    // The installation asks for a wrap-up in its own words.
    chat.history.push(message(MessageRole::User, turn, vec![Part::system_text("Sum up.")]));
    assert_eq!(
        chat.answer(&[]),
        Answer::Text("I had to stop before I was done. I have called: manage_knowledge.".into())
    );
}

#[test]
fn a_steering_message_is_answered_too() {
    let mut chat = Chat::default();
    let turn = TurnId::new();
    chat.history.push(said(turn, "http", "remember that I like tea"));
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    chat.run(turn, calls);
    chat.history.push(said(turn, "http", "What time is it?"));
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    assert_eq!(calls.len(), 1, "{calls:?}");
    chat.run(turn, calls);
    assert_eq!(
        chat.answer(&tools()),
        Answer::Text(
            "I will remember: I like tea\n\nIt is 11:00 on Saturday, 21 November 2026 (CET)."
                .into()
        )
    );
}

#[test]
fn every_message_that_joined_is_done() {
    let mut chat = Chat::default();
    let turn = TurnId::new();
    for number in 0..10 {
        chat.history.push(said(turn, "http", &format!("remember that box {number} is full")));
    }
    chat.history.push(said(turn, "http", "what is my box 7?"));
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    assert_eq!(calls.len(), 10, "one step for all that is added, and none that would read it");
    chat.run(turn, calls);
    while let Answer::Calls(calls) = chat.answer(&tools()) {
        chat.run(turn, calls);
    }
    let Answer::Text(text) = chat.answer(&tools()) else { panic!("no text") };
    assert!((0..10).all(|n| text.contains(&format!("I will remember: box {n} is full"))), "{text}");
    assert!(text.ends_with("You told me: box 7 is full"), "{text}");
}

#[test]
fn a_tool_that_is_not_offered_is_named() {
    let mut chat = Chat::default();
    chat.history.push(said(TurnId::new(), "http", "what time is it?"));
    let only = &tools()[1..];
    assert_eq!(
        chat.answer(only),
        Answer::Text(
            "I would need the tool `get_time` for that, and this agent may not use it.".into()
        )
    );
    assert_eq!(
        chat.answer(&[]),
        Answer::Text("I can only do that with tools, and I may not use any here.".into())
    );
}

#[test]
fn titles_have_four_words() {
    let title = |text: &str| {
        let messages = [said(TurnId::new(), "http", text)];
        match answer(Question { system: "Make a title of it.", messages: &messages, tools: &[] }) {
            Answer::Text(title) => title,
            Answer::Calls(calls) => panic!("{calls:?}"),
        }
    };
    assert_eq!(title("plan the garden for spring, with roses"), "Plan the garden for");
    assert_eq!(title("remember that my cat is called Miso"), "Remember that my cat");
    assert_eq!(title("hi"), "Hi");
    assert_eq!(title(""), "New conversation");
}
