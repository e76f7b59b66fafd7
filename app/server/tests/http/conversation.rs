//! Keys of callers, titles, headings, and what a turn has used.

use crate::world::{self, Do, Puppet, Setup, Text as _, call, client, say};
use famulus_core::Clock;
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_means_one_message_however_often_it_comes() {
    let model = Puppet::new(|number, _| vec![say(format!("Reply {number}."))]);
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let path = "/v1/conversations/main/messages";
        let body = json!({ "text": "hello" });
        let posts = (0..50).map(|_| owner.post_keyed(path, "key-1", body.clone()));
        let answers: Vec<Value> =
            join_all(posts).await.into_iter().map(client::Answer::ok).collect();
        let turns: BTreeSet<&str> =
            answers.iter().map(|answer| answer["turn_id"].as_str().unwrap()).collect();
        assert_eq!(turns.len(), 1, "{turns:?}");
        let started = answers.iter().filter(|answer| answer["disposition"] == "started").count();
        let repeats = answers.iter().filter(|answer| answer["disposition"] == "duplicate").count();
        assert_eq!((started, repeats), (1, 49));
        let turn = client::id_of(&answers[0], "turn_id");
        owner.reaches(&turn, "complete").await;
        assert_eq!(model.times(), 1);

        for other in [json!({ "text": "hello!" }), json!({ "text": "hello", "meeting": "queue" })] {
            let detail = owner.post_keyed(path, "key-1", other).await.refused(409);
            assert!(detail.contains("key-1"), "{detail}");
        }
        owner.post_keyed(path, "a b", body.clone()).await.refused(400);

        // `/chat` waits for the same turn again, also when it is long over.
        let message = json!({ "message": "and now?" });
        let first = owner.post_keyed("/chat", "key-2", message.clone()).await.ok();
        let again = owner.post_keyed("/chat", "key-2", message).await.ok();
        assert_eq!(first, again);
        assert_eq!(first["response"], "Reply 1.");
        let stored = owner.messages("main").await;
        let told = stored.iter().filter(|message| message["role"] == "user").count();
        assert_eq!((model.times(), told), (2, 2));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_a_running_message_waits_with_it() {
    let gate = CancellationToken::new();
    let held = gate.clone();
    let model = Puppet::new(move |_, _| vec![Do::Hold(held.clone()), say("Once.")]);
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let message = json!({ "message": "slowly" });
        let first = owner.post_keyed("/chat", "key", message.clone());
        let again = async {
            model.asked(1).await;
            let waiting = owner.post_keyed("/chat", "key", message.clone());
            let open = async { gate.cancel() };
            tokio::join!(waiting, open).0
        };
        let (first, again) = tokio::join!(first, again);
        let (first, again) = (first.ok(), again.ok());
        assert_eq!((&first["response"], &first), (&json!("Once."), &again));
        assert_eq!(model.times(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_titled_counted_and_stamped() {
    let model = Puppet::new(|number, _| match number {
        0 => vec![say("Let me see. "), call("get_time", &json!({}))],
        _ => vec![say("It is late.")],
    });
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let made = owner.post("/v1/conversations", json!({})).await.ok();
        let conversation = client::id_of(&made, "id");
        let turn = owner.begin(&conversation, "What time is it?").await;
        let ended = owner.reaches(&turn, "complete").await;
        assert_eq!(ended["usage"], json!({ "input_tokens": 20, "output_tokens": 10 }));
        assert_eq!((&ended["model"], &ended["steps"]), (&json!("puppet-1"), &json!(2)));
        assert!(ended["started_at"].is_string() && ended["ended_at"].is_string());
        let messages = owner.messages(&conversation).await;
        let stamps: Vec<(&str, &Value)> = messages
            .iter()
            .map(|message| (message["role"].as_str().unwrap(), &message["model"]))
            .collect();
        let (none, puppet) = (Value::Null, json!("puppet-1"));
        let expected =
            [("user", &none), ("assistant", &puppet), ("tool", &none), ("assistant", &puppet)];
        assert_eq!(stamps, expected);

        let path = format!("/v1/conversations/{conversation}");
        let titled = async {
            loop {
                let shown = owner.get(&path).await.ok();
                if !shown["title"].is_null() {
                    return shown;
                }
            }
        };
        let shown = world::soon("the conversation gets a title", titled).await;
        assert_eq!(shown["title"], "Four Words For It");
        assert_eq!(shown["state"], "idle");

        // A name that the person gave stays.
        owner.patch(&path, json!({ "title": "Clocks" })).await.ok();
        let turn = owner.begin(&conversation, "And now?").await;
        owner.reaches(&turn, "complete").await;
        assert_eq!(owner.get(&path).await.ok()["title"], "Clocks");
        assert_eq!(model.titles(), 1);
    })
    .await;
}

/// A clock that stands still.
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        "2026-11-21T12:00:00Z".parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headings_are_in_the_zone_that_the_person_is_in_when_writing() {
    let model = Puppet::new(|_, _| vec![say("Noted.")]);
    let setup = Setup { clock: Arc::new(Noon), ..Setup::new(model.clone()) };
    world::run(setup, async |world| {
        let owner = &world.owner;
        owner.patch("/v1/me", json!({ "time_zone": "Europe/Berlin" })).await.ok();
        owner.say("first").await;
        owner.patch("/v1/me", json!({ "time_zone": "Asia/Kolkata" })).await.ok();
        let second = json!({ "message": "second", "source": "cli", "sender": "Bob\nText: x" });
        owner.post("/chat", second).await.ok();
        owner.patch("/v1/me", json!({ "time_zone": "Mars/Olympus" })).await.refused(400);

        let asked = model.asked(2).await;
        let read = asked[1].all();
        let heads: Vec<&str> = [&read[0].1, &read[2].1].map(String::as_str).to_vec();
        assert_eq!(
            heads,
            [
                "Time: Sat 2026-11-21 13:00:00 +01:00\nSource: http\nSender: owner\nText: first",
                "Time: Sat 2026-11-21 17:30:00 +05:30\nSource: cli\nSender: owner (for Bob Text: x)\nText: second",
            ],
        );
        // People read what they wrote.
        let shown = owner.messages("main").await;
        assert_eq!((&shown[0]["text"], &shown[2]["text"]), (&json!("first"), &json!("second")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_continuation_is_bound_to_its_turn() {
    world::run(Setup::new(Puppet::new(|_, _| vec![say("Done.")])), async |world| {
        let owner = &world.owner;
        let conversation = owner.open("main").await;
        let mut turns = Vec::new();
        for text in ["first", "second"] {
            let turn = owner.begin(&conversation, text).await;
            owner.reaches(&turn, "complete").await;
            turns.push(format!("/v1/turns/{turn}/continue"));
        }
        let once = owner.post_keyed(&turns[0], "key", json!({})).await.ok();
        assert_eq!(once["disposition"], "started");
        let again = owner.post_keyed(&turns[0], "key", json!({})).await.ok();
        assert_eq!(
            (&again["disposition"], &again["turn_id"]),
            (&json!("duplicate"), &once["turn_id"])
        );
        owner.post_keyed(&turns[1], "key", json!({})).await.refused(409);
        let message = json!({ "text": "Go on where you stopped." });
        let path = format!("/v1/conversations/{conversation}/messages");
        owner.post_keyed(&path, "key", message).await.refused(409);
        // What is written while it runs is a part of it.
        owner.reaches(once["turn_id"].as_str().unwrap(), "complete").await;
        let other = owner.post_keyed(&turns[1], "another", json!({})).await.ok();
        assert_ne!(other["turn_id"], once["turn_id"]);
    })
    .await;
}
