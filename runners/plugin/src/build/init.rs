//! The plugin's init script, run as a tool is run, in the plugin's own folder.

use std::path::Path;
use std::time::Duration;

use famulus_runner_harness::supervisor::{
    Confinement, End, Job, MemoryWatch, Order, Report, Supervisor,
};
use tokio_util::sync::CancellationToken;

use crate::budget::metered;
use crate::bundle::Failure;
use crate::settings::{Deadlines, Sandbox};
use famulus_bundle::Tree;
use famulus_bundle::manifest::PluginManifest;
use famulus_runner_harness::scratch::Scratch;

/// Runs it, if there is one, and gives what it wrote.
pub(super) async fn run(
    tree: &Tree,
    plugin: &PluginManifest,
    sandbox: &Sandbox,
    supervisor: &Supervisor,
) -> Result<String, Failure> {
    let Some(init) = &plugin.init else { return Ok(String::new()) };
    let Deadlines { sync, r#async, .. } = sandbox.deadlines;
    let deadline = if init.is_async { r#async } else { sync };
    let scratch = Scratch::make(sandbox.scratch.join(&plugin.name))
        .map_err(Failure::disk("the scratch folder"))?;
    let program = tree.root().join(&init.entrypoint);
    let step = Step { program: &program, arguments: Vec::new(), scratch: scratch.path(), deadline };
    let ran = in_tree(tree, step, sandbox, supervisor).await?;
    if ran.is_good() {
        return Ok(ran.report.stdout.text);
    }
    Err(Failure::init(words(&format!("the init script {}", init.entrypoint), &ran, deadline)))
}

/// How a program of a build ended.
pub(super) struct Ran {
    pub(super) report: Report,
    /// What it kept was too much.
    over: Option<String>,
}

impl Ran {
    pub(super) fn is_good(&self) -> bool {
        self.over.is_none() && self.report.end == End::Exited(0)
    }
}

/// A program of a build.
pub(super) struct Step<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: Vec<String>,
    pub(super) scratch: &'a Path,
    pub(super) deadline: Duration,
}

/// Runs a program in the plugin's folder.
pub(super) async fn in_tree(
    tree: &Tree,
    step: Step<'_>,
    sandbox: &Sandbox,
    supervisor: &Supervisor,
) -> Result<Ran, Failure> {
    let Step { program, arguments, scratch, deadline } = step;
    let folder = scratch.to_owned();
    let mut write = sandbox.write_to();
    write.push(folder.clone());
    let packages = &sandbox.packages;
    let read = sandbox.read_from().into_iter().chain(packages.credentials.clone());
    let told = sandbox.environment.variables(&folder).into_iter().chain(packages.environment());
    let job = Job {
        environment: told.collect(),
        order: Order {
            program: program.to_owned(),
            arguments,
            folder: tree.root().to_owned(),
            confinement: Confinement { read: read.collect(), write },
            limits: sandbox.resources,
        },
        input: String::new(),
        deadline_millis: deadline.as_millis() as u64,
        grace_millis: sandbox.deadlines.grace.as_millis() as u64,
        output: sandbox.output,
        processes: sandbox.processes,
        memory: MemoryWatch::find(&sandbox.cgroups),
    };
    let run = async |wanted: CancellationToken| supervisor.run(&job, |_said| {}, &wanted).await;
    let (ran, over) = metered(sandbox, run).await;
    ran.map(|report| Ran { report, over }).map_err(|error| Failure::build(error.to_string()))
}

/// How it ended, for the owner, with the end of what it said.
pub(super) fn words(what: &str, ran: &Ran, deadline: Duration) -> String {
    let Ran { report, over } = ran;
    let how = match (over, &report.end) {
        (Some(over), _) => format!("was ended: {over}; keep less, or ask the owner for more"),
        (None, End::Exited(code)) => format!("ended with exit code {code}"),
        (None, End::Signalled(signal)) => format!("was ended by signal {signal}"),
        (None, End::Deadline) => {
            format!("was not done after {} s and was ended", deadline.as_secs_f64())
        }
        (None, End::Cancelled) => "was cancelled".to_owned(),
        (None, End::Processes(count)) => format!("had {count} processes and was ended"),
        (None, End::Memory) => "came close to the memory limit and was ended".to_owned(),
        (None, End::NotStarted(why)) => format!("could not be started: {why}"),
    };
    /// Bytes of the end of each stream.
    const WORDS: usize = 600;
    let mut text = format!("{what} {how}");
    for said in [&report.stderr.text, &report.stdout.text] {
        let said = said.trim();
        if !said.is_empty() {
            let from = said.ceil_char_boundary(said.len().saturating_sub(WORDS));
            text.push('\n');
            text.push_str(&said[from..]);
        }
    }
    text
}
