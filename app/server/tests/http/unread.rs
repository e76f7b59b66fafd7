//! What becomes of a message that joins a turn which then ends without reading it.

use crate::world::{self, Do, Puppet, Setup, Text as _, client, say};
use famulus_core::event::Event;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const MAIN: &str = "/v1/conversations/main/messages";

/// A model that holds its first answer, fails it when let go, and repeats every other last line.
fn fails_first(gate: &CancellationToken) -> std::sync::Arc<Puppet> {
    let held = gate.clone();
    Puppet::new(move |number, request| match number {
        0 => vec![say("So "), Do::Hold(held.clone()), Do::Refuse],
        _ => vec![say(format!("You said {}", last_word(&request.last())))],
    })
}

fn last_word(text: &str) -> String {
    text.split_whitespace().next_back().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_joins_a_turn_that_fails_gets_a_turn_of_its_own() {
    let gate = CancellationToken::new();
    let model = fails_first(&gate);
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let first = owner.begin("main", "first").await;
        model.asked(1).await;
        let second = owner.post_keyed(MAIN, "k2", json!({ "text": "second" })).await.ok();
        assert_eq!(
            (&second["disposition"], &second["turn_id"]),
            (&json!("steered"), &json!(first))
        );
        let queued = json!({ "text": "queued", "meeting": "queue" });
        let queued = client::id_of(&owner.post(MAIN, queued).await.ok(), "turn_id");
        let third = owner.send("main", "third").await;
        assert_eq!(third["disposition"], "steered");
        // Somebody sends the second once more, and waits for its answer.
        let again = owner.post_keyed("/chat", "k4", json!({ "message": "fourth" })).await.ok();
        assert_eq!(again["steered"], true);
        let waiting = owner.post_keyed("/chat", "k4", json!({ "message": "fourth" }));
        let failing = async {
            // By now it waits for the turn that the message is in.
            tokio::time::sleep(Duration::from_millis(500)).await;
            gate.cancel();
        };
        let (waited, ()) = tokio::join!(waiting, failing);
        let waited = waited.ok();

        let failed = owner.reaches(&first, "failed").await;
        let next = client::id_of(&failed, "successor_id");
        let answered = owner.reaches(&next, "complete").await;
        assert_eq!(answered["text"], "You said fourth");
        assert_eq!(answered["successor_id"], Value::Null);
        owner.reaches(&queued, "complete").await;
        let asked = model.asked(3).await;
        assert_eq!(last_word(&asked[1].last()), "queued", "what is queued comes first");
        let read: Vec<String> =
            asked[2].all().iter().rev().take(3).map(|(_, text)| last_word(text)).collect();
        assert_eq!(read, ["fourth", "third", "second"]);

        let repeated = owner.post_keyed(MAIN, "k2", json!({ "text": "second" })).await.ok();
        assert_eq!(repeated["disposition"], "duplicate");
        assert_eq!(repeated["turn_id"], json!(next), "a repeated key names the turn that answers");
        assert_eq!(waited["response"], "You said fourth", "{waited}");
        assert_eq!(waited["turn_id"], json!(next));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_moves_once() {
    let gates = [CancellationToken::new(), CancellationToken::new()];
    let held = gates.clone();
    let model = Puppet::new(move |number, _| match held.get(number) {
        Some(gate) => vec![Do::Hold(gate.clone()), Do::Refuse],
        None => vec![say("at last")],
    });
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let first = owner.begin("main", "first").await;
        model.asked(1).await;
        owner.send("main", "second").await;
        gates[0].cancel();
        let next = client::id_of(&owner.reaches(&first, "failed").await, "successor_id");
        model.asked(2).await;
        let third = owner.send("main", "third").await;
        assert_eq!((&third["disposition"], &third["turn_id"]), (&json!("steered"), &json!(next)));
        gates[1].cancel();
        // The second message has had its two turns; the third moves on.
        let last = client::id_of(&owner.reaches(&next, "failed").await, "successor_id");
        owner.reaches(&last, "complete").await;
        let asked = model.asked(3).await;
        let of_last =
            asked[2].messages.iter().filter(|m| m.turn.is_some_and(|t| t.to_string() == last));
        assert_eq!(of_last.count(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_a_stop_begins_a_turn() {
    // It says a word and thinks about the next.
    let model = Puppet::new(|_, request| match last_word(&request.last()).as_str() {
        "talk" | "and" => vec![say("One "), Do::Hold(CancellationToken::new())],
        heard => vec![say(format!("You said {heard}"))],
    });
    world::run(Setup::new(model), async |world| {
        let owner = &world.owner;
        for number in 0..10 {
            let stopped = owner.begin("main", "talk").await;
            tokio::time::sleep(Duration::from_millis(20 * number)).await;
            owner.send("main", "and").await;
            owner.post("/v1/conversations/main/stop", json!({})).await.ok();
            let sent = owner.send("main", &format!("m{number}")).await;
            assert_eq!(sent["disposition"], "started", "{sent}");
            owner.reaches(&stopped, "cancelled").await;
            let answered = owner.reaches(&client::id_of(&sent, "turn_id"), "complete").await;
            assert_eq!(answered["text"], format!("You said m{number}"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_turn_that_is_stopped_is_told() {
    let model = Puppet::new(|_, _| vec![say("One "), Do::Hold(CancellationToken::new())]);
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let mut watcher = owner.watch("main").await;
        let stopping = async {
            let is_word = |event: &Event| matches!(event, Event::Delta { .. });
            watcher.until("a word is said", is_word).await;
            owner.post("/v1/conversations/main/stop", json!({})).await.ok();
        };
        let (told, ()) = tokio::join!(owner.chat("hello"), stopping);
        assert_eq!(told["state"], "cancelled");
        assert_eq!(told["response"], "One \n\nStopped.");
    })
    .await;
}
