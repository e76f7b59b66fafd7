//! A machine on which sandboxes cannot be made, or do not hold.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use famulus_core::sandbox::{SandboxError, Sandboxes};
use famulus_machine::{MachineError, StepError};
use famulus_protocol::revision::BuildSource;
use serde_json::json;

use crate::bench::Bench;

/// A program in place of the runner, which leaves a mark for each sandbox that it was asked for.
fn stand_in(folder: &tempfile::TempDir, script: &str) -> PathBuf {
    let program = folder.path().join("stand-in");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[tokio::test]
async fn nothing_of_a_plugin_runs_where_no_sandbox_holds_and_the_reason_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let said = "echo 'famulus-runner: user namespaces are off; ask for them' >&2; exit 125";
    let silent = "exit 3";
    for (runner, expected) in [
        (stand_in(&folder, said), "user namespaces are off; ask for them"),
        (folder.path().join("absent"), "put famulus-runner of the same release beside famulus"),
    ] {
        let bench = Bench::with(|settings| settings.runner = runner).await;
        let why = bench.machine.refused().unwrap().clone();
        assert_eq!(why.reason, "NoSandbox");
        assert!(why.message.contains(expected), "{}", why.message);
        let record = bench.add("greeting");
        let state = bench.calls.plugins().await.unwrap().remove(0);
        assert_eq!((state.ready, state.reason.as_str()), (false, "NoSandbox"));
        assert!(state.message.contains(expected), "{state:?}");
        let refused = bench.call("greeting", "greet", json!({})).await.unwrap_err();
        assert!(matches!(&refused, SandboxError::NotReady { reason, .. } if reason == "NoSandbox"));
        let source = BuildSource::Inline { files: Vec::new() };
        let bundled = bench.machine.bundle(&record.uid, source, Vec::new()).await.unwrap_err();
        assert!(matches!(bundled, StepError::Machine(MachineError::Refused(_))), "{bundled:?}");
        let built = bench.machine.build(&record.uid).await.unwrap_err();
        assert!(matches!(built, StepError::Machine(MachineError::Refused(_))), "{built:?}");
    }
    // A runner that says nothing of what it tried proves nothing.
    let bench = Bench::with(|settings| settings.runner = stand_in(&folder, silent)).await;
    assert!(bench.machine.refused().unwrap().message.contains("reported nothing"));
}
