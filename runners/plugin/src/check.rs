//! A look from inside at what holds a call, where nobody has looked yet: the sandboxes of one machine.

use std::path::PathBuf;

use famulus_protocol::{Check, SelfTest};
use famulus_runner_harness::supervisor::Supervisor;

use crate::self_test;
use crate::settings::Sandbox;
use famulus_runner_harness::scratch::Scratch;

/// Tries what every call relies on. `hidden` are files that no tool may read; they are there.
pub async fn check(sandbox: &Sandbox, hidden: &[PathBuf]) -> SelfTest {
    let supervisor = match Supervisor::new() {
        Ok(supervisor) => supervisor,
        Err(error) => return of(failed(error.to_string()), None),
    };
    let absent = hidden.iter().find(|path| !path.is_file());
    let checks = match (absent, Scratch::make(sandbox.temporary.join("check"))) {
        (Some(path), _) => failed(format!("{} was to be there, and is not", path.display())),
        (None, Err(error)) => failed(format!("a folder for a call cannot be made: {error}")),
        (None, Ok(scratch)) => {
            let folder = scratch.path().to_owned();
            self_test::sandbox(sandbox, &supervisor, folder, hidden).await
        }
    };
    of(checks, Some(&supervisor))
}

fn of(checks: Vec<Check>, supervisor: Option<&Supervisor>) -> SelfTest {
    let passed = checks.iter().all(|check| check.passed);
    SelfTest { passed, checks, isolation: supervisor.and_then(Supervisor::isolation) }
}

fn failed(detail: String) -> Vec<Check> {
    vec![Check { name: "process".to_owned(), passed: false, detail }]
}
