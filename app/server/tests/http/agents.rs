//! What an agent was not granted it neither sees nor can do, and every turn comes to an end.

use crate::world::{self, Client, Puppet, Setup, Text as _, call, client, say};
use famulus_core::model::ModelRequest;
use serde_json::{Value, json};

async fn agent(owner: &Client, definition: Value) -> String {
    let made = owner.post("/v1/agents", definition).await.ok();
    let name = made["name"].as_str().unwrap().to_owned();
    owner.open(&name).await
}

/// The marks at the end of a conversation's last message.
async fn sentinels(owner: &Client, conversation: &str) -> Vec<String> {
    let messages = owner.messages(conversation).await;
    let parts = messages.last().unwrap()["parts"].as_array().unwrap();
    let reasons = parts.iter().filter(|part| part["type"] == "sentinel");
    reasons.map(|part| part["reason"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_agent_sees_and_does_only_what_it_was_granted() {
    let add = json!({ "action": "upsert", "store": "memory", "content": "slipped in" });
    let model = Puppet::new(move |_, request| {
        if request.has_results() {
            return vec![say(request.last())];
        }
        vec![
            call("manage_knowledge", &add),
            call("manage_schedules", &json!({ "action": "list" })),
            call("manage_knowledge", &json!({ "action": "list", "store": "memory" })),
            call("rm", &json!({ "path": "/" })),
        ]
    });
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let kept = json!({ "kind": "memory", "body": "The cat is called Miso." });
        owner.post("/v1/knowledge", kept).await.ok();

        let unknown = json!({ "name": "odd", "tools": ["get_tme"] });
        let detail = owner.post("/v1/agents", unknown).await.refused(404);
        assert!(detail.contains("get_tme") && detail.contains("get_time"), "{detail}");

        let reader = json!({ "name": "reader", "tools": ["get_time", "manage_knowledge.list"] });
        let conversation = agent(owner, reader).await;
        let turn = owner.begin(&conversation, "go").await;
        let ended = owner.reaches(&turn, "complete").await;
        let asked = model.asked(1).await;
        assert_eq!(asked[0].tool_names(), ["get_time", "manage_knowledge"]);
        assert_eq!(asked[0].tools[1].schema["properties"]["action"]["enum"], json!(["list"]));
        assert!(asked[0].context.is_empty(), "only the main agent carries the memories");
        let results: Vec<&str> = ended["text"].as_str().unwrap().lines().collect();
        let text = results.join("\n");
        assert!(text.contains("\"upsert\" is not one of"), "{text}");
        assert!(text.contains("there is no tool `manage_schedules`"), "{text}");
        assert!(text.contains("The cat is called Miso."), "{text}");
        assert!(text.contains("there is no tool `rm`"), "{text}");
        let entries = owner.get("/v1/knowledge").await.ok();
        assert_eq!(entries["knowledge"].as_array().unwrap().len(), 1, "{entries}");

        // No grants are none, and so is a cap of zero.
        for narrow in
            [json!({ "name": "mute" }), json!({ "name": "text", "tools": ["*"], "step_cap": 0 })]
        {
            let before = model.times();
            let conversation = agent(owner, narrow).await;
            let turn = owner.begin(&conversation, "go").await;
            owner.reaches(&turn, "complete").await;
            let asked = model.asked(before + 1).await;
            assert!(asked[before].tools.is_empty());
        }
        assert_eq!(owner.get("/v1/knowledge").await.ok(), entries);
    })
    .await;
}

/// Calls `get_time` for each of these zones in turn, over and over; says so when it may call nothing.
fn circling(zones: &'static [&'static str]) -> impl Fn(usize, &ModelRequest) -> Vec<world::Do> {
    move |number, request| {
        if request.tools.is_empty() {
            return vec![say(format!("Told: {}", request.last()))];
        }
        vec![call("get_time", &json!({ "zone": zones[number % zones.len()] }))]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_goes_in_circles_is_ended_with_a_word_and_goes_on_when_told() {
    for (zones, steps) in [(&["UTC"][..], 3), (&["UTC", "Asia/Tokyo"], 4)] {
        let model = Puppet::new(circling(zones));
        world::run(Setup::new(model.clone()), async |world| {
            let owner = &world.owner;
            let turn = owner.begin("main", "go").await;
            let ended = owner.reaches(&turn, "complete").await;
            let text = ended["text"].as_str().unwrap();
            assert!(text.contains("the same calls came again and again"), "{text}");
            assert_eq!(sentinels(owner, "main").await, ["doom_loop"]);
            assert_eq!(model.times(), steps + 1, "the circle, and a word about it");
            let results = model.asked(steps + 1).await[steps].all();
            let refused = results.iter().filter(|(_, text)| text.starts_with("not run")).count();
            assert_eq!(refused, 1, "the call that closes the circle is not run: {results:?}");

            let path = format!("/v1/turns/{turn}/continue");
            let goes_on = owner.post(&path, json!({})).await.ok();
            assert_eq!(goes_on["disposition"], "started");
            let next = client::id_of(&goes_on, "turn_id");
            assert_ne!(next, turn);
            owner.reaches(&next, "complete").await;
            let asked = model.asked(steps + 2).await;
            assert!(asked[steps + 1].last().ends_with("Go on where you stopped."));
            assert!(!asked[steps + 1].tools.is_empty(), "it may call again");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_and_calls_are_counted() {
    const ZONES: &[&str] = &["UTC", "Asia/Tokyo", "Europe/Berlin", "Asia/Kolkata", "Africa/Cairo"];
    let model = Puppet::new(circling(ZONES));
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let tools = json!(["get_time"]);
        let few_steps = json!({ "name": "steps", "tools": tools, "step_cap": 2 });
        let few_calls = json!({ "name": "calls", "tools": tools, "budgets": { "read": 2 } });
        let limits = [
            (few_steps, "step_cap", "its number of steps", 3),
            (few_calls, "tool_budget", "used up its tool calls", 4),
        ];
        for (definition, sentinel, why, steps) in limits {
            let conversation = agent(owner, definition).await;
            let turn = owner.begin(&conversation, "go").await;
            let ended = owner.reaches(&turn, "complete").await;
            assert!(ended["text"].as_str().unwrap().contains(why), "{ended}");
            assert_eq!(ended["steps"], steps, "{ended}");
            assert_eq!(sentinels(owner, &conversation).await, [sentinel]);
        }
        let too_many = json!({ "name": "many", "step_cap": 201 });
        owner.post("/v1/agents", too_many).await.refused(400);
    })
    .await;
}
