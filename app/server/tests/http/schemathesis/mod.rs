//! What fits the OpenAPI document is taken, and every answer fits it. schemathesis makes up requests that
//! fit and requests that do not, and holds every answer against the document, with all of its checks.
//!
//! It asks twice: at first a member is sent, and the owner where the member may not; then the owner
//! everywhere, and what the owner reads is asked for as the member, too.

use crate::{
    approvals::Bell,
    plugins::{Credulous, describe, weather},
    world::{self, Client, Puppet, Setup, Text as _, World, call, say},
};
use famulus_api::openapi;
use famulus_core::sandbox::RunOutput;
use famulus_server::plugins::{Plugins, Ports};
use famulus_tools::fake::plugins::{Play, result};
use serde_json::json;
use std::{fs::File, path::Path, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    process::Command,
    time::{sleep, timeout},
};

/// What is not over by then hangs. A run takes a minute of a processor, of which the tests beside it may leave it a
/// tenth, or what it was given.
const PATIENCE: Duration = Duration::from_mins(20);
/// Between two messages of a person, so that streams have something to tell.
const PAUSE: Duration = Duration::from_millis(300);
/// Lines of what failed that are shown.
const SHOWN: usize = 160;
const SUMMARY: &str = "= SUMMARY =";

/// How much it asks, each time, and what its random choices begin with.
struct Extent {
    amount: [&'static str; 2],
    seed: u64,
}

/// The same requests each time, about a minute long on two cores.
#[tokio::test(flavor = "multi_thread")]
async fn what_fits_the_document_is_taken_and_every_answer_fits_it() {
    whole(&Extent { amount: ["--max-examples", "8"], seed: 17 }).await;
}

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_same_for_long_and_otherwise_each_time() {
        let seed = u64::from(rand::random::<u32>());
        // In seconds.
        whole(&Extent { amount: ["--max-time", "300"], seed }).await;
    }
}

async fn whole(extent: &Extent) {
    let mut setup = Setup::new(Puppet::new(|_, request| {
        if !request.has_results() && request.last().ends_with("ring") {
            return vec![call("bell", &json!({ "whose": "Bob" }))];
        }
        vec![say("Fine.")]
    }));
    setup.config.api.failed_auth_per_minute = 1_000_000;
    setup.plugins = Plugins::Given(Ports {
        sandboxes: weather(|| Play::End(result(RunOutput::Text("sunny".into())))),
        runners: Arc::new(Credulous),
        managed: Arc::new(famulus_core::plugin::Unmanaged("they are fake")),
        installed: None,
    });
    world::run(setup.tool(Arc::new(Bell::default())), async |world| {
        describe(world).await;
        let (owner, member) = (&world.owner, &world.owner.member("Ada").await);
        for who in [owner, member] {
            furnish(who).await;
        }
        for order in
            [[("member", member), ("owner", owner)], [("owner", owner), ("member", member)]]
        {
            tokio::select! {
                () = ask(world, order, extent) => {}
                () = talk([owner, member]) => {}
            }
        }
    })
    .await;
}

/// Something of everything that a person has.
async fn furnish(who: &Client) {
    let made = |path, body| async move { who.post(path, body).await.ok() };
    made("/v1/knowledge", json!({ "kind": "memory", "body": "likes tea" })).await;
    let daily = json!({ "kind": "cron", "expression": "0 9 * * *" });
    made("/v1/schedules", json!({ "note": "say good morning", "rule": daily })).await;
    who.upload("a file").await;
    let conversation = who.open("main").await;
    let turn = who.begin(&conversation, "ring").await;
    who.asked(&turn).await;
}

/// Talks for as long as it is let.
async fn talk(people: [&Client; 2]) {
    loop {
        for who in people {
            who.send("main", "hello").await;
        }
        sleep(PAUSE).await;
    }
}

