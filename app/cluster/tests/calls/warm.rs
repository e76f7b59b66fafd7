//! Calls to a runner that is up.

use std::time::Duration;

use famulus_core::ids::PersonId;
use famulus_core::sandbox::{RunOutput, SandboxAnswer, SandboxError, Sandboxes, Stage};
use serde_json::{Value, json};

use crate::bench::{Bench, only, plugin, result_of, text_of, until};
use crate::runner::{Door, address};

#[tokio::test]
async fn a_warm_call_says_nothing_to_the_api_server() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\necho hello >&2\ncat\n");
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    bench.until_seen().await;
    assert_eq!(bench.text("c0", "echo").await, "{}");

    let before = bench.api.requests();
    let call = bench.call("c1", "echo", json!({}));
    assert_eq!(text_of(&only(bench.cluster.run(call.call).await)), "{}");
    bench.cluster.acknowledge("test", "c1").await;
    assert_eq!(bench.api.requests(), before);
    assert_eq!(bench.api.writes(), Vec::<Value>::new());
    let said = Stage::Said { text: "hello\n".to_owned() };
    assert_eq!(*call.stages.lock(), [Stage::Started { run: 0, runs: 1 }, said]);
    // It was let go: a new call of the name is refused.
    let again = bench.run("c1", "echo", json!({})).await;
    assert!(matches!(again, Err(SandboxError::Lost { .. })), "{again:?}");
}

#[tokio::test]
async fn an_array_runs_once_for_each_item_and_a_failure_is_in_words() {
    let bench = Bench::new().await;
    let parameters = json!({"parameters": {"n": {"type": "integer", "description": "d"}}});
    let script = "#!/usr/bin/env python3\nimport json, sys\nn = json.load(sys.stdin)['n']\n\
        print(json.dumps({'n': n})) if n else sys.exit('none at all')\n";
    bench.plugin.tool("count", parameters, script);
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let result = result_of(bench.run("c1", "count", json!([{"n": 1}, {"n": 0}])).await);
    assert!(result.each);
    assert_eq!(result.runs[0].output, RunOutput::Json("{\"n\": 1}".to_owned()));
    let RunOutput::Failed(why) = &result.runs[1].output else { panic!("{result:?}") };
    assert!(why.contains("none at all"), "{why}");
    let refused = bench.run("c2", "count", json!({"n": "x"})).await.unwrap_err();
    assert!(matches!(&refused, SandboxError::Refused(why) if why.contains("`n`")), "{refused}");
}

#[tokio::test]
async fn files_go_in_and_come_out_for_their_person() {
    let bench = Bench::new().await;
    let parameters = json!({"parameters": {"file": {"type": "file", "description": "d"}}});
    // What lies beside the file after the run was left by the tool.
    let script = "#!/usr/bin/env python3\nimport json, os, sys\n\
        path = json.load(sys.stdin)['file']\n\
        out = open(os.path.join(os.path.dirname(path), 'turned.bin'), 'wb')\n\
        out.write(open(path, 'rb').read()[::-1])\nprint('turned')\n";
    bench.plugin.tool("turn", parameters, script);
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let mut call = bench.call("c1", "turn", json!({"file": {"filename": "a.bin", "upload": 0}}));
    call.call.files = vec![bench.files.add(bench.person, &bytes).await];
    let run = only(bench.cluster.run(call.call.clone()).await);
    let [(name, blob)] = run.files.as_slice() else { panic!("one file: {run:?}") };
    assert_eq!(name, "turned.bin");
    let turned: Vec<u8> = bytes.iter().rev().copied().collect();
    assert_eq!(bench.files.read(bench.person, blob), turned);

    // The same call again is the same: its files are not sent twice, and it does not run again.
    let again = only(bench.cluster.run(call.call.clone()).await);
    assert_eq!((again.output, again.millis), (run.output, run.millis));
    // A file of somebody else is none.
    call.call.id = "c2".to_owned();
    call.call.person = PersonId::new();
    let refused = bench.cluster.run(call.call).await.unwrap_err();
    assert!(refused.to_string().contains("belongs to somebody else"), "{refused}");
}

