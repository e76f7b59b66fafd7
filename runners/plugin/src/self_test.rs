//! Proves from inside a sandbox that a call could run, and that it is held.

use std::path::PathBuf;

use famulus_protocol::{Check, Landlock};
use famulus_runner_harness::supervisor::{Confinement, End, Job, Order, Report, Supervisor};
use tokio_util::sync::CancellationToken;

use crate::settings::Sandbox;

/// Long for what takes a few milliseconds.
const DEADLINE_MILLIS: u64 = 10_000;

/// Reads a hidden file; what it prints is what could be read.
const SCRIPT: &str = "echo here > \"$TMPDIR/probe\" && echo wrote\n\
                      for hidden; do cat -- \"$hidden\" >/dev/null 2>&1 && echo \"read $hidden\"; done\n\
                      exit 0\n";

/// Whether the manifests can be used.
pub(crate) fn manifests(complaints: &[String]) -> Check {
    let detail = if complaints.is_empty() {
        "every manifest is readable and every entrypoint can be run".to_owned()
    } else {
        complaints.join("\n")
    };
    Check { name: "manifests".to_owned(), passed: complaints.is_empty(), detail }
}

/// Whether a process runs in `scratch`, and what it reaches.
pub(crate) async fn sandbox(
    sandbox: &Sandbox,
    supervisor: &Supervisor,
    scratch: PathBuf,
    hidden: &[PathBuf],
) -> Vec<Check> {
    let job = job(sandbox, scratch, hidden);
    let report = match supervisor.run(&job, |_said| {}, &CancellationToken::new()).await {
        Ok(report) => report,
        Err(error) => return vec![check("process", false, error.to_string())],
    };
    vec![process(&report), reach(&report), confinement(supervisor)]
}

/// Whether a process runs at all in `scratch`.
pub(crate) async fn process_in(
    sandbox: &Sandbox,
    supervisor: &Supervisor,
    scratch: PathBuf,
) -> Check {
    let job = job(sandbox, scratch, &[]);
    match supervisor.run(&job, |_said| {}, &CancellationToken::new()).await {
        Ok(report) => process(&report),
        Err(error) => check("process", false, error.to_string()),
    }
}

fn job(sandbox: &Sandbox, scratch: PathBuf, hidden: &[PathBuf]) -> Job {
    let mut arguments = vec!["-c".to_owned(), SCRIPT.to_owned(), "self-test".to_owned()];
    arguments.extend(hidden.iter().map(|path| path.to_string_lossy().into_owned()));
    let mut write = sandbox.write_to();
    write.push(scratch.clone());
    Job {
        environment: sandbox.environment.variables(&scratch),
        order: Order {
            program: PathBuf::from("/bin/sh"),
            arguments,
            folder: scratch,
            confinement: Confinement { read: sandbox.read_from(), write },
            limits: sandbox.resources,
        },
        input: String::new(),
        deadline_millis: DEADLINE_MILLIS,
        grace_millis: sandbox.deadlines.grace.as_millis() as u64,
        output: sandbox.output,
        processes: sandbox.processes,
        memory: None,
    }
}

fn process(report: &Report) -> Check {
    let wrote = report.stdout.text.lines().any(|line| line == "wrote");
    let passed = report.end == End::Exited(0) && wrote;
    let detail = if passed {
        format!("a process ran in {} ms and wrote to its folder", report.millis)
    } else {
        format!("a process could not run and write: {:?} {}", report.end, report.stderr.text.trim())
    };
    check("process", passed, detail)
}

fn reach(report: &Report) -> Check {
    let read = report.stdout.text.lines().filter_map(|line| line.strip_prefix("read "));
    let read: Vec<&str> = read.collect();
    let detail = if read.is_empty() {
        "a tool cannot read what belongs to the runner".to_owned()
    } else {
        format!("a tool can read {}; run on a kernel with Landlock", read.join(", "))
    };
    check("reach", read.is_empty(), detail)
}

fn confinement(supervisor: &Supervisor) -> Check {
    let Some(isolation) = supervisor.isolation() else {
        return check("confinement", false, "nothing is known of it".to_owned());
    };
    let landlock = match isolation.landlock {
        Landlock::Full => "Landlock confines files and signals",
        Landlock::Partial => "Landlock confines files by the rules that this kernel knows",
        Landlock::Replaced => "a root of its own confines files, in place of Landlock",
        Landlock::None => "the kernel has no Landlock: a tool reaches every file of its user",
    };
    let privileges = if isolation.no_new_privileges {
        "no new privileges can be had"
    } else {
        "new privileges could not be forbidden"
    };
    let filtered = if isolation.filtered {
        "system calls that reach into the runner are refused"
    } else {
        "system calls could not be filtered"
    };
    let passed =
        isolation.landlock != Landlock::None && isolation.no_new_privileges && isolation.filtered;
    check("confinement", passed, format!("{landlock}; {privileges}; {filtered}"))
}

fn check(name: &str, passed: bool, detail: String) -> Check {
    Check { name: name.to_owned(), passed, detail }
}
