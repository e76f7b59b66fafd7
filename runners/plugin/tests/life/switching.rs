//! A runner follows what the operator mounts: revisions, configuration, bearers.

use std::time::Duration;

use famulus_protocol::revision::Network;
use famulus_protocol::{Health, Kind, Problem, paths};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::house::{House, MANIFEST, inline, tool};
use crate::support::{BEARER, Runner, json_of, lines_of, result_of, text_of, until};

pub(crate) async fn ready(runner: &Runner) {
    for _ in 0..400 {
        if runner.send_as(None, Method::GET, paths::ALIVE).await == StatusCode::OK {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the runner does not become ready");
}

pub(crate) async fn health(runner: &Runner) -> Health {
    runner.send(Method::GET, paths::HEALTH, None).await.json().await.unwrap()
}

pub(crate) async fn serves(runner: &Runner, revision: &str) {
    says(runner, revision, |health| health.revision.as_deref() == Some(revision)).await;
}

/// Waits until the runner says of itself what is waited for.
pub(crate) async fn says(runner: &Runner, what: &str, holds: impl Fn(&Health) -> bool) {
    for _ in 0..400 {
        if holds(&health(runner).await) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not said, {what}: {:?}", health(runner).await);
}

/// A plugin that says which version it is, counts its calls in a file of its own, and shows its
/// configuration.
fn version(number: &str) -> Vec<(&'static str, String)> {
    let count = format!(
        "#!/bin/sh\nn=$(cat ../counted 2>/dev/null || echo 0)\nn=$((n+1))\necho $n > ../counted\n\
         echo \"{{\\\"version\\\": {number}, \\\"count\\\": $n}}\"\n"
    );
    vec![
        ("manifest.json", MANIFEST.to_owned()),
        ("count/manifest.json", tool("count")),
        ("count/run", count),
        ("slow/manifest.json", tool("slow")),
        ("slow/run", format!("#!/bin/sh\n: > ../began\nsleep 1\necho {number}\n")),
    ]
}

async fn make(house: &House, files: &[(&'static str, String)]) -> String {
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    house.make(&files).await
}

#[tokio::test]
async fn a_new_revision_serves_after_the_calls_and_takes_the_plugins_files_along() {
    let house = House::new().await;
    let one = make(&house, &version("1")).await;
    house.mount(1, Some(&one), &json!({}), BEARER);
    let runner = house.serve(&[]);
    ready(&runner).await;
    let first = json_of(&runner.run("c1", "count", json!({})).await);
    assert_eq!(first, json!({"version": 1, "count": 1}));

    let two = make(&house, &version("2")).await;
    // A call that runs ends on the tree on which it began.
    let slow = runner.run("c2", "slow", json!({}));
    let mount = async {
        until("it runs", || house.path("plugins/test/began").exists()).await;
        house.mount(2, Some(&two), &json!({}), BEARER);
    };
    let (slow, ()) = tokio::join!(slow, mount);
    assert_eq!(text_of(&slow), "1");
    serves(&runner, &two).await;
    let second = json_of(&runner.run("c3", "count", json!({})).await);
    assert_eq!(second, json!({"version": 2, "count": 2}));
    // Back again: the tree is still there, and so is what was counted since.
    house.mount(3, Some(&one), &json!({}), BEARER);
    serves(&runner, &one).await;
    let third = json_of(&runner.run("c4", "count", json!({})).await);
    assert_eq!(third, json!({"version": 1, "count": 3}));
    let health = health(&runner).await;
    assert_eq!(health.rendered, Some(3));
    assert_eq!(health.complaints, Vec::<String>::new());
}

#[tokio::test]
async fn who_knows_of_a_revision_is_served_by_it() {
    let house = House::new().await;
    let (one, two) = (make(&house, &version("1")).await, make(&house, &version("2")).await);
    house.mount(1, Some(&one), &json!({}), BEARER);
    let runner = house.serve(&[]);
    ready(&runner).await;
    for number in 2..12 {
        let (revision, version) = if number % 2 == 0 { (&two, 2) } else { (&one, 1) };
        house.mount(number, Some(revision), &json!({}), BEARER);
        let call = json!({"tool": "count", "parameters": {}});
        let response = runner.call_with((BEARER, number), &format!("c{number}"), call).await;
        assert_eq!(response.status(), StatusCode::OK);
        let run = result_of(lines_of(response).await).runs.remove(0);
        assert_eq!(json_of(&run), json!({"version": version, "count": number - 1}));
    }
}

#[tokio::test]
async fn a_call_waits_for_its_configuration_and_old_bearers_pass_for_a_while() {
    let house = House::new().await;
    let manifest = r#"{"name":"test","description":"d","config":{
        "key":{"description":"d","required":true},"url":{"description":"d","default":"u"}}}"#;
    let tool = tool("show");
    let files = [
        ("manifest.json", manifest),
        ("show/manifest.json", &tool),
        ("show/run", "#!/bin/sh\ncat ../config.json\nstat -c %a ../config.json >&2\n"),
    ];
    let revision = house.make(&files).await;
    house.mount(1, Some(&revision), &json!({}), "bearer-number-one");
    let runner = house.serve(&[]);
    ready(&runner).await;
    let call = json!({"tool": "show", "parameters": {}});
    let response = runner.call_with(("bearer-number-one", 1), "c1", call.clone()).await;
    assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let problem: Problem = response.json().await.unwrap();
    assert_eq!(problem.kind, Kind::Config);
    assert_eq!(problem.detail, "the plugin's configuration has no value for `key`");

    // The app is ahead of the mount.
    let ahead = runner.call_with(("bearer-number-two", 2), "c2", call.clone());
    let mount = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        house.mount(2, Some(&revision), &json!({"key": "k2"}), "bearer-number-two");
    };
    let (response, ()) = tokio::join!(ahead, mount);
    assert_eq!(response.status(), StatusCode::OK);
    let run = result_of(lines_of(response).await).runs.remove(0);
    assert_eq!(json_of(&run), json!({"key": "k2", "url": "u"}));
    // A call that was on its way with the bearer of before passes, one with another does not.
    let response = runner.call_with(("bearer-number-one", 1), "c3", call.clone()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let response = runner.call_with(("bearer-number-three", 2), "c4", call.clone()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    // One that never comes is not waited for without end.
    let response = runner.call_with(("bearer-number-two", 9), "c5", call).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(response.json::<Problem>().await.unwrap().kind, Kind::Stale);
}

#[tokio::test]
async fn a_failed_build_leaves_what_serves() {
    let house = House::new().await;
    let one = make(&house, &version("1")).await;
    house.mount(1, Some(&one), &json!({}), BEARER);
    let runner = house.serve(&[]);
    ready(&runner).await;
    let mut broken = version("2");
    broken[0].1 = r#"{"name":"test","description":"d","init":{"entrypoint":"init.sh"}}"#.to_owned();
    broken.push(("init.sh", "#!/bin/sh\necho made > made\necho no space >&2\nexit 3\n".to_owned()));
    let files: Vec<(&str, &str)> =
        broken.iter().map(|(path, text)| (*path, text.as_str())).collect();
    house.order("test", inline(&files));
    let (two, _) = house.bundle().await;
    let (reason, message) = house.build_failure(&[]).await;
    assert_eq!(reason, "InitFailed");
    assert!(message.contains("ended with exit code 3\nno space"), "{message}");
    let hex = two.strip_prefix("sha256:").unwrap();
    assert!(!house.path(&format!("state/revisions/{hex}")).exists());
    house.mount(2, Some(&two), &json!({}), BEARER);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let answer = json_of(&runner.run("c1", "count", json!({})).await);
    assert_eq!(answer["version"], 1);
    assert_eq!(health(&runner).await.revision.as_deref(), Some(&*one));
}

#[tokio::test]
async fn nothing_of_a_plugin_runs_in_a_network_that_is_not_closed() {
    let house = House::new().await;
    let files = [
        ("manifest.json", r#"{"name":"test","description":"d","init":{"entrypoint":"init.sh"}}"#),
        ("init.sh", "#!/bin/sh\necho ran > ran\n"),
    ];
    house.order("test", inline(&files));
    let (revision, _) = house.bundle().await;
    let address = house.canary().await;
    let (reason, message) =
        house.build_failure(&[("PROBE_DENIED", &*address), ("PROBE_SECONDS", "1")]).await;
    assert_eq!(reason, "NetworkOpen");
    assert!(message.contains(&address), "{message}");
    assert!(!house.path("state/revisions").exists());
    house.build().await;

    house.mount(1, Some(&revision), &json!({}), BEARER);
    // Long enough to be asked something before it ends.
    let mut runner = house.serve(&[("PROBE_DENIED", &*address), ("PROBE_SECONDS", "8")]);
    assert_eq!(
        runner.send_as(None, Method::GET, paths::ALIVE).await,
        StatusCode::SERVICE_UNAVAILABLE
    );
    let (status, problem) = runner.refusal("c1", "t", json!({})).await;
    assert_eq!((status, problem.kind), (StatusCode::SERVICE_UNAVAILABLE, Kind::NotReady));
    // It ends, and says why.
    for _ in 0..600 {
        if runner.child.try_wait().unwrap().is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let report: famulus_protocol::revision::Probed =
        serde_json::from_str(&house.read("report")).unwrap();
    assert_eq!(report.network, Network::Open);
}

#[tokio::test]
async fn a_network_that_opens_later_ends_the_runner() {
    let house = House::new().await;
    let revision = make(&house, &version("1")).await;
    house.mount(1, Some(&revision), &json!({}), BEARER);
    // Nobody is there yet.
    let (nobody, address) = House::nobody();
    let mut runner = house.serve(&[("PROBE_DENIED", &*address), ("PROBE_AGAIN_SECONDS", "0.2")]);
    ready(&runner).await;
    serves(&runner, &revision).await;
    assert_eq!(json_of(&runner.run("c1", "count", json!({})).await)["count"], 1);

    let _somebody = nobody.listen(8).unwrap();
    until("the runner ends", || runner.child.try_wait().unwrap().is_some()).await;
    let report: famulus_protocol::revision::Probed =
        serde_json::from_str(&house.read("report")).unwrap();
    assert_eq!(report.network, Network::Open);
    assert!(report.detail.contains(&address), "{}", report.detail);
}

#[tokio::test]
async fn a_call_that_runs_when_the_network_opens_ends_with_its_runner() {
    let house = House::new().await;
    let tool = tool("hold");
    let files = [
        ("manifest.json", MANIFEST),
        ("hold/manifest.json", &*tool),
        ("hold/run", "#!/bin/sh\necho $$ > ../began\nsleep 20\necho ended > ../ended\n"),
    ];
    let revision = house.make(&files).await;
    house.mount(1, Some(&revision), &json!({}), BEARER);
    let (nobody, address) = House::nobody();
    let mut runner = house.serve(&[("PROBE_DENIED", &*address), ("PROBE_AGAIN_SECONDS", "0.2")]);
    ready(&runner).await;
    serves(&runner, &revision).await;
    let call = json!({"tool": "hold", "parameters": {}});
    let response = runner.call_with((BEARER, 1), "c1", call).await;
    assert_eq!(response.status(), StatusCode::OK);
    let began = house.path("plugins/test/began");
    let process = || std::fs::read_to_string(&began).unwrap_or_default();
    until("the tool is at work", || process().ends_with('\n')).await;
    let process = process();
    let process = std::path::PathBuf::from(format!("/proc/{}", process.trim()));
    assert!(process.exists(), "{}", process.display());

    let _somebody = nobody.listen(8).unwrap();
    until("the runner ends", || runner.child.try_wait().unwrap().is_some()).await;
    until("the tool has ended", || !process.exists()).await;
    assert!(!house.path("plugins/test/ended").exists(), "it was not waited for");
}

#[tokio::test]
async fn what_was_found_shut_counts_as_shut_while_the_app_is_away() {
    let house = House::new().await;
    let revision = make(&house, &version("1")).await;
    house.mount(1, Some(&revision), &json!({}), BEARER);
    let settings = [("PROBE_AGAIN_SECONDS", "0.1"), ("PROBE_SECONDS", "1")];
    let runner = house.serve(&settings);
    ready(&runner).await;
    serves(&runner, &revision).await;

    let _left = house.is_left().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(runner.send_as(None, Method::GET, paths::ALIVE).await, StatusCode::OK);
    assert_eq!(json_of(&runner.run("c1", "count", json!({})).await)["count"], 1);
    drop(runner);
    // One that begins meanwhile cannot know, and runs nothing.
    let runner = house.serve(&settings);
    says(&runner, "it has looked", |health| health.network == Some(Network::Unknown)).await;
    let status = runner.send_as(None, Method::GET, paths::ALIVE).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let (status, problem) = runner.refusal("c2", "count", json!({})).await;
    assert_eq!((status, problem.kind), (StatusCode::SERVICE_UNAVAILABLE, Kind::NotReady));
}

#[tokio::test]
async fn an_owner_may_accept_an_open_network() {
    let house = House::new().await;
    let address = house.canary().await;
    let settings =
        [("PROBE_DENIED", &*address), ("PROBE_SECONDS", "1"), ("ACCEPT_OPEN_NETWORK", "true")];
    let files = version("1");
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    house.order("test", inline(&files));
    let (revision, _) = house.bundle().await;
    let built = house.try_build(&settings).await;
    assert!(matches!(built, famulus_protocol::revision::Built::Done { .. }), "{built:?}");
    house.mount(1, Some(&revision), &json!({}), BEARER);
    let runner = house.serve(&settings);
    ready(&runner).await;
    serves(&runner, &revision).await;
    assert_eq!(json_of(&runner.run("c1", "count", json!({})).await)["count"], 1);
    says(&runner, "it is open", |health| health.network == Some(Network::Open)).await;
}
