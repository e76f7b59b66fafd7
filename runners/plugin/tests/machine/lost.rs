//! Runners that end although nobody asked them to.

use famulus_core::sandbox::{SandboxError, Sandboxes};
use famulus_machine::PluginRecord;
use famulus_sandbox::Home;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::bench::{Bench, as_everybody, borrowed, processes, shell, until};

#[test]
fn a_runner_that_is_killed_is_started_again_by_the_next_call() {
    as_everybody("lost::a_runner_that_is_killed_is_started_again_by_the_next_call", async || {
        let bench = Bench::new().await;
        let record = bench.add("greeting");
        bench.install(&record, &borrowed(&shell("greeting", "greet", "echo hello"))).await;
        for _ in 0..2 {
            assert_eq!(bench.call("greeting", "greet", json!({})).await.unwrap(), "hello");
            for pid in processes(&bench.data()) {
                let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
                // Its children may have ended with it already.
                let _gone = kill_process(pid, Signal::KILL);
            }
            // A call before that may have been heard, for all that is known.
            let plugin = bench.machine.plugin("greeting").unwrap();
            until("its end is seen", || bench.machine.runners(&plugin).is_empty()).await;
        }
        assert_eq!(bench.call("greeting", "greet", json!({})).await.unwrap(), "hello");
    });
}

#[test]
fn a_runner_that_cannot_serve_says_why_and_is_not_tried_without_rest() {
    as_everybody(
        "lost::a_runner_that_cannot_serve_says_why_and_is_not_tried_without_rest",
        async || {
            let bench = Bench::new().await;
            let record = bench.add("greeting");
            let record =
                bench.install(&record, &borrowed(&shell("greeting", "greet", "echo hello"))).await;
            // A folder of programs that is not there: the launcher makes no sandbox, and names it.
            let programs = bench.data().join("programs");
            std::fs::create_dir(&programs).unwrap();
            let broken = Bench::with(|settings| {
                settings.data_dir = bench.data();
                settings.programs = Some(programs.clone());
            })
            .await;
            std::fs::remove_dir(&programs).unwrap();
            broken.machine.put(PluginRecord { name: "greeting".to_owned(), ..record }).unwrap();
            let asked = std::time::Instant::now();
            let why = loop {
                let state = broken.calls.plugins().await.unwrap().remove(0);
                if state.reason == "RunnerFailing" {
                    assert!(!state.ready);
                    break state.message;
                }
                assert!(asked.elapsed() < crate::bench::PATIENCE, "{state:?}");
                if asked.elapsed().as_millis() < 50 {
                    let call = broken.call("greeting", "greet", json!({}));
                    // It waits for a runner that may still come.
                    let waited =
                        tokio::time::timeout(std::time::Duration::from_secs(2), call).await;
                    assert!(!matches!(waited, Ok(Ok(_) | Err(SandboxError::NoPlugin { .. }))));
                }
            };
            assert!(why.contains("programs"), "{why}");
        },
    );
}
