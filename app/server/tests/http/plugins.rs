//! Plugins in a conversation, with everything real but the model and the sandbox.

use crate::world::{self, Client, Puppet, Setup, Text as _, World, call, client, say, soon};
use async_trait::async_trait;
use famulus_core::{
    ids::PersonId,
    plugin::{Description, ToolDescription},
    runner::{RunnerCredentials, Runners},
    sandbox::{RunOutput, SandboxAnswer, SandboxError, SandboxResult},
};
use famulus_server::plugins::{Plugins, Ports};
use famulus_tools::fake::plugins::{FakeSandboxes, Play, digest, plugin, result};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Believes everybody who says `yes`.
pub(crate) struct Credulous;

#[async_trait]
impl Runners for Credulous {
    fn authenticate(&self, credentials: RunnerCredentials<'_>) -> Option<String> {
        (credentials.bearer == "yes").then(|| credentials.plugin.to_owned())
    }

    async fn collect(
        &self,
        _plugin: &str,
        _id: &str,
        delivery: &[u8],
        _person: PersonId,
    ) -> Result<SandboxResult, SandboxError> {
        let said = String::from_utf8(delivery.to_vec()).unwrap();
        Ok(result(RunOutput::Text(said)))
    }
}

/// A setup whose model calls `tool` once, and then says what it read.
fn setup(tool: &'static str, sandboxes: &Arc<FakeSandboxes>) -> (Arc<Puppet>, Setup) {
    let model = Puppet::new(move |_, request| {
        let asked = request.messages.iter().any(|message| message.calls().next().is_some());
        if asked {
            vec![say(format!("I read: {}", request.last()))]
        } else {
            let parameters = json!({"city": "Berlin"});
            let arguments = json!({"plugin": "weather", "tool": tool, "parameters": parameters});
            vec![call("run_plugin_tool", &arguments)]
        }
    });
    let ports = Ports {
        sandboxes: sandboxes.clone(),
        runners: Arc::new(Credulous),
        managed: Arc::new(famulus_core::plugin::Unmanaged("they are fake")),
        installed: None,
    };
    let setup = Setup { plugins: Plugins::Given(ports), ..Setup::new(model.clone()) };
    (model, setup)
}

pub(crate) fn weather(plan: impl Fn() -> Play + Send + Sync + 'static) -> Arc<FakeSandboxes> {
    FakeSandboxes::new(vec![plugin("weather", &["look", "watch"])], move |_| plan())
}

