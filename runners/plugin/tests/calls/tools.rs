//! What the guide promises a tool, and what its caller hears.

use famulus_protocol::{Health, Kind, Outcome, Progress, Reason, paths};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{Bench, failure_of, json_of, text_of};

/// The guide's example, without the resolver that a test machine may lack.
const ECHO: &str = r#"#!/usr/bin/env python3
import json, os, sys
params = json.load(sys.stdin)
json.dump({"result": f"You asked: {params['query']}", "cwd": os.getcwd()}, sys.stdout)
"#;

fn query() -> serde_json::Value {
    json!({"parameters": {
        "query": {"type": "string", "description": "The query to echo."},
        "count": {"type": "integer", "description": "How often."},
    }})
}

#[tokio::test]
async fn the_guides_example_answers_in_its_own_folder() {
    let bench = Bench::new();
    bench.tool("echo_query", query(), ECHO);
    let runner = bench.start();
    let lines = runner.lines("c1", "echo_query", json!({"query": "ä \"x\""})).await;
    assert!(lines.contains(&Progress::Started { run: 0, runs: 1 }), "{lines:?}");
    let run = crate::support::result_of(lines).runs.remove(0);
    let answer = json_of(&run);
    assert_eq!(answer["result"], "You asked: ä \"x\"");
    let folder = bench.path("plugins/test/echo_query").canonicalize().unwrap();
    assert_eq!(answer["cwd"], folder.to_str().unwrap());
    assert_eq!(run.notes, Vec::<String>::new());
}