#[tokio::test]
async fn only_what_the_owner_permits_runs() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ntouch STATE/ran\n");
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let permit = async |tools: Value, expected: &[&str]| {
        bench
            .api
            .change("plugins", "test", |plugin| plugin["spec"]["permissions"]["tools"] = tools);
        loop {
            let state = bench.cluster.plugins().await.unwrap().remove(0);
            if state.tools == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    for tools in [json!([]), json!(["other"])] {
        permit(tools, &[]).await;
        let refused = bench.run("c1", "echo", json!({})).await.unwrap_err();
        assert!(
            matches!(&refused, SandboxError::Refused(why) if why.contains("permit")),
            "{refused}"
        );
    }
    assert!(!bench.plugin.path("state/ran").exists());
    permit(json!(["echo"]), &["echo"]).await;
    bench.text("c1", "echo").await;
    assert!(bench.plugin.path("state/ran").exists());

    bench.api.put("plugins", "zoo", plugin("zoo", json!({"suspend": true})));
    let mut call = bench.call("c2", "echo", json!({})).call;
    call.plugin = "nobody".to_owned();
    bench.until_named(&bench.cluster, &["test", "zoo"]).await;
    let refused = bench.cluster.run(call.clone()).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no plugin `nobody`; the plugins are: test, zoo");
    call.plugin = "zoo".to_owned();
    let refused = bench.cluster.run(call).await.unwrap_err();
    assert!(
        refused.to_string().starts_with("the plugin `zoo` is not ready (Suspended)"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_async_call_is_running_and_its_end_can_be_asked_for() {
    let bench = Bench::new().await;
    bench.plugin.tool("later", json!({"async": true}), "#!/bin/sh\nsleep 0.3\necho late\n");
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    for (id, token) in [("c1", Some("one-time".to_owned())), ("c2", None)] {
        let mut call = bench.call(id, "later", json!({})).call;
        call.token = token;
        assert_eq!(bench.cluster.run(call).await, Ok(SandboxAnswer::Running));
        let sent = "2026-06-01T00:00:00Z".parse().unwrap();
        let answer = bench.cluster.ask("test", id, sent, bench.person).await.unwrap();
        assert_eq!(text_of(&only(Ok(answer.unwrap()))), "late\n");
    }
}

#[tokio::test]
async fn the_runner_with_fewer_calls_is_taken() {
    let bench = Bench::new().await;
    let waits = "#!/bin/sh\necho run >> STATE/runs\n\
                 while [ ! -e STATE/go ]; do sleep 0.02; done\necho done\n";
    bench.plugin.tool("wait", json!({"concurrent": true}), waits);
    let (one, two, inside) = (address(), address(), address());
    let _runner = bench.plugin.start(inside);
    // Two doors, each told apart by what may pass.
    let _first = Door::open(one, inside).await;
    let second = Door::open(two, inside).await;
    bench.pod("one", one, true);
    bench.pod("two", two, true);
    bench.until_seen().await;
    let first = bench.run("c1", "wait", json!({}));
    let later = async {
        until("the first runs", || bench.plugin.state("runs") == "run\n").await;
        let before = second.connections();
        let go = async {
            until("both run", || bench.plugin.state("runs") == "run\nrun\n").await;
            bench.plugin.write("state/go", "");
        };
        let (answer, ()) = tokio::join!(bench.run("c2", "wait", json!({})), go);
        (before, answer)
    };
    let (first, (before, answer)) = tokio::join!(first, later);
    assert_eq!(text_of(&only(first)), "done\n");
    assert_eq!(text_of(&only(answer)), "done\n");
    assert_eq!((before, second.connections()), (0, 1), "each took one");
}
