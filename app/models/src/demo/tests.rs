//! Whole conversations with the demo model, over tools that really keep what they are given.

use super::{Answer, Question, answer};
use famulus_core::ids::{MessageId, TurnId};
use famulus_core::message::{
    Message, MessageRole, Part, PartBody, Provenance, Sentinel, ToolCall, ToolResult,
};
use famulus_core::tool::{ToolOutput, ToolSpec};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// Tools as plain lists.
#[derive(Default)]
struct World {
    entries: Vec<(String, String, String, String)>,
    schedules: Vec<Value>,
    made: usize,
    owner_says_no: bool,
}

impl World {
    fn run(&mut self, call: &ToolCall) -> ToolOutput {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let json = |value: Value| ToolOutput::Json(value.to_string());
        match (call.name.as_str(), text("action").as_str()) {
            ("get_time", _) if text("zone") == "Nowhere" => {
                ToolOutput::Error("the zone `Nowhere` is not known".into())
            }
            ("get_time", _) => {
                let zone = if text("zone").is_empty() { "UTC".into() } else { text("zone") };
                json(json!({"time": "2026-11-21T10:00:00+00:00", "zone": zone}))
            }
            ("manage_knowledge", "list") => {
                let store = text("store");
                let list =
                    self.entries.iter().filter(|e| e.1 == store).map(|(id, kind, title, body)| {
                        if kind == "memory" {
                            json!({"id": id, "content": body})
                        } else {
                            json!({"id": id, "title": title})
                        }
                    });
                json(json!({"entries": list.collect::<Vec<_>>()}))
            }
            ("manage_knowledge", "read") => {
                let entry = self.entries.iter().find(|e| e.0 == text("id")).unwrap();
                json(json!({"id": entry.0, "title": entry.2, "body": entry.3}))
            }
            ("manage_knowledge", "upsert") => {
                let memory = text("store") == "memory";
                let body = if memory { text("content") } else { text("body") };
                self.entries.retain(|e| e.0 != text("id"));
                self.made += 1;
                let id = format!("k{}", self.made);
                self.entries.push((id.clone(), text("store"), text("title"), body));
                json(json!({"id": id, "saved": "added"}))
            }
            ("manage_knowledge" | "manage_schedules", "delete") if self.owner_says_no => {
                ToolOutput::Denied("the owner said no".into())
            }
            ("manage_knowledge", "delete") => {
                self.entries.retain(|e| e.0 != text("id"));
                json(json!({"deleted": true}))
            }
            ("manage_schedules", "create") => {
                self.made += 1;
                let mut schedule = arguments.clone();
                schedule["id"] = json!(format!("s{}", self.made));
                let next = arguments["at"].as_str().unwrap_or("2026-11-22T08:00:00Z");
                schedule["next"] = json!(next);
                self.schedules.push(schedule.clone());
                json(schedule)
            }
            ("manage_schedules", "list") => json(json!({"entries": self.schedules})),
            ("manage_schedules", "delete") => {
                self.schedules.retain(|s| s["id"] != arguments["id"]);
                json(json!({"deleted": true}))
            }
            _ => panic!("{call:?}"),
        }
    }
}

fn tools() -> Vec<ToolSpec> {
    ["get_time", "manage_knowledge", "manage_schedules"]
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
        let turn = TurnId::new();
        self.history.push(said(turn, source, text));
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
    check(
        "what is my cat called?",
        "I remember nothing yet. Tell me something with `remember that ...`.",
    );
    check("Remember that my cat is called Miso.", "I will remember: my cat is called Miso");
    check("what is my cat called?", "You told me: my cat is called Miso");
    check(
        "what is my dog called?",
        "I remember nothing about that. Tell me with `remember that ...`.",
    );
    check(
        "remember I like green tea and tell me the time",
        "I will remember: I like green tea\n\nIt is 10:00 on Saturday, 21 November 2026 (UTC).",
    );
    check(
        "What do you know?",
        "This is what I remember:\n- my cat is called Miso\n- I like green tea",
    );
    check("what time is it in tokyo?", "It is 10:00 on Saturday, 21 November 2026 (Asia/Tokyo).");
    check("what time is it in Nowhere", "That did not work: the zone `Nowhere` is not known");
    check(
        "remind me in 10 minutes to drink tea",
        "I will remind you: drink tea (Sat 21 Nov 2026, 11:10)",
    );
    check(
        "every day at 9 water the plants",
        "I will do it again and again: water the plants (next: Sun 22 Nov 2026, 09:00)",
    );
    check(
        "list my schedules",
        "Your schedules:\n1. drink tea, next: Sat 21 Nov 2026, 11:10\n2. water the plants, cron `0 9 * * *`, next: Sun 22 Nov 2026, 09:00",
    );
    check("cancel the schedule about plants", "- Cancelled: water the plants");
    check("cancel schedule 1", "- Cancelled: drink tea");
    check(
        "list my schedules",
        "There are no schedules. Make one with `remind me in 10 minutes to drink tea`.",
    );
    check("note shopping: milk, eggs", "I have written the note \"shopping\".");
    check("list my notes", "Your notes:\n- shopping");
    check("note Shopping: bread", "I have replaced the note \"Shopping\".");
    check("read my note shopping", "Shopping:\nbread");
    check("delete the note shopping", "I have deleted the note \"Shopping\".");
    check("forget my cat", "I have forgotten: my cat is called Miso");
    check(
        "what is my cat called?",
        "I remember nothing about that. Tell me with `remember that ...`.",
    );
    check("forget everything", "- I have forgotten: I like green tea");
    check(
        "list my memories",
        "I remember nothing yet. Tell me something with `remember that ...`.",
    );
}