/// Describes the revision of `weather` as a build does, at the callback listener.
pub(crate) async fn describe(world: &World) {
    let tool = |name: &str, is_async| ToolDescription {
        name: name.into(),
        description: "d".into(),
        r#async: is_async,
        concurrent: false,
        parameters: serde_json::Map::new(),
    };
    let description = Description {
        plugin: "weather".into(),
        description: "Knows the weather.".into(),
        instructions: None,
        commit: None,
        config: Vec::new(),
        tools: vec![tool("look", false), tool("watch", true)],
        contents: None,
    };
    let name = digest("weather");
    let hex = name.strip_prefix("sha256:").unwrap();
    let path = format!("/internal/v1/revisions/{hex}/description");
    let told = world.at_sandbox_door(Method::PUT, &path).json(&description).send().await.unwrap();
    assert_eq!(told.status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_called_in_a_conversation_and_its_result_let_go_once_it_is_recorded() {
    let sandboxes = weather(|| Play::End(result(RunOutput::Text("sunny".into()))));
    let (model, setup) = setup("look", &sandboxes);
    world::run(setup, async |world| {
        describe(world).await;
        let reply = world.owner.say("How is the weather?").await;
        assert!(reply.starts_with("I read: --- weather/look, output; data of a plugin"), "{reply}");
        assert!(reply.contains("\nsunny\n"), "{reply}");
        let calls = sandboxes.calls();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].token, None);
        assert_eq!(sandboxes.acknowledged(), [calls[0].id.clone()]);
        let tools = model.asked(1).await[0].tool_names().join(" ");
        assert!(tools.contains("manage_plugins") && tools.contains("run_plugin_tool"), "{tools}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_result_begins_a_turn_of_its_own() {
    let sandboxes = weather(|| Play::Later);
    let (model, setup) = setup("watch", &sandboxes);
    world::run(setup, async |world| {
        describe(world).await;
        let owner = &world.owner;
        let conversation = owner.open("main").await;
        let turn = owner.begin(&conversation, "Watch the weather.").await;
        let ended = owner.reaches(&turn, "complete").await;
        assert!(ended["text"].as_str().unwrap().contains("is running; its call id is"), "{ended}");

        let call = sandboxes.calls().pop().unwrap();
        let deliver = async || {
            let path = format!("/internal/v1/calls/{}/result", call.id);
            let request = world.at_sandbox_door(Method::POST, &path);
            let token = call.token.clone().unwrap();
            let request = request.header("famulus-call-token", token).body("storm at eight");
            request.send().await.unwrap().status().as_u16()
        };
        assert_eq!(deliver().await, 204);
        let asked = model.asked(3).await;
        let heading = asked[2].all().pop().unwrap().1;
        assert!(heading.contains("Source: callback\nSender: weather/watch\n"), "{heading}");
        assert!(heading.contains("\nstorm at eight\n"), "{heading}");
        assert_eq!(deliver().await, 410);
        // The process may die between message and note: the runner comes again, and finds it there.
        world.database.execute("update sandbox_call set state = 'expected'").await;
        assert_eq!(deliver().await, 204);
        assert_eq!(deliver().await, 410);
        settled(owner, &conversation, 2).await;
        assert_eq!(sandboxes.acknowledged(), [call.id.clone(), call.id.clone()]);
        assert_eq!(model.times(), 3, "it came once");
    })
    .await;
}

/// Waits until so many turns of the conversation have ended.
async fn settled(owner: &Client, conversation: &str, turns: usize) {
    let replies = async {
        loop {
            let messages = owner.messages(conversation).await;
            let is_reply =
                |message: &&Value| message["role"] == "assistant" && message["has_text"] == true;
            if messages.iter().filter(is_reply).count() >= turns {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(15)).await;
        }
    };
    soon("the turns end", replies).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_ends_the_call() {
    let never = CancellationToken::new();
    let held = never.clone();
    let sandboxes =
        weather(move || Play::Hold(held.clone(), result(RunOutput::Text(String::new()))));
    let (_model, setup) = setup("look", &sandboxes);
    world::run(setup, async |world| {
        describe(world).await;
        let owner = &world.owner;
        let conversation = owner.open("main").await;
        let turn = owner.begin(&conversation, "How is the weather?").await;
        let running = async {
            while sandboxes.calls().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        soon("the call runs", running).await;
        owner.send(&conversation, "/stop").await;
        owner.reaches(&turn, "cancelled").await;
        let call = sandboxes.calls().pop().unwrap();
        soon("the call is told", call.cancel.cancelled()).await;
        never.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_taken_over_asks_before_it_says_that_it_does_not_know() {
    let never = CancellationToken::new();
    let held = never.clone();
    let sandboxes =
        weather(move || Play::Hold(held.clone(), result(RunOutput::Text("never".into()))));
    let (_model, first) = setup("look", &sandboxes);
    world::run(first, async |world| {
        describe(world).await;
        let conversation = world.owner.open("main").await;
        let turn = world.owner.begin(&conversation, "How is the weather?").await;
        let running = async {
            while sandboxes.calls().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        soon("the call runs", running).await;
        // The runner goes on without the one who asked it.
        let id = sandboxes.calls()[0].id.clone();
        let (_, second) = setup("look", &sandboxes);
        let second = world.another(second).await;
        sandboxes.keep(&id, SandboxAnswer::Ended(result(RunOutput::Text("rain".into()))));
        world.end_first().await;
        let ended = second.reaches(&turn, "complete").await;
        assert!(ended["text"].as_str().unwrap().contains("\nrain\n"), "{ended}");
        assert_eq!(sandboxes.calls().len(), 1, "it ran once");
        assert!(!sandboxes.calls()[0].cancel.is_cancelled(), "nobody ended it");
        assert_eq!(sandboxes.acknowledged(), [id]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_database_may_be_shared_plugins_are_refused_in_plain_words() {
    let model = Puppet::new(|number, request| match number {
        0 => vec![call("manage_plugins", &json!({"action": "list"}))],
        _ => vec![say(request.last())],
    });
    world::run(Setup::new(model), async |world| {
        let reply = world.owner.say("Which plugins are there?").await;
        assert!(
            reply.contains("plugins do not run here: other processes may serve the same database"),
            "{reply}"
        );
        let refused = client::answer(world.owner.request(Method::GET, "/v1/plugins")).await;
        assert!(refused.refused(409).contains("plugins do not run here"));
    })
    .await;
}
