//! A plugin from its files to its end.

use std::fs;
use std::time::{Duration, Instant};

use famulus_core::sandbox::{SandboxAnswer, SandboxError, Sandboxes};
use famulus_machine::{MachineError, PluginRecord, StepError};
use famulus_sandbox::{Home, KnownPlugin};
use serde_json::json;

use crate::bench::{Bench, PATIENCE, as_everybody, borrowed, later, processes, shell, until};

#[test]
fn a_plugin_is_built_called_updated_and_removed() {
    as_everybody("life::a_plugin_is_built_called_updated_and_removed", async || {
        let bench = Bench::new().await;
        assert_eq!(bench.machine.refused(), None);
        let record = bench.add("greeting");
        let refused = bench.call("greeting", "greet", json!({})).await.unwrap_err();
        assert!(matches!(&refused, SandboxError::NotReady { reason, .. } if reason == "Pending"));

        let first =
            bench.install(&record, &borrowed(&shell("greeting", "greet", "echo hello"))).await;
        assert_eq!(bench.call("greeting", "greet", json!({})).await.unwrap(), "hello");
        let state = bench.calls.plugins().await.unwrap().remove(0);
        assert!(state.ready, "{state:?}");
        assert_eq!(
            (state.reason.as_str(), state.runners, &state.tools[..]),
            ("Serving", 1, &["greet".to_owned()][..])
        );
        let runner = || bench.machine.runners(&bench.machine.plugin("greeting").unwrap());
        let before = runner();

        // What serves is exchanged under the runner that is there.
        let second = bench
            .install(&first, &borrowed(&shell("greeting", "greet", "echo good evening")))
            .await;
        assert_ne!(first.revision, second.revision);
        assert_eq!(bench.call("greeting", "greet", json!({})).await.unwrap(), "good evening");
        assert!(std::sync::Arc::ptr_eq(&before[0], &runner()[0]));
        let back = PluginRecord {
            rendered: second.rendered + 1,
            revision: first.revision,
            ..second.clone()
        };
        bench.machine.put(back).unwrap();
        assert_eq!(bench.call("greeting", "greet", json!({})).await.unwrap(), "hello");
        assert!(!bench.calls.logs("greeting").await.unwrap().is_empty());

        bench.machine.remove(&record.uid).await.unwrap();
        let gone = bench.call("greeting", "greet", json!({})).await.unwrap_err();
        assert!(matches!(gone, SandboxError::NoPlugin { .. }), "{gone:?}");
        assert_eq!(processes(&bench.data()), Vec::<u32>::new());
        let left = fs::read_dir(bench.data().join("plugins")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["root"], "only what all plugins share is left");
    });
}

#[test]
fn a_runner_that_nobody_uses_ends_and_a_call_starts_another() {
    as_everybody("life::a_runner_that_nobody_uses_ends_and_a_call_starts_another", async || {
        let bench = Bench::new().await;
        let record = PluginRecord { idle: Duration::from_secs(1), ..bench.add("greeting") };
        let record =
            bench.install(&record, &borrowed(&shell("greeting", "greet", "echo hello"))).await;
        bench.call("greeting", "greet", json!({})).await.unwrap();
        until("the runner sleeps", || processes(&bench.data()).is_empty()).await;
        until("it is known to sleep", || {
            bench.machine.plugin("greeting").unwrap().says().reason == "Idle"
        })
        .await;
        assert_eq!(bench.call("greeting", "greet", json!({})).await.unwrap(), "hello");
        // Nothing of a plugin outlives the assistant, whose end is seen by it.
        drop(record);
        let data = bench.data();
        assert!(!processes(&data).is_empty());
        bench.tasks.shutdown();
        until("nothing is left", || processes(&data).is_empty()).await;
    });
}

#[test]
fn a_result_that_comes_later_comes_through_the_door_of_its_plugin() {
    as_everybody(
        "life::a_result_that_comes_later_comes_through_the_door_of_its_plugin",
        async || {
            let bench = Bench::new().await;
            let record = bench.add("slow");
            bench.install(&record, &borrowed(&later("slow", "walk", "echo far"))).await;
            let answer =
                bench.run("slow", "walk", json!({}), Some("the token of the call")).await.1;
            assert_eq!(answer.unwrap(), SandboxAnswer::Running);
            until("the result comes", || !bench.kept.lock().results.is_empty()).await;
            let (plugin, result) = bench.kept.lock().results[0].clone();
            assert_eq!(plugin, record.uid);
            assert!(result.contains("far"), "{result}");
        },
    );
}

#[test]
fn what_is_configured_reaches_the_plugin_and_changes_under_it() {
    as_everybody("life::what_is_configured_reaches_the_plugin_and_changes_under_it", async || {
        let bench = Bench::new().await;
        let record = bench.add("keys");
        bench.machine.configure(&record.uid, &json!({"word": "one"})).unwrap();
        let record =
            bench.install(&record, &borrowed(&shell("keys", "show", "cat ../config.json"))).await;
        let shown = bench.call("keys", "show", json!({})).await.unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            json!({"word": "one"})
        );
        bench.machine.configure(&record.uid, &json!({"word": "two"})).unwrap();
        bench.machine.put(PluginRecord { rendered: record.rendered + 1, ..record }).unwrap();
        let shown = bench.call("keys", "show", json!({})).await.unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            json!({"word": "two"})
        );
    });
}

#[test]
fn a_build_of_a_plugin_that_is_removed_ends() {
    as_everybody("life::a_build_of_a_plugin_that_is_removed_ends", async || {
        let bench = Bench::new().await;
        let record = bench.add("endless");
        let mut files = shell("endless", "greet", "echo hello");
        let manifest = json!({"name": "endless", "description": "A plugin.",
            "init": {"entrypoint": "init", "async": true}});
        files[0].1 = manifest.to_string();
        files.push(("init".to_owned(), "#!/bin/sh\nsleep 600\n".to_owned()));
        let source = Bench::source(&borrowed(&files));
        bench.machine.bundle(&record.uid, source, Vec::new()).await.unwrap();
        let begun = Instant::now();
        let (built, removed) = tokio::join!(bench.machine.build(&record.uid), async {
            until("the build runs", || !processes(&bench.data()).is_empty()).await;
            bench.machine.remove(&record.uid).await
        });
        removed.unwrap();
        assert!(matches!(built, Err(StepError::Machine(MachineError::Gone))), "{built:?}");
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        assert_eq!(processes(&bench.data()), Vec::<u32>::new());
    });
}
