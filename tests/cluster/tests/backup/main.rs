//! Backups as a cluster takes them, into a store beside it. Then both namespaces are deleted, and what was
//! in them comes back by the documented commands. It needs a node of `cargo xtask cluster` that is given
//! up afterwards.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../../app/backup/tests/support/s3.rs"]
#[expect(dead_code, reason = "no store dies here")]
mod store;

use famulus_cluster_tests::helm::{CHART, VALUES, helm};
use famulus_cluster_tests::kubectl::{LONG, condition, kubectl, object, objects, tried, until};
use famulus_cluster_tests::release::{Release, inline, name};
use serde_json::{Value, json};

use store::Server;

const PLUGIN: &str = "keeper";
/// Counts its calls in a file of the plugin's, and tells what it is configured by.
const TOOL: &str = r#"#!/bin/sh
echo . >> ../calls
printf '{"calls": %s, "config": %s}' "$(wc -l < ../calls)" "$(tr -d '\n' < ../config.json)"
"#;
const VALUE: &str = "what-a-plugin-is-configured-by";
/// A file of an account of the daemon of signal-cli, and what is in it.
const ACCOUNT: &str = "/data/signal-cli/data/77.d/account.db";
const KEYS: &str = "keys-of-an-account";
const SIGNAL: &str = concat!("localhost/famulus/scripted-signal:", env!("CARGO_PKG_VERSION"));
const FACT: &str = "my ship is called Argo";

/// The node, as its Pods reach it.
const NODE: &str = "198.51.100.1";

/// A pair of keys of this test's own.
const RECIPIENT: &str = "age1tt64c375dvk2wdmkjarhgpcvfyhpkprxrdj9uxljpl0e9z9vzu4scjezkc";
const IDENTITY: &str = "AGE-SECRET-KEY-1K4K707Q63PYQ7974QVXZG5TJDET6VJWC349U87PZAGX8WPU089FS8W8RGH";

#[tokio::test]
async fn both_namespaces_are_deleted_and_what_was_in_them_comes_back() {
    let store = Server::start_on(NODE.parse().unwrap());
    begin_from_nothing().await;
    install(&store, &[]).await;
    let release = Release::open().await;
    configure().await;
    let by = format!("  configSecretRef: {{name: {PLUGIN}-config}}\n");
    release.apply(&inline(PLUGIN, "try", TOOL, &by)).await;
    let before = release.condition(PLUGIN, "Ready=True").await;
    for calls in 1..=2 {
        assert_eq!(called(&release).await, (calls, json!(VALUE)));
    }
    release.chat(&format!("remember that {FACT}")).await;
    let script = format!("mkdir -p $(dirname {ACCOUNT}) && printf {KEYS} > {ACCOUNT}");
    beside_the_daemon(&script).await.unwrap();
    stands(&release, "none yet").await;

    run("backup", "first").await;
    stands(&release, "the last is ").await;
    run("backup-verify", "look").await;
    stands(&release, "was restored to see").await;
    nothing_is_readable(&store, &release);
    let token = release.token.clone();
    drop(release);

    begin_from_nothing().await;
    install(&store, &["--set", "restore.from=latest"]).await;
    let release = Release::open().await;
    assert_eq!(release.token, token, "the owner's token works as before");
    let reply = release.chat("what is my ship called?").await;
    assert!(reply.contains(FACT), "{reply}");
    let after = release.condition(PLUGIN, "Ready=True").await;
    assert_eq!(written(after.clone()), written(before));
    // It counts on, in the files that it had, by another user id than then.
    assert_eq!(called(&release).await, (3, json!(VALUE)));
    until("the daemon has its account, and was started anew with it", LONG, async || {
        let kept = beside_the_daemon(&format!("cat {ACCOUNT}")).await?;
        let pod = object(&name(), "pod", &daemon()).await.ok_or("it is not there")?;
        let mut containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let daemon = containers.find(|it| it["name"] == "signal").ok_or("it does not run")?;
        let again = daemon["restartCount"].as_u64() >= Some(1) && daemon["ready"] == true;
        if kept == KEYS && again { Ok(()) } else { Err(format!("{kept}: {daemon}")) }
    })
    .await;
    until("the restore says what it did", LONG, async || {
        let log = log_of("app.kubernetes.io/component=restore").await;
        let said = ["is restored: everything up to", "Nothing was on its way out"];
        let files = format!("The plugin {PLUGIN} has its files");
        let accounts = "The channel signal has its accounts";
        let missing =
            said.into_iter().chain([&*files, accounts]).find(|words| !log.contains(words));
        missing.map_or(Ok(()), |words| Err(format!("{words}: {log}")))
    })
    .await;
    let plugin = object(&sandbox(), "plugin", PLUGIN).await.unwrap();
    assert!(plugin["metadata"]["annotations"]["famulus.dev/restored-from"].is_null(), "{plugin}");
    // An upgrade with the same values restores nothing anew, and takes a backup only where the database changes.
    release.chat("remember that my boat is called Swan").await;
    drop(release);
    upgrade(&store, &["--set", "restore.from=latest", "--set", "app.log=info\\,x=info"]).await;
    let release = Release::open().await;
    let reply = release.chat("what is my boat called?").await;
    assert!(reply.contains("Swan"), "{reply}");
    run("backup", "second").await;
    stands(&release, "the last is ").await;
}

fn daemon() -> String {
    format!("{}-signal-0", name())
}

