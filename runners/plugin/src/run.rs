//! One call, run by run.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use famulus_protocol::{Failure, Outcome, Reason, Run};
use famulus_runner_harness::supervisor::{Confinement, End, Job, MemoryWatch, Order, Report};
use famulus_runner_harness::{Context, ResultBudget};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::budget::BudgetMeter;
use crate::outcome;
use crate::parameters::{Input, Source};
use crate::settings::Sandbox;
use famulus_bundle::Tree;
use famulus_bundle::manifest::ToolManifest;
use famulus_runner_harness::outputs::{self, FileStamp, OutputTotals, Outputs};
use famulus_runner_harness::scratch::Scratch;

/// A call that was checked.
pub(crate) struct Call {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) memory: Option<MemoryWatch>,
    pub(crate) meter: Arc<BudgetMeter>,
    pub(crate) tree: Tree,
    /// The plugin's name.
    pub(crate) plugin: String,
    pub(crate) tool: ToolManifest,
}

/// The folders of one run.
struct RunFolders {
    scratch: Scratch,
    /// A folder beside it for what is temporary. A concurrent call has one folder for both.
    temporary: Option<Scratch>,
    before: Vec<FileStamp>,
    /// The parameters, with paths in place of files.
    input: String,
}

impl Call {
    /// Runs the tool once for each input, one after the other. After a cancel the rest is not begun.
    pub(crate) async fn run(self, inputs: Vec<Input>, context: Context) -> Vec<Run> {
        let call = Arc::new(self);
        let all = inputs.len() as u32;
        let mut totals = OutputTotals::default();
        let mut budget = ResultBudget::new(inputs.len());
        let mut runs = Vec::new();
        for (number, input) in inputs.into_iter().enumerate() {
            let run = if context.cancel.is_cancelled() {
                let why = "the call was cancelled before this run";
                failed(Reason::Cancelled, why.to_owned())
            } else {
                let number = number as u32;
                context.progress.started(number, all);
                Arc::clone(&call).run_one(number, input, &mut totals, &context).await
            };
            runs.push(budget.fit(run));
        }
        runs
    }

    async fn run_one(
        self: Arc<Self>,
        number: u32,
        input: Input,
        totals: &mut OutputTotals,
        context: &Context,
    ) -> Run {
        let (call, uploads, id) =
            (Arc::clone(&self), context.uploads.clone(), context.call.to_string());
        let folders = spawn_blocking(move || call.lay(&id, number, &input, &uploads)).await;
        let folders = match flat(folders) {
            Ok(folders) => folders,
            Err(error) => {
                return failed(
                    Reason::Files,
                    format!("the files of the run could not be laid out: {error}"),
                );
            }
        };
        let job = self.job(&folders);
        let said = |text| context.progress.said(number, text);
        let (spent, cancel) = (self.meter.spent(), context.cancel.child_token());
        let ran = context.supervisor.run(&job, said, &cancel);
        tokio::pin!(ran);
        let report = tokio::select! {
            report = &mut ran => report,
            () = spent.cancelled() => {
                cancel.cancel();
                ran.await
            }
        };
        let report = match report {
            Ok(report) => report,
            Err(error) => return failed(Reason::Runner, error.to_string()),
        };
        if spent.is_cancelled() && report.end == End::Cancelled && !context.cancel.is_cancelled() {
            return failed(
                Reason::Files,
                "the plugin's own files and caches became more than they may be, and the tool was \
                 ended; ask the owner to raise the limit, or to delete the plugin's volume"
                    .to_owned(),
            );
        }
        let (mut before, to) = (*totals, context.outputs.clone());
        let gathered = spawn_blocking(move || {
            let gathered = outputs::gather(&folders.scratch, &folders.before, &to, &mut before)?;
            // Removed off the threads that serve.
            drop(folders);
            Ok((gathered, before))
        });
        match flat(gathered.await) {
            Ok((gathered, now)) => {
                *totals = now;
                self.assemble(&report, job.deadline_millis, gathered)
            }
            Err(error) => {
                let notes = vec![format!("files that the tool left could not be taken: {error}")];
                self.assemble(&report, job.deadline_millis, Outputs { files: Vec::new(), notes })
            }
        }
    }

    fn assemble(&self, report: &Report, deadline_millis: u64, gathered: Outputs) -> Run {
        let (outcome, mut notes) = outcome::of(report, deadline_millis, self.sandbox.processes);
        notes.extend(gathered.notes);
        Run { outcome, files: gathered.files, notes, millis: report.millis }
    }

    /// Makes the folders of a run and puts its files there.
    fn lay(
        &self,
        call: &str,
        number: u32,
        input: &Input,
        uploads: &Path,
    ) -> io::Result<RunFolders> {
        let Sandbox { scratch, temporary, .. } = &*self.sandbox;
        // No plugin's name begins with a point.
        let own = temporary.join(format!(".call-{call}-{number}"));
        let (scratch, temporary) = if self.tool.is_concurrent {
            (Scratch::make(own)?, None)
        } else {
            (Scratch::make(scratch.join(&self.plugin))?, Some(Scratch::make(own)?))
        };
        let mut values = input.values.clone();
        let mut before = Vec::new();
        for file in &input.files {
            let mut to = scratch.create(&file.name)?;
            match &file.source {
                Source::Inline(bytes) => io::Write::write_all(&mut to, bytes)?,
                Source::Upload(index) => {
                    io::copy(&mut File::open(uploads.join(index.to_string()))?, &mut to)?;
                }
            }
            before.push(outputs::before(&file.name, &to)?);
            let path = scratch.path().join(&file.name).to_string_lossy().into_owned();
            values.insert(file.parameter.clone(), Value::String(path));
        }
        let input = serde_json::to_string(&values)?;
        Ok(RunFolders { scratch, temporary, before, input })
    }

    fn job(&self, folders: &RunFolders) -> Job {
        let sandbox = &self.sandbox;
        let folder = self.tree.root().join(&self.tool.name);
        let scratch = folders.scratch.path().to_owned();
        let temporary = folders
            .temporary
            .as_ref()
            .map_or_else(|| scratch.clone(), |other| other.path().to_owned());
        let environment = sandbox.environment.variables(&temporary);
        let deadlines = sandbox.deadlines;
        let deadline = if self.tool.is_async { deadlines.r#async } else { deadlines.sync };
        Job {
            order: Order {
                program: folder.join(&self.tool.entrypoint),
                arguments: Vec::new(),
                folder,
                confinement: self.confinement([scratch, temporary]),
                limits: sandbox.resources,
            },
            environment,
            input: folders.input.clone(),
            deadline_millis: deadline.as_millis() as u64,
            grace_millis: deadlines.grace.as_millis() as u64,
            output: sandbox.output,
            processes: sandbox.processes,
            memory: self.memory.clone(),
        }
    }

    fn confinement(&self, own: [PathBuf; 2]) -> Confinement {
        let mut read = self.sandbox.read_from();
        read.push(self.tree.root().to_owned());
        let mut write = self.sandbox.write_to();
        write.extend(own);
        Confinement { read, write }
    }
}

fn failed(reason: Reason, message: String) -> Run {
    let outcome = Outcome::Failed(Failure { reason, message });
    Run { outcome, files: Vec::new(), notes: Vec::new(), millis: 0 }
}

/// What a blocking step came to; a panic in it is an error as any other.
fn flat<T>(joined: Result<io::Result<T>, tokio::task::JoinError>) -> io::Result<T> {
    joined.unwrap_or_else(|panicked| Err(io::Error::other(panicked)))
}
