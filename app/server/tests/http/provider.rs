//! The same conversation over a provider's wire, on good days and on bad ones.

use crate::world::{self, Setup, client};
use famulus_core::event::{Event, Status};
use famulus_models::scripted::{Scenario, Script, Scripted, Step};
use famulus_server::config::Config;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const KEY: &str = "sk-test-0123456789";
/// A reply of some length from the demo model.
const LONG: &str = "What can you do?";

/// For a stream that says nothing: less than a test waits, more than a busy machine stands still.
const SILENCE: Duration = Duration::from_secs(3);
/// Before the first word, and another time than between two, so that one is told from the other.
const FIRST_SILENCE: Duration = Duration::from_secs(5);

/// An assistant whose model is this server, with little patience.
fn over(server: &Scripted, key: &str) -> Setup {
    let model = famulus_models::Config {
        base_url: Some(server.base_url()),
        name: Some("demo-over-the-wire".into()),
        api_key: Some(key.into()),
        ..famulus_models::Config::default()
    };
    Setup::configured(model.clone()).set(|config: &mut Config| {
        config.model = model;
        config.turns.silence_seconds = SILENCE.as_secs();
        config.turns.first_silence_seconds = FIRST_SILENCE.as_secs();
        config.turns.model_retries = 1;
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_conversation_goes_over_the_wire() {
    let server = Scripted::listen(0, Some(KEY)).await.unwrap();
    let setup = over(&server, KEY);
    world::run(setup, async |world| {
        let owner = &world.owner;
        owner.say("Remember that my cat is called Miso").await;
        let reply = owner.say("What is my cat called?").await;
        assert!(reply.contains("Miso"), "{reply}");

        let listed = owner.get("/v1/knowledge").await.ok();
        let memory = client::id_of(&listed["knowledge"][0], "id");
        owner.delete(&format!("/v1/knowledge/{memory}")).await.ok();
        let changed = json!({ "kind": "memory", "body": "My cat is called Yuzu." });
        owner.post("/v1/knowledge", changed).await.ok();
        let reply = owner.chat("What is my cat called?").await;
        let text = reply["response"].as_str().unwrap();
        assert!(text.contains("Yuzu") && !text.contains("Miso"), "{text}");

        let turn = owner.turn(&client::id_of(&reply, "turn_id")).await;
        assert_eq!(turn["model"], "demo-over-the-wire");
        assert!(turn["usage"]["input_tokens"].as_u64().unwrap() > 0, "{turn}");
        assert_eq!(owner.get("/v1/me").await.ok()["model"], "demo-over-the-wire");
        let received = server.received();
        assert!(received.len() >= 6, "three replies, two of them with tools, and a title");
        let bearer = format!("Bearer {KEY}");
        assert!(received.iter().all(|r| r.header("authorization") == Some(bearer.as_str())));
        // What stays the same over a conversation stands first, byte for byte.
        let systems: Vec<String> = received
            .iter()
            .filter_map(|r| r.json()["messages"][0]["content"].as_str().map(str::to_owned))
            .filter(|text| text.starts_with("You are"))
            .map(|text| text.split("Memories:").next().unwrap_or_default().trim_end().to_owned())
            .collect();
        assert!(systems.windows(2).all(|two| two[0] == two[1]), "{systems:?}");
    })
    .await;
}

/// What bad days make of a reply that would be this one.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_breaks_off_goes_on_where_it_ended() {
    let server = Scripted::start().await.unwrap();
    let setup = over(&server, "unused");
    world::run(setup, async |world| {
        let owner = &world.owner;
        let whole = owner.say(LONG).await;
        owner.titled().await;
        let days: [(&str, Scenario); 5] = [
            ("cut", Scenario::Cut { bytes: 2_000 }),
            ("an end without a word", Scenario::End { bytes: 2_000 }),
            ("an event that is no JSON", Scenario::Malformed),
            ("an error in the stream", Scenario::ErrorInStream),
            ("silence in the middle", silent_after(&whole, 3)),
        ];
        for (what, day) in days {
            let conversation = owner.open("main").await;
            let mut watcher = owner.watch(&conversation).await;
            server.push(day);
            let asked = json!({ "message": LONG, "conversation_id": conversation });
            let reply = owner.post("/chat", asked).await.ok();
            assert_eq!(reply["state"], "complete", "{what}: {reply}");
            assert_eq!(reply["response"], json!(whole), "{what}");
            assert_eq!(watcher.whole().await, whole, "{what}: nothing missing, nothing twice");
            let says_so = |event: &Event| {
                let Event::Status { status, .. } = event else { return false };
                matches!(status, Status::Error { retrying: true, .. })
            };
            assert!(watcher.seen.iter().any(|seen| says_so(&seen.event)), "{what}");

            let messages = owner.messages(&conversation).await;
            let told: String = messages[1..].iter().map(|m| m["text"].as_str().unwrap()).collect();
            assert_eq!((messages.len(), &told), (3, &whole), "{what}: two pieces in the record");
            let mark = messages[1]["parts"].as_array().unwrap().last().unwrap();
            assert_eq!(mark["reason"], "interrupted", "{what}");
            let turn = owner.turn(&client::id_of(&reply, "turn_id")).await;
            assert_eq!(turn["text"], json!(whole), "{what}");
        }
    })
    .await;
}

/// A good beginning, and then nothing.
fn silent_after(whole: &str, words: usize) -> Scenario {
    let send = |word| {
        let delta = json!({ "choices": [{ "index": 0, "delta": { "content": word } }] });
        Step::Send(format!("data: {delta}\n\n").into())
    };
    let said = whole.split_inclusive(' ').take(words).map(send);
    Scenario::Script(Script::events(said.chain([Step::Hang]).collect()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_asks_for_time_gets_it() {
    let server = Scripted::start().await.unwrap();
    let setup = over(&server, "unused");
    world::run(setup, async |world| {
        let owner = &world.owner;
        owner.say(LONG).await;
        owner.titled().await;
        let before = server.received().len();
        for (day, least) in [
            (Scenario::Busy { retry_after: "1.5".into() }, Duration::from_millis(1500)),
            (Scenario::Status(500), Duration::from_millis(750)),
            (Scenario::Deaf, FIRST_SILENCE),
        ] {
            server.push(day);
            let began = Instant::now();
            owner.say(LONG).await;
            let took = began.elapsed();
            assert!(took >= least && took < least + Duration::from_secs(15), "{took:?}");
        }
        assert_eq!(server.received().len(), before + 6, "each was asked for once more");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_for_good_is_told_plainly() {
    let server = Scripted::listen(0, Some(KEY)).await.unwrap();
    let setup = over(&server, KEY);
    world::run(setup, async |world| {
        let owner = &world.owner;
        for _ in 0..2 {
            server.push(Scenario::Status(500));
        }
        let reply = owner.chat(LONG).await;
        let text = reply["response"].as_str().unwrap();
        assert_eq!(reply["state"], "failed", "{reply}");
        assert!(text.contains("status 500") && text.contains("a bad day"), "{text}");
        let turn = owner.turn(&client::id_of(&reply, "turn_id")).await;
        assert_eq!((&turn["state"], &turn["error"]), (&json!("failed"), &json!(text)));
        assert_eq!(server.received().len(), 2);

        // What was said before it failed is kept, and the failure is told beside it.
        server.push(Scenario::Cut { bytes: 2_000 });
        server.push(Scenario::Status(500));
        let reply = owner.chat(LONG).await;
        let text = reply["response"].as_str().unwrap();
        assert_eq!(reply["state"], "failed", "{reply}");
        assert!(text.contains("status 500"), "the caller hears that it failed: {text}");

        // The next message finds everything in order.
        let reply = owner.say(LONG).await;
        assert!(!reply.contains("status 500"), "{reply}");
    })
    .await;

    let setup = over(&server, "sk-another");
    world::run(setup, async |world| {
        let before = server.received().len();
        let reply = world.owner.chat(LONG).await;
        let text = reply["response"].as_str().unwrap();
        assert_eq!(reply["state"], "failed", "{reply}");
        assert!(text.contains("`model.api_key`"), "{text}");
        assert!(!text.contains("sk-another"), "{text}");
        assert_eq!(server.received().len(), before + 1, "a wrong key is not tried again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_fit_goes_back_with_its_place() {
    let server = Scripted::start().await.unwrap();
    let setup = over(&server, "unused");
    world::run(setup, async |world| {
        let owner = &world.owner;
        let calls = [
            ("get_time", r#"{"zone": 5}"#, "at arguments/zone: 5 is not of type \"string\""),
            ("get_time", r#"{"zone": "#, "not valid JSON"),
            ("manage_knowledge", r#"{"action": "burn"}"#, "(schema /properties/action/enum)"),
            ("get_tme", "{}", "there is no tool `get_tme`; the tools are: get_time"),
        ];
        let made = calls.map(|(name, arguments, _)| (name.to_owned(), arguments.to_owned()));
        server.push(Scenario::Calls(made.to_vec()));
        server.push(Scenario::Text("Corrected.".into()));
        assert_eq!(owner.say("What time is it?").await, "Corrected.");
        let received = server.received()[1].json();
        let results: Vec<&str> = received["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        assert_eq!(results.len(), calls.len(), "{results:?}");
        for ((_, _, expected), result) in calls.iter().zip(results) {
            assert!(result.starts_with("[error] ") && result.contains(expected), "{result}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_nothing_is_asked_for_again_once() {
    let server = Scripted::start().await.unwrap();
    let setup = over(&server, "unused");
    world::run(setup, async |world| {
        let owner = &world.owner;
        let mut watcher = owner.watch("main").await;
        server.push(Scenario::Text(" \n ".into()));
        server.push(Scenario::Text("Here I am.".into()));
        assert_eq!(owner.say("Are you there?").await, "Here I am.");
        assert_eq!(watcher.whole().await, "Here I am.", "a viewer holds what the record holds");
        owner.titled().await;

        server.push(Scenario::Text(" \n ".into()));
        server.push(Scenario::Text("\n".into()));
        let reply = owner.chat("And now?").await;
        assert_eq!(reply["state"], "complete", "{reply}");
        assert_eq!(reply["response"].as_str().unwrap().trim(), "", "{reply}");
        let messages = owner.messages("main").await;
        assert!(messages.iter().all(|m| m["role"] != "assistant" || m["text"] != " \n "));
        assert_eq!(messages.last().unwrap()["has_text"], false);

        // Nothing said is nothing that a provider refuses to read again.
        owner.say(LONG).await;
    })
    .await;
}
