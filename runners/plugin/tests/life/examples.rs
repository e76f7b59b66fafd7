//! Plugins of different make, from a real git daemon to their answers.

use std::path::{Path, PathBuf};

use famulus_protocol::{Accepted, CallState, Outcome, paths};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::house::House;
use crate::support::{BEARER, Runner, call_id, json_of, text_of};
use crate::switching::ready;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins")
}

/// A plugin that was fetched, built and serves.
struct Served {
    house: House,
    daemon: Daemon,
    runner: Runner,
    revision: String,
    init_output: String,
}

/// Serves an example as it is in its folder.
async fn serve(name: &str, config: Value) -> Served {
    let (house, daemon) = (House::new().await, Daemon::start());
    let repository = daemon.repository(name);
    repository.copy(&examples().join(name));
    repository.commit();
    house.order_of(name, daemon.source(name, "main"), &[daemon.host()]);
    let (revision, commit) = house.bundle().await;
    assert!(commit.is_some());
    house.mount(1, Some(&revision), &config, BEARER);
    let init_output = house.build().await;
    let runner = house.serve_as(name, &[]);
    ready(&runner).await;
    Served { house, daemon, runner, revision, init_output }
}

#[tokio::test]
async fn greeting_is_plain_shell() {
    let served = serve("greeting", json!({})).await;
    let run = served.runner.run("c1", "greet", json!({"name": "Ada"})).await;
    assert_eq!(json_of(&run), json!({"greeting": "Hello, Ada!"}));
    let run = served.runner.run("c2", "greet", json!({})).await;
    assert_eq!(json_of(&run), json!({"greeting": "Hello, stranger!"}));
}

#[tokio::test]
async fn notes_keep_their_notes_over_revisions() {
    let served = serve("notes", json!({})).await;
    assert_eq!(served.init_output, "0 notes are kept");
    let Served { house, daemon, runner, revision, .. } = served;
    let note = json!([{"title": "a", "text": "first"}, {"title": "b", "text": "second"}]);
    assert_eq!(runner.result("c1", "add_note", note).await.runs.len(), 2);
    assert_eq!(json_of(&runner.run("c2", "list_notes", json!({})).await), json!(["a", "b"]));

    // A new commit: the same plugin with another description.
    let repository = crate::daemon::Repository { path: daemon.path("notes") };
    let manifest = examples().join("notes/manifest.json");
    let manifest = std::fs::read_to_string(manifest).unwrap().replace("Keeps", "Still keeps");
    repository.write("manifest.json", manifest);
    repository.commit();
    house.order_of("notes", daemon.source("notes", "main"), &[daemon.host()]);
    let (next, _) = house.bundle().await;
    assert_ne!(next, revision);
    assert_eq!(house.build().await, "2 notes are kept");
    house.mount(2, Some(&next), &json!({}), BEARER);
    crate::switching::serves(&runner, &next).await;
    let run = runner.run("c3", "read_note", json!({"title": "b"})).await;
    assert_eq!(json_of(&run), json!({"text": "second"}));
}

#[tokio::test]
async fn units_read_their_configuration_with_its_defaults() {
    let served = serve("units", json!({"signature": "S."})).await;
    let run = served.runner.run("c1", "convert", json!({"metres": 100})).await;
    assert_eq!(json_of(&run), json!({"feet": 328.08, "signature": "S."}));
    // A value out of a Secret is a text.
    let config = json!({"signature": "S.", "places": "0"});
    served.house.mount(2, Some(&served.revision), &config, BEARER);
    let body = json!({"tool": "convert", "parameters": {"metres": 100}});
    let response = served.runner.call_with((BEARER, 2), "c2", body).await;
    let run = crate::support::result_of(crate::support::lines_of(response).await).runs.remove(0);
    assert_eq!(json_of(&run)["feet"], 328.0);
}

