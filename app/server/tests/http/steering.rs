//! What a second message does to a turn that runs, and how a turn is stopped.

use crate::world::{self, Do, Puppet, Setup, Text as _, call, client, say, soon};
use async_trait::async_trait;
use famulus_core::{
    event::Event,
    message::{MessageRole, PartBody},
    tool::{CallContext, Effect, Repeat, ToolOutput},
};
use famulus_tools::{Policy, Tool, ToolError};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// The most that may pass from the word to the last effect on a machine that does ten other things. How
/// long it takes is measured by `cargo xtask bench stop`.
const STOP: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_message_joins_the_turn_that_runs_with_its_attachment() {
    let gate = CancellationToken::new();
    let held = gate.clone();
    let model = Puppet::new(move |number, _| match number {
        0 => vec![say("One "), Do::Hold(held.clone()), say("answer.")],
        _ => vec![say("All answered.")],
    });
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let mut watcher = owner.watch("main").await;
        let turn = owner.begin("main", "first").await;
        model.asked(1).await;

        let file = owner.upload("the contents").await;
        let second = json!({
            "text": "second",
            "attachments": [{ "blob": { "id": file }, "name": "notes.txt" }],
        });
        let joined = owner.post("/v1/conversations/main/messages", second).await.ok();
        assert_eq!((&joined["disposition"], &joined["turn_id"]), (&json!("steered"), &json!(turn)));
        assert!(joined["notice"].is_string(), "{joined}");
        let third = owner.chat("third").await;
        assert_eq!((&third["steered"], &third["turn_id"]), (&json!(true), &json!(turn)));
        gate.cancel();

        let ended = owner.reaches(&turn, "complete").await;
        assert_eq!(ended["text"], "All answered.", "the reply is the last one, not all of them");
        let asked = model.asked(2).await;
        let said: Vec<(MessageRole, bool)> = asked[1]
            .all()
            .iter()
            .map(|(role, text)| (*role, text.ends_with("One answer.")))
            .collect();
        let (user, answer) = ((MessageRole::User, false), (MessageRole::Assistant, true));
        assert_eq!(said, [user, answer, user, user], "{:?}", asked[1].all());
        assert!(asked[1].messages[2].parts.iter().any(|part| matches!(
            &part.body,
            PartBody::File(given) if given.blob.id.to_string() == file && given.name == "notes.txt"
        )));
        assert_eq!(watcher.whole().await, "One answer.All answered.");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_turn_reads_what_joined_in_the_order_in_which_it_was_read() {
    let gates = [CancellationToken::new(), CancellationToken::new()];
    let held = gates.clone();
    let model = Puppet::new(move |number, _| match number {
        0 => vec![Do::Hold(held[0].clone()), call("get_time", &json!({}))],
        1 => vec![say("An answer."), Do::Hold(held[1].clone())],
        _ => vec![say("Another.")],
    });
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let turn = owner.begin("main", "first").await;
        // One message comes before the call is recorded, two before the answer is.
        model.asked(1).await;
        assert_eq!(owner.send("main", "second").await["disposition"], "steered");
        gates[0].cancel();
        model.asked(2).await;
        for text in ["third", "fourth"] {
            assert_eq!(owner.send("main", text).await["disposition"], "steered");
        }
        gates[1].cancel();
        owner.reaches(&turn, "complete").await;
        owner.say("fifth").await;

        let asked = model.asked(4).await;
        for (number, pair) in asked.windows(2).enumerate() {
            let (before, after) = (pair[0].all(), pair[1].all());
            assert!(
                after.starts_with(&before),
                "the model reads something else than before, {number}:\n{before:#?}\n{after:#?}"
            );
        }
        // People read the same order, in one piece or page by page.
        let words = |message: &Value| message["text"].as_str().unwrap().to_owned();
        let listed = owner.messages("main").await;
        let seen: Vec<String> = listed.iter().map(words).filter(|text| !text.is_empty()).collect();
        let (first, rest) = seen.split_first().unwrap();
        assert_eq!(first, "first");
        assert_eq!(
            rest,
            ["second", "An answer.", "third", "fourth", "Another.", "fifth", "Another."]
        );
        let (mut paged, mut before) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/conversations/main/messages?limit=2{before}");
            let page = owner.get(&path).await.ok();
            paged.splice(0..0, page["messages"].as_array().unwrap().clone());
            let Some(cursor) = page["before"].as_str() else { break };
            before = format!("&before={cursor}");
        }
        assert_eq!(paged, listed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_queues_gets_a_turn_of_its_own_in_order() {
    let gate = CancellationToken::new();
    let held = gate.clone();
    let model = Puppet::new(move |number, request| {
        let heard = request.last();
        let word = heard.rsplit(' ').next().unwrap_or_default().to_owned();
        if number == 0 { vec![Do::Hold(held.clone()), say(word)] } else { vec![say(word)] }
    });
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let first = owner.begin("main", "m0").await;
        model.asked(1).await;
        let mut turns = vec![first];
        for number in 1..=3 {
            let message = json!({ "text": format!("m{number}"), "meeting": "queue" });
            let sent = owner.post("/v1/conversations/main/messages", message).await.ok();
            assert_eq!(sent["disposition"], "started", "{sent}");
            turns.push(client::id_of(&sent, "turn_id"));
        }
        gate.cancel();
        for (number, turn) in turns.iter().enumerate() {
            let ended = owner.reaches(turn, "complete").await;
            assert_eq!(ended["text"], format!("m{number}"));
        }
        let read: Vec<String> = owner
            .messages("main")
            .await
            .iter()
            .map(|message| message["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(read, ["m0", "m0", "m1", "m1", "m2", "m2", "m3", "m3"]);
    })
    .await;
}

/// A tool that ends only when it is stopped.
struct Endless(watch::Sender<(usize, usize)>);

struct Left<'a>(&'a watch::Sender<(usize, usize)>);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|(_, left)| *left += 1);
    }
}