/// A script in the Pod of the daemon of signal-cli.
async fn beside_the_daemon(script: &str) -> Result<String, String> {
    let (own, pod) = (name(), daemon());
    tried(&["-n", &own, "exec", &pod, "-c", "tidy", "--", "/bin/sh", "-ec", script]).await
}

fn sandbox() -> String {
    format!("{}-sandbox", name())
}

/// What its owner wrote of a Plugin, and what serves. How many runners it has changes with its calls.
fn written(mut plugin: Value) -> (Value, Value) {
    plugin["spec"]["runner"]["replicas"].take();
    (plugin["spec"].take(), plugin["status"]["revision"].take())
}

/// Calls the plugin: how often it was called as far as it knows, and by what it is configured.
async fn called(release: &Release) -> (u64, Value) {
    let mut told = release.told(&format!("run try of {PLUGIN}")).await;
    (told["calls"].as_u64().unwrap(), told["config"]["value"].take())
}

/// Gives the plugin a Secret.
async fn configure() {
    let secret = format!("{PLUGIN}-config");
    let value = format!("--from-literal=value={VALUE}");
    kubectl(&["-n", &sandbox(), "create", "secret", "generic", &secret, &value]).await;
    let label = format!("famulus.dev/config-for={PLUGIN}");
    kubectl(&["-n", &sandbox(), "label", "secret", &secret, &label]).await;
}

/// Nothing is installed, and neither namespace is there.
async fn begin_from_nothing() {
    let (own, sandbox) = (name(), sandbox());
    // It is waited for. What is asked of the server by kind comes later, since its definitions may be missing here.
    kubectl(&["delete", "namespace", &own, &sandbox, "--ignore-not-found", "--timeout=5m"]).await;
    kubectl(&["create", "namespace", &own]).await;
    let credentials = [
        format!("--from-literal=access-key-id={}", store::ACCESS),
        format!("--from-literal=secret-access-key={}", store::SECRET),
    ];
    let [access, secret] = &credentials;
    kubectl(&["-n", &own, "create", "secret", "generic", "store", access, secret]).await;
    let identity = format!("--from-literal=identity={IDENTITY}");
    kubectl(&["-n", &own, "create", "secret", "generic", "backup-key", &identity]).await;
}

async fn install(store: &Server, more: &[&str]) {
    run_helm("install", store, more).await;
}

async fn upgrade(store: &Server, more: &[&str]) {
    run_helm("upgrade", store, more).await;
}

async fn run_helm(verb: &str, store: &Server, more: &[&str]) {
    let endpoint = format!("backup.s3.endpoint={}", store.endpoint());
    let bucket = format!("backup.s3.bucket={}", store::BUCKET);
    let recipient = format!("backup.recipient={RECIPIENT}");
    let signal = format!("signal.image={SIGNAL}");
    let name = name();
    let mut words = vec![verb, &name, CHART, "-f", VALUES, "--wait", "--timeout", "5m"];
    for value in [
        &endpoint,
        &bucket,
        "backup.s3.prefix=home",
        "backup.s3.existingSecret=store",
        &recipient,
        &signal,
        "backup.identity.existingSecret=backup-key",
    ] {
        words.extend(["--set", value]);
    }
    words.extend(more);
    helm(&words).await;
}

/// Has a CronJob do now what it does by the clock, and waits until that is done.
async fn run(what: &str, job: &str) {
    let (own, from) = (name(), format!("cronjob/{}-{what}", name()));
    kubectl(&["-n", &own, "create", "job", job, "--from", &from]).await;
    until(&format!("the Job {job} is done"), LONG, async || {
        let found = object(&own, "job", job).await.ok_or("it is not there")?;
        if let Some(failed) = condition(&found, "Failed") {
            let log = kubectl(&["-n", &own, "logs", &format!("job/{job}")]).await;
            panic!("{failed}: {log}");
        }
        let done = condition(&found, "Complete").is_some_and(|it| it["status"] == "True");
        if done { Ok(()) } else { Err(found["status"].to_string()) }
    })
    .await;
}

/// Waits until the app says this of its backups, and that all is well.
async fn stands(release: &Release, words: &str) {
    until(&format!("the backups stand so: {words}"), LONG, async || {
        let (_, status) = release.ask(reqwest::Method::GET, "/v1/status", None).await;
        let checks = status["checks"].as_array().ok_or_else(|| status.to_string())?;
        let is_it = |check: &&Value| check["name"] == "backups";
        let check = checks.iter().find(is_it).ok_or_else(|| status.to_string())?;
        let said = check["detail"].as_str().unwrap();
        if said.contains(words) && check["ok"] == true { Ok(()) } else { Err(check.to_string()) }
    })
    .await;
}

/// What is in the store is sealed.
fn nothing_is_readable(store: &Server, release: &Release) {
    let mut folders = vec![store.objects()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let bytes = std::fs::read(&path).unwrap();
            for secret in [FACT, VALUE, KEYS, &release.token, store::SECRET] {
                let found = bytes.windows(secret.len()).any(|at| at == secret.as_bytes());
                assert!(!found, "{}: {secret}", path.display());
            }
        }
    }
    assert!(files >= 5, "{files}");
}

async fn log_of(selector: &str) -> String {
    let pods = objects(&name(), "pods", selector).await;
    let pod = pods.first().unwrap_or_else(|| panic!("no Pod has {selector}"));
    kubectl(&["-n", &name(), "logs", pod["metadata"]["name"].as_str().unwrap()]).await
}
