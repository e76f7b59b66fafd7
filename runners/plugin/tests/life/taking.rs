//! A runner whose volume ends with its Pod takes its revision from the app.

use std::fs;

use famulus_protocol::revision::Built;
use serde_json::json;

use crate::house::{House, MANIFEST, inline, tool};
use crate::support::{BEARER, Runner, json_of, until};
use crate::switching::{health, ready, says, serves};

const INIT: &str = r#"{"name":"test","description":"d","init":{"entrypoint":"init.sh"}}"#;

/// A plugin whose init script makes what its tool shows.
fn files(init: &str) -> Vec<(&'static str, String)> {
    vec![
        ("manifest.json", INIT.to_owned()),
        ("init.sh", format!("#!/bin/sh\n{init}\n")),
        ("show/manifest.json", tool("show")),
        ("show/run", "#!/bin/sh\ncat ../made\n".to_owned()),
    ]
}

/// A house whose app keeps the revision, and whose volume is empty.
async fn kept(files: &[(&'static str, String)]) -> (House, String) {
    keeps(House::new().await, files).await
}

async fn keeps(house: House, files: &[(&'static str, String)]) -> (House, String) {
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    house.order("test", inline(&files));
    let (revision, _) = house.bundle().await;
    for name in ["build", "work"] {
        fs::remove_dir_all(house.path(name)).unwrap();
    }
    house.mount(1, Some(&revision), &json!({"key": "value"}), BEARER);
    (house, revision)
}

fn serve(house: &House, settings: &[(&str, &str)]) -> Runner {
    let app = house.url();
    let all: Vec<_> = [("BUNDLES", app.as_str())].iter().chain(settings).copied().collect();
    house.serve(&all)
}

/// Waits for the end, and gives what it left.
async fn failure(house: &House, mut runner: Runner) -> (String, String) {
    until("the runner ends", || runner.child.try_wait().unwrap().is_some()).await;
    match serde_json::from_str(&house.read("report")).unwrap() {
        Built::Failed(failure) => (failure.reason, failure.message),
        done @ Built::Done { .. } => panic!("{done:?}"),
    }
}

#[tokio::test]
async fn a_runner_takes_its_revision_and_builds_it_once() {
    let init = "echo \"{\\\"at\\\": \\\"$(pwd -P)\\\"}\" > made; echo again >> runs";
    let (house, revision) = kept(&files(init)).await;
    // As long as the app does not know the Pod.
    house.kept.lock().refusals = 3;
    let runner = serve(&house, &[]);
    ready(&runner).await;
    let hex = revision.strip_prefix("sha256:").unwrap();
    let tree = house.path("state/revisions").join(hex);
    let told = json_of(&runner.run("c1", "show", json!({})).await);
    assert_eq!(told, json!({"at": tree.canonicalize().unwrap()}));
    assert!(!house.path("state/incoming.tar").exists());
    // Another revision comes with another Pod.
    let other = format!("sha256:{}", "0".repeat(64));
    house.mount(2, Some(&other), &json!({}), BEARER);
    says(&runner, "what was mounted", |health| health.rendered == Some(2)).await;
    assert_eq!(health(&runner).await.revision, Some(revision.clone()));
    drop(runner);

    // Its container began anew, in the same Pod: the tree is there, and the app is not needed.
    house.mount(3, Some(&revision), &json!({}), BEARER);
    house.kept.lock().bundles.clear();
    let runner = serve(&house, &[]);
    ready(&runner).await;
    serves(&runner, &revision).await;
    drop(runner);

    // It had ended after the build and before the switch.
    fs::remove_file(house.path("state/active")).unwrap();
    let runner = serve(&house, &[]);
    ready(&runner).await;
    serves(&runner, &revision).await;
    assert_eq!(house.read(&format!("state/revisions/{hex}/runs")), "again\n");
}

#[tokio::test]
async fn an_init_script_beside_the_bearer_cannot_read_it() {
    let house = House::new().await;
    let bearer = house.path("mounted/..data/bearer");
    let init = format!("cat {} > made 2>&1; cat made >&2; exit 3", bearer.display());
    let house = keeps(house, &files(&init)).await.0;
    assert_eq!(fs::read_to_string(bearer).unwrap(), BEARER);
    let (reason, message) = failure(&house, serve(&house, &[])).await;
    assert_eq!(reason, "InitFailed");
    assert!(message.contains("Permission denied") && !message.contains(BEARER), "{message}");
}

#[tokio::test]
async fn a_revision_that_cannot_be_made_ready_ends_the_runner_with_the_reason() {
    let (house, revision) = kept(&files("echo no space >&2; exit 3")).await;
    let (reason, message) = failure(&house, serve(&house, &[])).await;
    assert_eq!(reason, "InitFailed");
    assert!(message.contains("ended with exit code 3\nno space"), "{message}");
    assert!(!house.path("state/incoming.tar").exists());

    let hex = revision.strip_prefix("sha256:").unwrap();
    house.kept.lock().bundles.insert(hex.to_owned(), b"another".to_vec());
    let (reason, message) = failure(&house, serve(&house, &[])).await;
    assert_eq!(reason, "BuildFailed");
    assert!(message.contains(&format!("what the app sent as {revision} is sha256:")), "{message}");

    house.kept.lock().bundles.clear();
    let (reason, message) = failure(&house, serve(&house, &[])).await;
    assert_eq!(reason, "RevisionUnknown");
    assert!(message.contains(&format!("the app keeps no revision {revision}")), "{message}");
}

#[tokio::test]
async fn nothing_is_taken_in_a_network_that_is_not_closed() {
    let (house, _) = kept(&[("manifest.json", MANIFEST.to_owned())]).await;
    let address = house.canary().await;
    let mut runner = serve(&house, &[("PROBE_DENIED", &*address), ("PROBE_SECONDS", "1")]);
    until("the runner ends", || runner.child.try_wait().unwrap().is_some()).await;
    assert!(!house.path("state/revisions").exists());
    assert!(house.read("report").contains(r#""network":"open""#), "{}", house.read("report"));
}
