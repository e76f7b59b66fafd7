//! Sandboxes of the crash tests. Mostly the service at which tools count plays a runner: it outlives this
//! process, runs a call once for its name, and knows afterwards whether it came. Tests of plugins have
//! those of the product.

use crate::tools::tell;
use async_trait::async_trait;
use famulus_core::{
    ids::PersonId,
    plugin::{Description, ToolDescription},
    runner::{Door, RunnerCredentials, Runners},
    sandbox::{
        PluginState, RunOutput, SandboxAnswer, SandboxCall, SandboxError, SandboxResult,
        SandboxRun, Sandboxes,
    },
};
use famulus_machine::Settings;
use famulus_server::plugins::{Machine, Plugins, Ports};
use famulus_store::Store;
use jiff::Timestamp;
use std::{io, net::SocketAddr, path::Path, sync::Arc};
use tokio::{net::TcpListener, sync::mpsc};

/// Doors of plugins that were opened and wait to be served.
const DOORS: usize = 16;

/// Sandboxes that the runner beside this program makes, with their folders below this one.
pub(crate) fn of_this_machine(
    folder: &Path,
    listeners: [&TcpListener; 2],
) -> io::Result<(Plugins, Option<mpsc::Receiver<Door>>)> {
    let runner = std::env::current_exe()?.with_file_name("famulus-runner");
    let mut settings = Settings::new(runner, folder.to_owned());
    settings.denied =
        listeners.into_iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
    let (doors, opened) = mpsc::channel(DOORS);
    let machine = Machine { settings, doors, allow_hosts: Vec::new() };
    Ok((Plugins::Machine(machine), Some(opened)))
}

/// The plugin `counter` with its tools `count` and `later`, whose result never comes.
pub(crate) fn counting(counter: SocketAddr) -> Plugins {
    let counting = Arc::new(Counting { counter });
    let managed = Arc::new(famulus_core::plugin::Unmanaged("they are counted"));
    Plugins::Given(Ports {
        sandboxes: counting.clone(),
        runners: counting,
        managed,
        installed: None,
    })
}

struct Counting {
    counter: SocketAddr,
}

const PLUGIN: &str = "counter";

fn revision() -> String {
    format!("sha256:{}", "0".repeat(64))
}

/// What a build would have said of it.
pub(crate) async fn describe(store: &Store) -> Result<(), famulus_store::Error> {
    let tool = |name: &str, is_async| ToolDescription {
        name: name.to_owned(),
        description: "Counts the call.".to_owned(),
        r#async: is_async,
        concurrent: false,
        parameters: serde_json::Map::new(),
    };
    let description = Description {
        plugin: PLUGIN.to_owned(),
        description: "Counts calls.".to_owned(),
        instructions: None,
        commit: None,
        config: Vec::new(),
        tools: vec![tool("count", false), tool("later", true)],
        contents: None,
    };
    store.describe(&revision(), &description).await.map(|_new| ())
}

#[async_trait]
impl Sandboxes for Counting {
    async fn plugins(&self) -> Result<Vec<PluginState>, SandboxError> {
        Ok(vec![PluginState {
            name: PLUGIN.to_owned(),
            ready: true,
            reason: "Serving".to_owned(),
            message: "it counts".to_owned(),
            revision: Some(revision()),
            commit: None,
            tools: vec!["count".to_owned(), "later".to_owned()],
            config_keys: Vec::new(),
            egress: "none".to_owned(),
            runners: 1,
            isolation: None,
        }])
    }

    async fn run(&self, call: SandboxCall) -> Result<SandboxAnswer, SandboxError> {
        let SandboxCall { id, tool, parameters, .. } = call;
        let line = format!("run_plugin_tool {id} {} {}\n", parameters["n"], parameters["at"]);
        let answer = tell(self.counter, &line).await.map_err(|error| lost(&error))?;
        Ok(if tool == "later" { SandboxAnswer::Running } else { ended(answer) })
    }

    async fn ask(
        &self,
        _plugin: &str,
        id: &str,
        _sent: Timestamp,
        _person: PersonId,
    ) -> Result<Option<SandboxAnswer>, SandboxError> {
        let answer = tell(self.counter, &format!("ask {id} 0 0\n")).await;
        let answer = answer.map_err(|error| lost(&error))?;
        Ok((answer == "counted").then(|| ended(answer)))
    }

    async fn acknowledge(&self, _plugin: &str, id: &str) {
        // A runner that cannot be reached keeps the result longer.
        let _kept = tell(self.counter, &format!("acknowledge {id} 0 0\n")).await;
    }

    async fn logs(&self, _plugin: &str) -> Result<Vec<String>, SandboxError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Runners for Counting {
    fn authenticate(&self, _: RunnerCredentials<'_>) -> Option<String> {
        None
    }

    async fn collect(
        &self,
        _plugin: &str,
        _id: &str,
        _delivery: &[u8],
        _person: PersonId,
    ) -> Result<SandboxResult, SandboxError> {
        Err(SandboxError::Unsupported("nothing is delivered here".to_owned()))
    }
}

fn ended(answer: String) -> SandboxAnswer {
    let run = SandboxRun {
        output: RunOutput::Text(answer),
        files: Vec::new(),
        notes: Vec::new(),
        millis: 0,
    };
    SandboxAnswer::Ended(SandboxResult { each: false, runs: vec![run] })
}

fn lost(error: &io::Error) -> SandboxError {
    SandboxError::Lost { plugin: PLUGIN.to_owned(), why: format!("the counter broke off: {error}") }
}