#[tokio::test]
async fn wordcount_takes_a_file_and_leaves_one() {
    let served = serve("wordcount", json!({})).await;
    let text = b"one two two three three three".to_vec();
    assert_eq!(served.runner.upload("c1", 0, text).await, StatusCode::NO_CONTENT);
    let parameters = json!({"document": {"filename": "letter.txt", "upload": 0}});
    let run = served.runner.run("c1", "count", parameters).await;
    assert_eq!(json_of(&run), json!({"words": 6, "different": 3}));
    let names: Vec<&str> = run.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["words.csv"]);
    let (_, table) = served.runner.file("c1", run.files[0].index).await;
    assert_eq!(String::from_utf8(table).unwrap(), "three,3\ntwo,2\none,1\n");
}

#[tokio::test]
async fn slug_brings_a_node_package_by_npm_in_init() {
    let served = serve("slug", json!({})).await;
    let calls = [("c1", "Über Ärger"), ("c2", "A  plain Title!")];
    let runs = calls.map(|(id, title)| served.runner.run(id, "make_slug", json!({"title": title})));
    let runs = futures::future::join_all(runs).await;
    assert_eq!(json_of(&runs[0]), json!({"slug": "uber-arger"}));
    assert_eq!(json_of(&runs[1]), json!({"slug": "a-plain-title"}));
}

#[tokio::test]
async fn survey_answers_later() {
    let served = serve("survey", json!({})).await;
    let body = json!({"tool": "primes", "parameters": {"below": 1000}});
    let path = paths::call(&call_id("c1"));
    let accepted = served.runner.send(Method::POST, &path, Some(body)).await;
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    let accepted: Accepted = accepted.json().await.unwrap();
    assert_eq!(accepted.status, "running");
    let result = served.runner.ended("c1").await;
    assert_eq!(json_of(&result.runs[0]), json!({"primes": 168}));
    assert!(matches!(served.runner.state("c1").await, CallState::Ended { .. }));
}

#[tokio::test]
async fn proverb_finds_its_packages_without_an_index() {
    let served = serve("proverb", json!({})).await;
    let run = served.runner.run("c1", "tell", json!({"number": 4})).await;
    assert_eq!(json_of(&run), json!({"proverb": "What is written down is half done."}));
}

#[tokio::test]
async fn dice_have_several_tools_and_a_text_for_an_answer() {
    let served = serve("dice", json!({"sides": "4"})).await;
    let result = served.runner.result("c1", "throw", json!([{"seed": 1}, {"seed": 1}])).await;
    let throws: Vec<Value> = result.runs.iter().map(json_of).collect();
    assert_eq!((&throws[0]["throw"], &throws[1]["throws"]), (&throws[1]["throw"], &json!(2)));
    let throw = throws[0]["throw"].as_u64().unwrap();
    assert!((1..=4).contains(&throw));
    let run = served.runner.run("c2", "luck", json!({})).await;
    assert_eq!(run.outcome, Outcome::Text { output: format!("2 {throw}\n") });
}

#[tokio::test]
async fn a_large_plugin_is_a_plugin() {
    let (house, daemon) = (House::new().await, Daemon::start());
    let repository = daemon.repository("large");
    let manifest = json!({"name": "large", "description": "It is large."}).to_string();
    repository.write("manifest.json", manifest);
    for number in 0..40 {
        let name = format!("tool_{number}");
        let manifest = json!({
            "name": name, "description": format!("Tool {number}."), "entrypoint": "run.sh",
            "parameters": {"text": {"type": "string", "description": "Any."}},
        });
        repository.write(&format!("{name}/manifest.json"), manifest.to_string());
        repository.write(&format!("{name}/run.sh"), "#!/bin/sh\nls ../data | wc -l\n");
    }
    for number in 0..3000 {
        repository.write(&format!("data/{number}.txt"), "x".repeat(4096));
    }
    repository.commit();
    house.order_of("large", daemon.source("large", "main"), &[daemon.host()]);
    let (revision, _) = house.bundle().await;
    house.mount(1, Some(&revision), &json!({}), BEARER);
    house.build().await;
    let runner = house.serve_as("large", &[]);
    ready(&runner).await;
    let run = runner.run("c1", "tool_39", json!({"text": "x"})).await;
    assert_eq!(text_of(&run).trim(), "3000");
}