#[async_trait]
impl Tool for Endless {
    fn name(&self) -> &'static str {
        "endless"
    }

    fn description(&self) -> &'static str {
        "Does not end."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "properties": {}, "additionalProperties": false })
    }

    fn policy(&self) -> &[Policy] {
        const LINES: [Policy; 1] = [Policy::new(None, Effect::External, Repeat::Never)];
        &LINES
    }

    async fn run(&self, _: Value, _: &CallContext) -> Result<ToolOutput, ToolError> {
        self.0.send_modify(|(began, _)| *began += 1);
        let _left = Left(&self.0);
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_model_and_tools_at_once() {
    let endless = Arc::new(Endless(watch::Sender::default()));
    let model = Puppet::new(|_, request| match request.last() {
        heard if heard.ends_with("talk") => {
            vec![say("Word after word"), Do::Hold(CancellationToken::new())]
        }
        heard if heard.ends_with("work") => vec![call("endless", &json!({}))],
        _ => vec![say("Here again.")],
    });
    let setup = Setup::new(model.clone()).tool(endless.clone());
    world::run(setup, async |world| {
        let owner = &world.owner;

        // While the model talks, by the route.
        let mut watcher = owner.watch("main").await;
        let turn = owner.begin("main", "talk").await;
        watcher.until("a word", |event| matches!(event, Event::Delta { .. })).await;
        let behind = json!({ "text": "talk", "meeting": "queue" });
        let behind = owner.post("/v1/conversations/main/messages", behind).await.ok();
        let behind = client::id_of(&behind, "turn_id");
        let told = Instant::now();
        let stopped = owner.post("/v1/conversations/main/stop", json!({})).await.ok();
        assert_eq!(stopped["stopped"].as_array().unwrap().len(), 2, "{stopped}");
        model.dropped(1).await;
        watcher.until("the end", |event| matches!(event, Event::Complete { .. })).await;
        assert!(told.elapsed() < STOP, "{:?}", told.elapsed());
        let ended = owner.reaches(&turn, "cancelled").await;
        assert_eq!(ended["text"], "Word after word", "what was said stays");
        owner.reaches(&behind, "cancelled").await;
        assert_eq!(model.times(), 1, "what waited behind it never began");

        // While a tool runs, by the command; the caller who waits hears of it.
        let waits = owner.clone();
        let chat = async { waits.chat("work").await };
        let stop = async {
            let mut calls = endless.0.subscribe();
            soon("the tool runs", calls.wait_for(|(began, _)| *began == 1)).await.unwrap();
            let told = Instant::now();
            let said = owner.chat(" /STOP ").await;
            assert_eq!(said["response"], "Stopped.", "{said}");
            soon("the tool is dropped", calls.wait_for(|(_, left)| *left == 1)).await.unwrap();
            told
        };
        let (reply, told) = tokio::join!(chat, stop);
        assert!(told.elapsed() < STOP, "{:?}", told.elapsed());
        assert_eq!(reply["state"], "cancelled", "{reply}");

        // Twice is once, and the conversation goes on.
        assert_eq!(owner.chat("/stop").await["response"], "Nothing was running.");
        let turn = client::id_of(&reply, "turn_id");
        let again = owner.post(&format!("/v1/turns/{turn}/cancel"), json!({})).await.ok();
        assert_eq!(again["state"], "cancelled");
        assert_eq!(owner.say("and now?").await, "Here again.");
        let asked = model.asked(3).await;
        let history = asked[2].all();
        let (_, results) = history.iter().find(|(role, _)| *role == MessageRole::Tool).unwrap();
        assert!(results.contains("no result was recorded"), "{results}");
    })
    .await;
}