#[tokio::test]
async fn a_tool_reads_its_plugins_config_and_writes_beside_its_code() {
    let bench = Bench::new();
    bench.write("plugins/test/config.json", r#"{"api_key":"k-1234"}"#);
    bench.tool("config", json!({}), "#!/bin/sh\ncat ../config.json\necho kept > ../made\n");
    let runner = bench.start();
    assert_eq!(json_of(&runner.run("c1", "config", json!({})).await)["api_key"], "k-1234");
    assert_eq!(bench.read("plugins/test/made"), "kept\n");
}

#[tokio::test]
async fn a_failure_brings_what_the_tool_said() {
    let bench = Bench::new();
    bench.tool("fails", json!({}), "#!/bin/sh\necho partial\necho broken >&2\nexit 3\n");
    bench.tool("killed", json!({}), "#!/bin/sh\nkill -9 $$\n");
    let runner = bench.start();
    let lines = runner.lines("c1", "fails", json!({})).await;
    assert!(lines.contains(&Progress::Said { run: 0, text: "broken\n".into() }), "{lines:?}");
    let failure = failure_of(&crate::support::result_of(lines).runs[0]);
    assert_eq!(failure.reason, Reason::Tool);
    assert_eq!(failure.message, "the tool ended with exit code 3:\nbroken\npartial");
    let failure = failure_of(&runner.run("c2", "killed", json!({})).await);
    assert_eq!(failure.message, "the tool was ended by signal 9");
}

#[tokio::test]
async fn what_is_no_json_is_text_and_null_is_json() {
    let bench = Bench::new();
    bench.tool("text", json!({}), "#!/bin/sh\necho hello there\n");
    bench.tool("null", json!({}), "#!/bin/sh\necho null\n");
    // It never reads its input, and that is no failure.
    let large = json!({"parameters": {"p": {"type": "string", "description": "d"}}});
    bench.tool("deaf", large, "#!/bin/sh\nexec <&-\necho done\n");
    let runner = bench.start();
    let run = runner.run("c1", "text", json!({})).await;
    assert_eq!(run.outcome, Outcome::Text { output: "hello there\n".into() });
    let run = runner.run("c2", "null", json!({})).await;
    assert_eq!(run.outcome, Outcome::Json { output: "null".into() });
    let run = runner.run("c3", "deaf", json!({"p": "x".repeat(1 << 20)})).await;
    assert_eq!(text_of(&run), "done\n");
}

#[tokio::test]
async fn parameters_that_do_not_fit_are_refused_with_the_schema() {
    let bench = Bench::new();
    bench.tool("echo_query", query(), ECHO);
    let runner = bench.start();
    let schema = "`echo_query` takes:\n- `query` (string): The query to echo.\n- `count` (integer): How often.";
    let (status, problem) = runner.refusal("c1", "echo_query", json!({"quary": "x"})).await;
    assert_eq!((status, problem.kind), (StatusCode::BAD_REQUEST, Kind::Parameters));
    assert_eq!(problem.detail, "there is no parameter `quary`");
    assert_eq!(problem.remedy, schema);
    let (_, problem) = runner.refusal("c2", "echo_query", json!({"count": "3"})).await;
    assert_eq!(problem.detail, "`count` is a string and must be of type integer");
    let (status, problem) = runner.refusal("c3", "other", json!({})).await;
    assert_eq!((status, problem.kind), (StatusCode::NOT_FOUND, Kind::NoTool));
    assert_eq!(problem.remedy, schema);
    // A tool's name from a model is no path.
    let (status, _) = runner.refusal("c4", "../test/echo_query", json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // Whoever was refused may try again under the same name.
    json_of(&runner.run("c1", "echo_query", json!({"query": "x"})).await);
}

#[tokio::test]
async fn an_array_runs_the_tool_once_for_each_item() {
    let bench = Bench::new();
    let fails_on_two = "#!/usr/bin/env python3\nimport json,sys\n\
        n=json.load(sys.stdin)['count']\nif n==2: sys.exit('no two')\nprint(n*n)\n";
    bench.tool("square", query(), fails_on_two);
    let runner = bench.start();
    let items = json!([{"count": 1}, {"count": 2}, {"count": 3}]);
    let result = runner.result("c1", "square", items).await;
    assert!(result.each);
    assert_eq!(text_of(&result.runs[0]), "1");
    assert_eq!(failure_of(&result.runs[1]).message, "the tool ended with exit code 1:\nno two");
    assert_eq!(text_of(&result.runs[2]), "9");
    assert!(runner.result("c2", "square", json!([])).await.runs.is_empty());
}

#[tokio::test]
async fn a_broken_manifest_is_named_with_its_key_and_remedy() {
    let bench = Bench::new();
    bench.tool("good", json!({}), "#!/bin/sh\necho 1\n");
    bench.tool("bad", json!({"async": "yes"}), "#!/bin/sh\necho 1\n");
    bench.tool("gone", json!({"entrypoint": "missing.py"}), "#!/bin/sh\n");
    bench.tool("plain", json!({}), "echo no first line\n");
    bench.tool("lost", json!({}), "#!/no/such/interpreter\n");
    let runner = bench.start();
    let (status, problem) = runner.refusal("c1", "bad", json!({})).await;
    assert_eq!((status, problem.kind), (StatusCode::UNPROCESSABLE_ENTITY, Kind::Manifest));
    assert_eq!(
        problem.to_string(),
        "bad/manifest.json: key `async` is a string and must be true or false; write `true` or `false`"
    );
    let (_, problem) = runner.refusal("c2", "gone", json!({})).await;
    assert!(problem.detail.contains("key `entrypoint` names gone/missing.py"), "{problem}");
    // What the system itself cannot start, the shell does: plugins in the wild rely on it.
    assert_eq!(text_of(&runner.run("c3", "plain", json!({})).await), "no first line\n");
    let failure = failure_of(&runner.run("c4", "lost", json!({})).await);
    assert_eq!(failure.reason, Reason::Start);
    assert!(failure.message.contains("interpreter"), "{}", failure.message);
    // One broken tool does not take the others along.
    assert_eq!(text_of(&runner.run("c5", "good", json!({})).await), "1");
    let health = runner.send(Method::GET, paths::HEALTH, None).await;
    let health: Health = health.json().await.unwrap();
    assert_eq!(health.plugin.as_deref(), Some("test"));
    assert_eq!(health.complaints.len(), 2, "{:?}", health.complaints);
    let names: Vec<&str> = health.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "lost", "plain"]);
}

#[tokio::test]
async fn a_link_to_the_active_tree_is_followed_at_each_call() {
    let bench = Bench::new();
    bench.tool("version", json!({}), "#!/bin/sh\necho 1\n");
    std::fs::rename(bench.path("plugins/test"), bench.path("plugins/one")).unwrap();
    std::os::unix::fs::symlink("one", bench.path("plugins/test")).unwrap();
    let link = bench.path("plugins/test");
    let runner = bench.start();
    assert_eq!(text_of(&runner.run("c1", "version", json!({})).await), "1");
    std::fs::remove_file(&link).unwrap();
    std::fs::create_dir(&link).unwrap();
    bench.write("plugins/test/manifest.json", r#"{"name":"test","description":"A test."}"#);
    bench.tool("version", json!({}), "#!/bin/sh\necho 2\n");
    assert_eq!(text_of(&runner.run("c2", "version", json!({})).await), "2");
}
