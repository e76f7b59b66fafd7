//! What the tests of this crate stand on: a catalogue over stores in memory, and one person.

use crate::builtin::Ports;
use crate::catalogue::Catalogue;
use crate::fake::plugins::{
    FakeBlobs, FakeManaged, FakeRevisions, FakeSandboxes, Play, digest, plugin, result,
};
use crate::fake::{FakeKnowledge, FakePost, FakeSchedules, FakeSpeaker, HandClock, ways};
use crate::plugins::PluginPorts;
use crate::tool::Tool;
use famulus_core::Clock;
use famulus_core::agent::Grants;
use famulus_core::ids::{AgentId, ConversationId, PersonId, TurnId};
use famulus_core::message::{Provenance, ToolCall};
use famulus_core::person::{Person, Role};
use famulus_core::plugin::{Description, ToolDescription};
use famulus_core::sandbox::{PluginState, RunOutput, SandboxCall};
use famulus_core::tool::{CallContext, CallKey, CheckedCall, OwnerWords, ToolOutput, Tools as _};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) struct Bench {
    pub(crate) catalogue: Catalogue,
    pub(crate) clock: Arc<HandClock>,
    pub(crate) sandboxes: Arc<FakeSandboxes>,
    pub(crate) revisions: Arc<FakeRevisions>,
    pub(crate) blobs: Arc<FakeBlobs>,
    pub(crate) post: Arc<FakePost>,
    pub(crate) managed: Arc<FakeManaged>,
    /// Of the next call; its key is new for each.
    pub(crate) context: CallContext,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Vec::new())
    }

    pub(crate) fn with(extra: Vec<Arc<dyn Tool>>) -> Self {
        let city = |call: &SandboxCall| {
            let output = RunOutput::Json(call.parameters.to_string());
            match call.tool.as_str() {
                "watch" => Play::Later,
                _ => Play::End(result(output)),
            }
        };
        Self::made(extra, FakeSandboxes::new(plugins(), city))
    }

    /// With plugins whose calls come to what `plan` says.
    pub(crate) fn playing(plan: impl Fn(&SandboxCall) -> Play + Send + Sync + 'static) -> Self {
        Self::made(Vec::new(), FakeSandboxes::new(plugins(), plan))
    }

    fn made(extra: Vec<Arc<dyn Tool>>, sandboxes: Arc<FakeSandboxes>) -> Self {
        let clock = HandClock::at("2026-05-01T10:00:00Z".parse().unwrap());
        let (revisions, blobs) = (Arc::<FakeRevisions>::default(), Arc::<FakeBlobs>::default());
        revisions.descriptions.lock().insert(digest("weather"), weather());
        let (post, managed) = (Arc::<FakePost>::default(), Arc::<FakeManaged>::default());
        let ports = Ports {
            post: post.clone(),
            plugins: PluginPorts {
                sandboxes: sandboxes.clone(),
                revisions: revisions.clone(),
                late: revisions.clone(),
                blobs: blobs.clone(),
                managed: managed.clone(),
            },
            ..Self::ports(&clock)
        };
        let context = CallContext {
            key: CallKey { turn: TurnId::new(), step: 0, call: 0, item: 0 },
            person: Person {
                id: PersonId::new(),
                name: "Ada".into(),
                role: Role::Owner,
                time_zone: "Europe/Berlin".into(),
                language: "en".into(),
            },
            agent: AgentId::new(),
            grants: Grants::all(),
            conversation: ConversationId::new(),
            origin: None,
            began_by: Provenance::Owner,
            owner: OwnerWords::default(),
            cancel: CancellationToken::new(),
        };
        let catalogue = Catalogue::with(&ports, extra).unwrap();
        Self { catalogue, clock, sandboxes, revisions, blobs, post, managed, context }
    }

    pub(crate) fn ports(clock: &Arc<HandClock>) -> Ports {
        let clock: Arc<dyn Clock> = Arc::<HandClock>::clone(clock);
        let revisions = Arc::<FakeRevisions>::default();
        Ports {
            plugins: PluginPorts {
                sandboxes: FakeSandboxes::new(Vec::new(), |_| Play::Later),
                revisions: revisions.clone(),
                late: revisions,
                blobs: Arc::<FakeBlobs>::default(),
                managed: Arc::<FakeManaged>::default(),
            },
            knowledge: FakeKnowledge::new(Arc::clone(&clock)),
            schedules: FakeSchedules::new(Arc::clone(&clock)),
            post: Arc::<FakePost>::default(),
            ways: ways(),
            speaker: Some(Arc::new(FakeSpeaker)),
            clock,
        }
    }

    /// Calls with the next key.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> ToolOutput {
        self.context.key.call += 1;
        self.repeat(tool, arguments).await
    }

    /// Calls with the key of the last call, as after a crash.
    pub(crate) async fn repeat(&self, tool: &str, arguments: Value) -> ToolOutput {
        let call = call_of(tool, &arguments.to_string());
        match self.check(&call) {
            Ok(checked) => checked.run(&self.context).await,
            Err(refusal) => refusal,
        }
    }

    pub(crate) fn check(&self, call: &ToolCall) -> Result<Arc<dyn CheckedCall + '_>, ToolOutput> {
        self.catalogue.checked(call, &self.context.grants)
    }

    /// Calls, and reads the JSON of a result.
    pub(crate) async fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let output = self.call(tool, arguments).await;
        let ToolOutput::Json(text) = &output else { panic!("{tool} gave {output:?}") };
        serde_json::from_str(text).unwrap()
    }

    /// Calls, and reads the text of an error.
    pub(crate) async fn error(&mut self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        let ToolOutput::Error(text) = output else { panic!("{tool} gave {output:?}") };
        text
    }
}

/// One that serves, one of which nothing is permitted, one that was never built.
fn plugins() -> Vec<PluginState> {
    let unbuilt = PluginState {
        ready: false,
        reason: "Building".into(),
        message: "its first build runs".into(),
        revision: None,
        ..plugin("sleepy", &[])
    };
    vec![plugin("hidden", &[]), unbuilt, plugin("weather", &["look", "watch"])]
}

fn weather() -> Description {
    let parameters = serde_json::json!({
        "city": {"type": "string", "description": "Where."},
        "map": {"type": "file", "description": "A map."},
    });
    let tool = |name: &str, description: &str, is_async, parameters: Value| ToolDescription {
        name: name.into(),
        description: description.into(),
        r#async: is_async,
        concurrent: false,
        parameters: parameters.as_object().cloned().unwrap(),
    };
    Description {
        plugin: "weather".into(),
        description: "Knows the weather.".into(),
        instructions: Some("Name a city.".into()),
        commit: None,
        config: Vec::new(),
        tools: vec![
            tool("look", "Looks.", false, parameters),
            tool("watch", "Watches.", true, serde_json::json!({})),
            tool("erase", "Not permitted.", false, serde_json::json!({})),
        ],
        contents: None,
    }
}

pub(crate) fn call_of(tool: &str, arguments: &str) -> ToolCall {
    ToolCall { id: "c1".into(), name: tool.into(), arguments: arguments.into() }
}