/// Runs schemathesis with these callers, the first one where they may.
#[expect(clippy::print_stdout, reason = "a run says what it began with and how much it asked")]
async fn ask(world: &World, callers: [(&str, &Client); 2], extent: &Extent) {
    let Extent { amount, seed } = extent;
    let folder = tempfile::tempdir().unwrap();
    let auth = callers.map(|(name, who)| {
        let value = format!("Bearer {}", who.token);
        json!({"name": name, "fixedHeaders": [{"name": "Authorization", "value": value}]})
    });
    let write = |name, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("openapi.json", openapi::document());
    write("auth.json", &json!({ "auth": auth }).to_string());
    write("hooks.py", include_str!("hooks.py"));
    write("schemathesis.toml", include_str!("schemathesis.toml"));
    let mut command = Command::new("python3");
    command
        .args(["-s", "-m", "schemathesis.cli", "run", "openapi.json", "--checks", "all"])
        .args(["--url", &format!("http://{}", world.owner.address), "--no-color"])
        .args(amount)
        .args(["--seed", &seed.to_string(), "--continue-on-failure"])
        .args(["--generation-database", "none"])
        .current_dir(folder.path())
        .env("PYTHONPATH", tool())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("FAMULUS_TEST_TOKENS", ids(&world.owner, "tokens").await)
        .env("FAMULUS_TEST_QUESTIONS", ids(&world.owner, "approvals").await)
        .env("PYTHONUNBUFFERED", "1")
        .env("NO_PROXY", "*")
        .stdin(Stdio::null())
        .stdout(File::create(folder.path().join("said")).unwrap())
        .stderr(File::create(folder.path().join("errors")).unwrap())
        .kill_on_drop(true);
    let ended = timeout(PATIENCE, command.status()).await;
    let read = |name| std::fs::read(folder.path().join(name)).unwrap();
    let [said, errors] =
        ["said", "errors"].map(|name| String::from_utf8_lossy(&read(name)).into_owned());
    let how = format!("{} first, {}, seed {seed}", callers[0].0, amount.join(" "));
    let ended = ended.unwrap_or_else(|_| {
        panic!("schemathesis did not end within {PATIENCE:?} ({how})\n{said}\n{errors}")
    });
    let status = ended.unwrap_or_else(|error| panic!("python3 cannot be run: {error}"));
    println!("{how}:\n{}", from(&said, SUMMARY));
    let agree = status.success();
    assert!(agree, "the API and its document disagree ({how})\n{}\n{errors}", shortened(&said));
    let routes = said.lines().find_map(|line| line.trim().strip_prefix("Selected: ")).unwrap();
    let (all, of) = routes.split_once('/').unwrap();
    let tested = said.lines().find_map(|line| line.trim().strip_prefix("Tested: "));
    assert_eq!((all, tested), (of, Some(of)), "not every route was asked ({how})");
}

/// The folder of schemathesis.
fn tool() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests read their settings themselves")]
    let folder = std::env::var("FAMULUS_TEST_SCHEMATHESIS").unwrap_or_default();
    assert!(
        Path::new(&folder).join("schemathesis").is_dir(),
        "set FAMULUS_TEST_SCHEMATHESIS to a folder into which pip installed \
         xtask/tasks/schemathesis.txt, or run the tests by `cargo xtask test`, which fetches it"
    );
    folder
}

/// The ids of what there is in a list.
async fn ids(owner: &Client, list: &str) -> String {
    let listed = owner.get(&format!("/v1/{list}")).await.ok();
    let ids = listed[list].as_array().unwrap().iter().filter_map(|one| one["id"].as_str());
    ids.collect::<Vec<_>>().join(",")
}

/// What failed, one thing after the other, and how much of it there is.
fn shortened(said: &str) -> String {
    let first = ["= ERRORS =", "= FAILURES =", "= WARNINGS ="];
    let begin = first.iter().map(|title| from(said, title)).find(|text| !text.is_empty());
    let lines: Vec<&str> =
        begin.unwrap_or(said).lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.get(SHOWN..) {
        Some(more) if !more.is_empty() => {
            let shown = lines[..SHOWN].join("\n");
            format!("{shown}\n… and {} lines more\n{}", more.len(), from(said, SUMMARY))
        }
        _ => lines.join("\n"),
    }
}

/// The text from this title on.
fn from<'a>(text: &'a str, title: &str) -> &'a str {
    text.find(title).map_or("", |at| &text[at..])
}
