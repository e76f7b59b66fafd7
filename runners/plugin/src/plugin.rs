//! The plugin as the harness sees it.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use famulus_protocol::{Check, Kind, Problem, Run, RunCall, ToolHealth};
use famulus_runner_harness::supervisor::{MemoryWatch, Supervisor};
use famulus_runner_harness::{Admitted, Answer, Context, Queue, Work, WorkHealth};
use futures::future::BoxFuture;

use crate::manifest::{self, Complaint, ToolManifest};
use crate::parameters;
use crate::run::Call;
use crate::self_test;
use crate::settings::Sandbox;
use crate::tree::{Tree, executable};

/// A plugin on disk.
pub struct Plugin {
    sandbox: Arc<Sandbox>,
    memory: Option<MemoryWatch>,
    /// What no tool may reach.
    hidden: Vec<PathBuf>,
}

impl Plugin {
    /// `hidden` are files that a self-test proves to be out of a tool's reach.
    pub fn new(sandbox: Sandbox, hidden: Vec<PathBuf>) -> Self {
        let memory = MemoryWatch::find(&sandbox.cgroups);
        Self { sandbox: Arc::new(sandbox), memory, hidden }
    }

    fn tree(&self) -> Result<Tree, Problem> {
        Tree::open(&self.sandbox.plugin).map_err(|error| {
            Problem::new(
                Kind::Manifest,
                format!("the plugin's folder cannot be opened: {error}"),
                "see whether its build succeeded",
            )
        })
    }

    fn tool(tree: &Tree, name: &str) -> Result<ToolManifest, Problem> {
        let known = tree.tools().unwrap_or_default();
        if !known.iter().any(|tool| tool == name) {
            return Err(Problem::new(
                Kind::NoTool,
                format!("the plugin has no tool `{}`", name.escape_debug()),
                list(tree, &known),
            ));
        }
        let tool = manifest::tool(tree, name).map_err(refusal)?;
        let entrypoint = format!("{name}/{}", tool.entrypoint);
        let wrong = tree.inside(&entrypoint).map_err(|error| error.to_string());
        wrong.and_then(|path| executable(&path)).map_err(|what| {
            refusal(Complaint {
                file: format!("{name}/manifest.json"),
                what: format!("key `entrypoint` names {entrypoint}, which cannot be run: {what}"),
                remedy: "correct the file or the key".to_owned(),
            })
        })?;
        Ok(tool)
    }
}

#[async_trait]
impl Work for Plugin {
    fn admit(&self, request: &RunCall, uploads: &[u64]) -> Result<Admitted, Problem> {
        let tree = self.tree()?;
        let plugin = manifest::plugin(&tree).map_err(refusal)?.name;
        let tool = Self::tool(&tree, &request.tool)?;
        let inputs = parameters::check(&tool, &request.parameters, uploads)?;
        let queue = if tool.is_concurrent { Queue::Concurrent } else { Queue::Serial };
        let answer = if tool.is_async { Answer::Later } else { Answer::Stream };
        let (sandbox, memory) = (Arc::clone(&self.sandbox), self.memory.clone());
        let call = Call { sandbox, memory, tree, plugin, tool };
        let each = inputs.each;
        let run = Box::new(move |context: Context| -> BoxFuture<'static, Vec<Run>> {
            Box::pin(call.run(inputs.runs, context))
        });
        Ok(Admitted { queue, answer, each, run })
    }

    fn health(&self) -> WorkHealth {
        let tree = match self.tree() {
            Ok(tree) => tree,
            Err(problem) => {
                return WorkHealth {
                    complaints: vec![problem.to_string()],
                    ..WorkHealth::default()
                };
            }
        };
        let mut health = WorkHealth::default();
        match manifest::plugin(&tree) {
            Ok(plugin) => health.plugin = Some(plugin.name),
            Err(complaint) => health.complaints.push(complaint.to_string()),
        }
        for name in tree.tools().unwrap_or_default() {
            match Self::tool(&tree, &name) {
                Ok(tool) => health.tools.push(ToolHealth {
                    name,
                    r#async: tool.is_async,
                    concurrent: tool.is_concurrent,
                }),
                Err(problem) => health.complaints.push(problem.to_string()),
            }
        }
        health
    }

    async fn self_test(&self, supervisor: &Supervisor, scratch: PathBuf) -> Vec<Check> {
        let mut checks = vec![self_test::manifests(&self.health().complaints)];
        checks.extend(self_test::sandbox(&self.sandbox, supervisor, scratch, &self.hidden).await);
        checks
    }
}

fn refusal(complaint: Complaint) -> Problem {
    let Complaint { file, what, remedy } = complaint;
    Problem::new(Kind::Manifest, format!("{file}: {what}"), remedy)
}

/// The tools there are, with what they take.
fn list(tree: &Tree, known: &[String]) -> String {
    let schemas = known.iter().filter_map(|name| manifest::tool(tree, name).ok());
    let schemas: Vec<String> = schemas.map(|tool| tool.schema()).collect();
    if schemas.is_empty() { "it has none".to_owned() } else { schemas.join("\n") }
}
