//! The plugin as the harness sees it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use famulus_protocol::{Check, Failure, Kind, Outcome, Problem, Reason, Run, RunCall, ToolHealth};
use famulus_runner_harness::pieces::Pieces;
use famulus_runner_harness::supervisor::{MemoryWatch, Supervisor};
use famulus_runner_harness::{Admitted, Answer, Context, Queue, Work, WorkHealth};
use futures::future::BoxFuture;
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::budget::{self, BudgetMeter};
use crate::keeping::Keeping;
use crate::parameters::{self, Input};
use crate::readiness::Readiness;
use crate::run::Call;
use crate::self_test;
use crate::settings::Sandbox;
use crate::switch::between_calls;
use famulus_bundle::manifest::{self, ManifestError, ToolManifest};
use famulus_bundle::{Tree, executable};

/// A plugin on disk. Clones are the same one.
#[derive(Clone)]
pub struct Plugin {
    shared: Arc<Shared>,
}

struct Shared {
    sandbox: Arc<Sandbox>,
    memory: Option<MemoryWatch>,
    /// What no tool may reach.
    hidden: Vec<PathBuf>,
    readiness: Readiness,
    meter: Arc<BudgetMeter>,
    /// In a cluster.
    keeping: Option<Keeping>,
    /// Held for reading by each call that runs, for writing by who exchanges the tree.
    gate: Arc<RwLock<()>>,
}

/// A request that fits the tree as it is.
struct Prepared {
    call: Call,
    inputs: Vec<Input>,
    each: bool,
}

impl Plugin {
    /// `hidden` are files that a self-test proves to be out of a tool's reach.
    pub fn new(sandbox: Sandbox, hidden: Vec<PathBuf>, keeping: Option<Keeping>) -> Self {
        let memory = MemoryWatch::find(&sandbox.cgroups);
        let meter = Arc::new(BudgetMeter::new(&sandbox));
        let (sandbox, readiness, gate) = (Arc::new(sandbox), Readiness::default(), Arc::default());
        let shared = Shared { sandbox, memory, hidden, readiness, meter, keeping, gate };
        Self { shared: Arc::new(shared) }
    }

    /// Measures what it keeps, for as long as the runner serves.
    pub async fn keep_budget(self, shutdown: CancellationToken) {
        budget::keep(&self.shared.meter, &self.shared.readiness, shutdown).await;
    }

    /// Whether its code may run at all.
    pub fn is_isolated(&self) -> bool {
        self.shared.readiness.now().is_isolated()
    }

    /// Where the plugin's tree is found.
    pub fn path(&self) -> &Path {
        &self.shared.sandbox.plugin
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.shared.sandbox
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.shared.readiness
    }

    pub(crate) fn gate(&self) -> &Arc<RwLock<()>> {
        &self.shared.gate
    }

    fn keeping(&self) -> Result<&Keeping, Problem> {
        self.shared.keeping.as_ref().ok_or_else(|| {
            Problem::new(
                Kind::NoRoute,
                "what this runner's plugin keeps is nobody's to ask for",
                "copy its folder: it is where the runner was told that the plugin is",
            )
        })
    }

    fn tree(&self) -> Result<Tree, Problem> {
        Tree::open(&self.shared.sandbox.plugin).map_err(|error| {
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
            refusal(ManifestError {
                file: format!("{name}/manifest.json"),
                what: format!("key `entrypoint` names {entrypoint}, which cannot be run: {what}"),
                remedy: "correct the file or the key".to_owned(),
            })
        })?;
        Ok(tool)
    }

    fn prepare(&self, request: &RunCall, uploads: &[u64]) -> Result<Prepared, Problem> {
        let tree = self.tree()?;
        let plugin = manifest::plugin(&tree).map_err(refusal)?.name;
        let tool = Self::tool(&tree, &request.tool)?;
        let inputs = parameters::check(&tool, &request.parameters, uploads)?;
        let (sandbox, memory) = (Arc::clone(&self.shared.sandbox), self.shared.memory.clone());
        let meter = Arc::clone(&self.shared.meter);
        let call = Call { sandbox, memory, meter, tree, plugin, tool };
        Ok(Prepared { call, inputs: inputs.runs, each: inputs.each })
    }

