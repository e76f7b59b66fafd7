//! Who calls back, and what it brings.

use std::net::IpAddr;

use famulus_core::plugin::{InstalledPlugin, InstalledPlugins};
use famulus_core::runner::{Origin, RunnerCredentials, Runners};
use famulus_core::sandbox::{RunOutput, SandboxError};
use famulus_crds::bearer;
use serde_json::{Value, json};

use crate::bench::{Bench, KEY, UID, only, plugin, pod, until};
use crate::runner::address;

#[tokio::test]
async fn only_the_bearer_of_a_plugin_from_a_pod_of_it_proves_anything() {
    let bench = Bench::new().await;
    bench.api.change("plugins", "test", |plugin| plugin["status"]["rendered"] = json!(7));
    let (runner, build, done, stranger) = (address(), address(), address(), address());
    bench.pod("one", runner, true);
    bench.api.put("pods", "build", pod("build", build, false));
    let mut ended = pod("build", done, false);
    ended["status"]["phase"] = json!("Succeeded");
    bench.api.put("pods", "done", ended);
    let right = bearer::runner(KEY, UID, 7);
    let authenticate = |plugin: &str, rendered, bearer: &str, from: IpAddr| {
        let from = from.into();
        bench.cluster.authenticate(RunnerCredentials { plugin, rendered, bearer, from })
    };
    until("all is seen", || authenticate(UID, 7, &right, build).is_some()).await;

    let of = |rendered| bearer::runner(KEY, UID, rendered);
    assert_eq!(authenticate(UID, 7, &right, runner).as_deref(), Some("test"));
    assert_eq!(authenticate(UID, 8, &of(8), runner).as_deref(), Some("test"));
    assert_eq!(authenticate(UID, 3, &of(3), runner).as_deref(), Some("test"));
    let mapped = format!("::ffff:{runner}").parse().unwrap();
    assert_eq!(authenticate(UID, 7, &right, mapped).as_deref(), Some("test"));
    for (what, plugin, rendered, bearer, from) in [
        ("no bearer", UID, 7, String::new(), runner),
        ("another number", UID, 6, right.clone(), runner),
        ("another key", UID, 7, bearer::runner(b"another key", UID, 7), runner),
        ("far ahead", UID, 9, of(9), runner),
        ("long ago", UID, 2, of(2), runner),
        ("an unknown plugin", "other", 7, bearer::runner(KEY, "other", 7), runner),
        ("another address", UID, 7, right.clone(), stranger),
        ("an address that was given back", UID, 7, right.clone(), done),
    ] {
        assert_eq!(authenticate(plugin, rendered, &bearer, from), None, "{what}");
    }
    // Nobody has a door of its own in a cluster.
    let from = Origin::Door(UID.into());
    let shown = RunnerCredentials { plugin: UID, rendered: 7, bearer: &right, from };
    assert_eq!(bench.cluster.authenticate(shown), None);
}

#[tokio::test]
async fn the_plugins_that_there_are_are_listed_whole_or_not_at_all() {
    let bench = Bench::new().await;
    let (serving, pinned) = (format!("sha256:{}", "0a".repeat(32)), "sha256:pinned".to_owned());
    bench.api.put("plugins", "other", plugin("mail", json!({"revision": pinned})));
    bench.api.change("plugins", "test", |plugin| plugin["status"] = json!({"rendered": 1}));
    let mut installed = bench.cluster.home().installed().await.unwrap();
    installed.sort_by(|one, other| one.name.cmp(&other.name));
    let of = |name: &str, in_use| InstalledPlugin { name: name.to_owned(), in_use };
    assert_eq!(installed, [of("mail", vec![serving, pinned]), of("test", Vec::new())]);
    // One that cannot be read may be any.
    bench.api.change("plugins", "other", |plugin| plugin["spec"]["name"] = json!(7));
    let error = bench.cluster.home().installed().await.unwrap_err();
    assert!(error.to_string().contains("the Plugin `other` cannot be read"), "{error}");
    bench.api.go_away(true);
    assert!(bench.cluster.home().installed().await.is_err());
}

fn delivery(call: &str, files: Value) -> Vec<u8> {
    let run =
        json!({"outcome": "text", "output": "late", "files": files, "notes": [], "millis": 3});
    let result = json!({"call": call, "tool": "later", "each": false, "runs": [run]});
    json!({"version": 1, "plugin": "test", "result": result}).to_string().into_bytes()
}

#[tokio::test]
async fn what_is_delivered_is_taken_with_its_files() {
    let bench = Bench::new().await;
    let script = "#!/bin/sh\necho content > ${TMPDIR%/*}/test/out.txt\n";
    bench.plugin.tool("later", json!({}), script);
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    assert_eq!(only(bench.run("c1", "later", json!({})).await).files.len(), 1);
    let files = json!([{"index": 0, "name": "../out.txt", "bytes": 8}]);
    let collect =
        async |id: &str, body: &[u8]| bench.cluster.collect("test", id, body, bench.person).await;
    let result = collect("c1", &delivery("c1", files.clone())).await.unwrap();
    let run = &result.runs[0];
    assert_eq!(run.output, RunOutput::Text("late".to_owned()));
    let [(name, blob)] = run.files.as_slice() else { panic!("one file: {run:?}") };
    assert_eq!(name, "file-0");
    assert_eq!(bench.files.read(bench.person, blob), b"content\n");
    // A file that nobody has is said to be missing.
    let result = collect("c2", &delivery("c2", files)).await.unwrap();
    assert_eq!(result.runs[0].files, []);
    assert_eq!(
        result.runs[0].notes,
        ["the file `file-0` is missing: the runner that had it is gone"]
    );
    for body in [delivery("c3", json!([])), b"{}".to_vec(), b"x".to_vec()] {
        let refused = collect("c1", &body).await;
        assert!(matches!(refused, Err(SandboxError::Refused(_))), "{refused:?}");
    }
}