#[test]
fn what_it_is_and_how_to_have_more() {
    let mut chat = Chat::default();
    let hello = chat.say("Hello!");
    assert!(hello.contains("remember that my cat is called Miso"), "{hello}");
    assert_eq!(chat.steps.len(), 0);
    chat.say("remember that Berlin is my home");
    let reply = chat.say("write a poem on Berlin");
    for word in
        ["- Berlin is my home", "demo model", "model.base_url", "model.name", "model.api_key"]
    {
        assert!(reply.contains(word), "{word}: {reply}");
    }
}

#[test]
fn a_changed_memory_changes_the_reply() {
    let mut chat = Chat::default();
    chat.say("remember that my cat is called Miso");
    chat.world.entries[0].3 = "my cat is called Tofu".into();
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
    let reply = chat.say("remember that I like cake and what do you know?");
    assert_eq!(chat.steps.len(), 2);
    assert!(reply.ends_with("- I like tea\n- I like cake"), "{reply}");
}

#[test]
fn a_no_of_the_owner_is_told() {
    let mut chat = Chat::default();
    chat.say("remember that I like tea");
    chat.world.owner_says_no = true;
    assert_eq!(chat.say("forget tea"), "I left it as it is: the owner said no");
    assert_eq!(
        chat.say("forget everything"),
        "- I like tea: I left it as it is: the owner said no"
    );
    assert_eq!(chat.world.entries.len(), 1);
}

#[test]
fn a_schedule_speaks() {
    let mut chat = Chat::default();
    assert_eq!(chat.hear("schedule", "drink tea"), "Reminder: drink tea");
    assert!(chat.hear("schedule", "tell me the time").starts_with("It is 10:00"));
    assert_eq!(chat.hear("schedule", "every day at 9 run"), "Reminder: every day at 9 run");
    assert!(chat.world.schedules.is_empty());
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
fn without_tools_it_sums_up_and_goes_on_later() {
    let mut chat = Chat::default();
    chat.world.run(&ToolCall {
        id: String::new(),
        name: "manage_knowledge".into(),
        arguments: json!({"action": "upsert", "store": "memory", "content": "I like tea"})
            .to_string(),
    });
    let turn = TurnId::new();
    chat.history.push(said(turn, "http", "forget tea"));
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    chat.run(turn, calls);
    // The installation asks for a wrap-up in its own words.
    chat.history.push(message(MessageRole::User, turn, vec![Part::system_text("Sum up.")]));
    let Answer::Text(summary) = chat.answer(&[]) else { panic!("a call") };
    assert_eq!(
        summary,
        "I had to stop before I was done. So far:\n- manage_knowledge list is done\nSay `continue` and I go on."
    );
    chat.history.push(message(MessageRole::Assistant, turn, vec![Part::assistant_text(summary)]));
    assert_eq!(chat.say("continue"), "I have forgotten: I like tea");
    assert_eq!(chat.steps.len(), 1, "the list is not asked for again");
}

#[test]
fn a_steering_message_is_answered_too() {
    let mut chat = Chat::default();
    let turn = TurnId::new();
    chat.history.push(said(turn, "http", "remember that I like tea"));
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    chat.run(turn, calls);
    chat.history.push(said(turn, "http", "and what time is it?"));
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    assert_eq!(calls.len(), 1, "{calls:?}");
    chat.run(turn, calls);
    assert_eq!(
        chat.answer(&tools()),
        Answer::Text(
            "I will remember: I like tea\n\nIt is 10:00 on Saturday, 21 November 2026 (UTC)."
                .into()
        )
    );
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
fn a_relative_time_without_a_header_asks_the_clock_first() {
    let mut chat = Chat::default();
    let text = "remind me in 10 minutes to look".to_owned();
    let part = Part::new(PartBody::Text { text }, Provenance::Owner);
    let turn = TurnId::new();
    chat.history.push(message(MessageRole::User, turn, vec![part]));
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    assert_eq!(calls[0].name, "get_time");
    chat.run(turn, calls);
    let Answer::Calls(calls) = chat.answer(&tools()) else { panic!("no call") };
    assert!(calls[0].arguments.contains("2026-11-21T10:10:00+00:00"), "{calls:?}");
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
    assert_eq!(
        title("please help me plan the garden for spring, with roses"),
        "Help plan garden spring"
    );
    assert_eq!(title("remember that my cat is called Miso"), "Cat is called Miso");
    assert_eq!(title("hi"), "Hi");
    assert_eq!(title(""), "New conversation");
}