    /// Runs a request when its turn has come. The tree may have been exchanged while it waited.
    async fn run(
        self,
        prepared: Prepared,
        request: RunCall,
        uploads: Vec<u64>,
        context: Context,
    ) -> Vec<Run> {
        let _held = tokio::select! {
            held = Arc::clone(&self.shared.gate).read_owned() => held,
            () = context.cancel.cancelled() => {
                return vec![failed(Reason::Cancelled, "the call was cancelled before it began")];
            }
        };
        let _kept_from_copies = match &self.shared.keeping {
            None => None,
            Some(keeping) => tokio::select! {
                held = keeping.during_a_call() => match held {
                    Ok(held) => held,
                    Err(error) => {
                        let what = format!("the plugin's volume cannot be locked: {error}");
                        return vec![failed(Reason::Start, &what)];
                    }
                },
                () = context.cancel.cancelled() => {
                    return vec![failed(Reason::Cancelled, "the call was cancelled before it began")];
                }
            },
        };
        let plugin = self.clone();
        let prepared = spawn_blocking(move || {
            let same = plugin.tree()?.root() == prepared.call.tree.root();
            if same { Ok(prepared) } else { plugin.prepare(&request, &uploads) }
        });
        match prepared.await {
            Ok(Ok(Prepared { call, inputs, each: _ })) => {
                let _measured = self.shared.meter.begin();
                call.run(inputs, context).await
            }
            Ok(Err(problem)) => {
                let message = format!("the plugin was exchanged while the call waited: {problem}");
                vec![failed(Reason::Start, &message)]
            }
            Err(_panicked) => vec![failed(Reason::Runner, "the call could not be judged again")],
        }
    }
}

#[async_trait]
impl Work for Plugin {
    fn admit(&self, request: &RunCall, uploads: &[u64]) -> Result<Admitted, Problem> {
        self.shared.readiness.now().admit()?;
        let prepared = self.prepare(request, uploads)?;
        let tool = &prepared.call.tool;
        let queue = if tool.is_concurrent { Queue::Concurrent } else { Queue::Serial };
        let answer = if tool.is_async { Answer::Later } else { Answer::Stream };
        let each = prepared.each;
        let (plugin, request, uploads) = (self.clone(), request.clone(), uploads.to_vec());
        let run = Box::new(move |context: Context| -> BoxFuture<'static, Vec<Run>> {
            Box::pin(plugin.run(prepared, request, uploads, context))
        });
        Ok(Admitted { queue, answer, each, run })
    }

    fn health(&self) -> WorkHealth {
        let readiness = self.shared.readiness.now();
        let mut health = WorkHealth {
            network: readiness.network,
            revision: readiness.revision,
            rendered: readiness.rendered,
            complaints: readiness.complaint.into_iter().collect(),
            ..WorkHealth::default()
        };
        let tree = match self.tree() {
            Ok(tree) => tree,
            Err(problem) => {
                health.complaints.push(problem.to_string());
                return health;
            }
        };
        look(&tree, &mut health);
        health
    }

    fn readiness(&self) -> Result<(), String> {
        self.shared.readiness.now().readiness()
    }

    async fn self_test(&self, supervisor: &Supervisor, scratch: PathBuf) -> Vec<Check> {
        let Shared { sandbox, hidden, .. } = &*self.shared;
        let mut checks = vec![self_test::manifests(&self.health().complaints)];
        checks.extend(self_test::sandbox(sandbox, supervisor, scratch, hidden).await);
        checks
    }

    async fn give_files(&self) -> Result<Pieces, Problem> {
        let keeping = self.keeping()?;
        let no_call_runs = between_calls(self).await;
        keeping.give(no_call_runs).await
    }

    async fn take_files(&self, files: Pieces) -> Result<(), Problem> {
        let keeping = self.keeping()?;
        let _no_call_runs = between_calls(self).await;
        keeping.take(files).await?;
        self.shared.readiness.change(|state| state.awaits = None);
        Ok(())
    }

    fn configuration(&self) -> Result<String, Problem> {
        self.keeping()?.configuration()
    }
}

/// Notes what the manifests of a tree say, and what is wrong with them.
pub(crate) fn look(tree: &Tree, health: &mut WorkHealth) {
    match manifest::plugin(tree) {
        Ok(plugin) => health.plugin = Some(plugin.name),
        Err(complaint) => health.complaints.push(complaint.to_string()),
    }
    for name in tree.tools().unwrap_or_default() {
        match Plugin::tool(tree, &name) {
            Ok(tool) => health.tools.push(ToolHealth {
                name,
                r#async: tool.is_async,
                concurrent: tool.is_concurrent,
            }),
            Err(problem) => health.complaints.push(problem.to_string()),
        }
    }
}

fn refusal(complaint: ManifestError) -> Problem {
    let ManifestError { file, what, remedy } = complaint;
    Problem::new(Kind::Manifest, format!("{file}: {what}"), remedy)
}

fn failed(reason: Reason, message: &str) -> Run {
    let outcome = Outcome::Failed(Failure { reason, message: message.to_owned() });
    Run { outcome, files: Vec::new(), notes: Vec::new(), millis: 0 }
}

/// The tools there are, with what they take.
fn list(tree: &Tree, known: &[String]) -> String {
    let schemas = known.iter().filter_map(|name| manifest::tool(tree, name).ok());
    let schemas: Vec<String> = schemas.map(|tool| tool.schema()).collect();
    if schemas.is_empty() { "it has none".to_owned() } else { schemas.join("\n") }
}
