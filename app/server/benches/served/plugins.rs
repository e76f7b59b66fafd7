//! P1: plugins on one machine. A call of a tool, warm and from nothing, beside a bare spawn of the same script; the
//! memory of a plugin that waits; and what twenty plugins add to what the model is told.

use crate::{
    caller::Caller,
    home::Home,
    latency,
    memory::Memory,
    model::{Manner, Model},
    request::Request,
    server::{end, pid_of},
};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tokio::time::sleep;
use uuid::Uuid;

const SCRIPT: &str =
    "#!/bin/bash\nat=$EPOCHREALTIME\ncat > /dev/null\necho \"{\\\"at\\\": \\\"$at\\\"}\"\n";
const RUNNER: &str = "famulus-runner";
/// Calls from nothing, each of which waits until the sandbox before it is gone.
const COLD: usize = 10;
/// What a start or an end leaves to be done is done by then.
const SETTLED: Duration = Duration::from_secs(2);
/// A sandbox that was ended by somebody else is not made anew before.
const HELD_BACK: Duration = Duration::from_secs(7);
const LOOK: Duration = Duration::from_millis(5);
/// Plugins of the last question, each with one tool.
const PLUGINS: usize = 20;

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let model = Model::start(Manner::Brief).await?;
    let home = Home::new(request)?.with([
        ("FAMULUS_MODEL__BASE_URL", model.url.as_str().into()),
        ("FAMULUS_MODEL__NAME", "first".into()),
    ]);
    let (process, _said, address) = home.up().await?;
    let pid = pid_of(&process)?;
    let app = pid.as_raw_nonzero().get();
    let owner = home.owner(address)?;
    let alone = told(&owner, &model, 1).await?;

    install(&owner, "closed", "none").await?;
    call(&owner, "closed").await?;
    let (mut spawns, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..request.extent {
        spawns.push(spawn()?);
        warm.push(call(&owner, "closed").await?);
    }
    sleep(SETTLED).await;
    let closed = memory_of_sandboxes(app)?;
    let mut cold = Vec::new();
    for _ in 0..COLD {
        end_sandboxes(app).await?;
        cold.push(call(&owner, "closed").await?);
    }
    end_sandboxes(app).await?;
    install(&owner, "open", "internet").await?;
    call(&owner, "open").await?;
    sleep(SETTLED).await;
    let open = memory_of_sandboxes(app)?;

    for number in 2..PLUGINS {
        install(&owner, &format!("further-{number}"), "none").await?;
    }
    let with_all = told(&owner, &model, 2).await?;
    end(process, pid).await?;
    model.end();

    let (floor, warm) = (latency::report(spawns), latency::report(warm));
    let p50 = |of: &Value| of["p50_ms"].as_f64().context("a latency has a median");
    Ok(json!({
        "over_floor_ms": p50(&warm)? - p50(&floor)?,
        "floor": floor,
        "warm": warm,
        "cold": latency::report(cold),
        "closed_mib": closed,
        "open_mib": open,
        "alone_kib": kib(&alone),
        "with_all_kib": kib(&with_all),
        // What tokens are counted of.
        "requests": { "alone": alone, "with_all": with_all },
    }))
}

fn kib(request: &Value) -> f64 {
    request.to_string().len() as f64 / 1024.0
}

/// Brings a plugin, and has it serve.
async fn install(owner: &Caller, name: &str, egress: &str) -> Result<()> {
    let manifest = json!({"name": name, "description": "Says when it began."});
    let tool = json!({
        "name": "try", "description": "Says the time at which it began.", "entrypoint": "run.sh",
        "parameters": {"place": {"type": "string", "description": "Whose time it is."}},
    });
    let file = |path: &str, content: String| json!({"path": path, "content": content});
    let files = [
        file("manifest.json", manifest.to_string()),
        file("try/manifest.json", tool.to_string()),
        file("try/run.sh", SCRIPT.to_owned()),
    ];
    let source = json!({"source": {"inline": {"files": files}}});
    let offer = owner.post("/v1/plugins", &source).await?;
    let granted = json!({"revision": offer["revision"], "tools": ["*"], "egress": egress});
    owner.post(&format!("/v1/plugins/{name}/permit"), &granted).await?;
    // It is built meanwhile.
    let begun = Instant::now();
    while !owner.get(&format!("/v1/plugins/{name}")).await?["ready"].as_bool().unwrap_or(false) {
        ensure!(begun.elapsed() < Duration::from_secs(30), "{name} does not serve");
        sleep(LOOK).await;
    }
    Ok(())
}

/// Runs the tool by hand, until its result is there.
async fn call(owner: &Caller, plugin: &str) -> Result<Duration> {
    let path = format!("/v1/plugins/{plugin}/tools/try/run");
    let begun = Instant::now();
    let lines = owner.read(&path, &json!({"parameters": {}})).await?;
    let took = begun.elapsed();
    ensure!(lines.contains("at\\\""), "{lines}");
    Ok(took)
}

/// What it costs without anything around it.
fn spawn() -> Result<Duration> {
    let begun = Instant::now();
    let mut child = Command::new("bash")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("bash cannot be started")?;
    child.stdin.take().context("it has no standard input")?.write_all(b"{}")?;
    let ended = child.wait_with_output()?;
    ensure!(ended.status.success(), "it ended with {}", ended.status);
    Ok(begun.elapsed())
}

/// The request of a model that is asked about nothing.
async fn told(owner: &Caller, model: &Model, mark: u64) -> Result<Value> {
    let opened = owner.post("/v1/conversations", &json!({})).await?;
    let conversation: Uuid = opened["id"].as_str().context("a conversation has an id")?.parse()?;
    owner.say(conversation, &format!("Hello [[{mark}]]")).await?;
    let begun = Instant::now();
    loop {
        if model.asked(mark).closed.is_some() {
            return Ok(model.last());
        }
        ensure!(begun.elapsed() < Duration::from_secs(30), "the model was not asked");
        sleep(LOOK).await;
    }
}

/// What the launchers of this app and all below them share of memory, in MiB.
fn memory_of_sandboxes(app: i32) -> Result<f64> {
    let parents = parents()?;
    let mut all: Vec<i32> = launchers(app)?;
    ensure!(!all.is_empty(), "no sandbox is there");
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        all.extend(parents.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    let mut kib = 0;
    for pid in all {
        kib += Memory::of(pid)?.all;
    }
    Ok(kib as f64 / 1024.0)
}

/// Ends them as the app does with those that nobody uses.
async fn end_sandboxes(app: i32) -> Result<()> {
    for pid in launchers(app)? {
        let pid = rustix::process::Pid::from_raw(pid).context("a launcher has a pid")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    }
    let begun = Instant::now();
    while !launchers(app)?.is_empty() {
        ensure!(begun.elapsed() < Duration::from_secs(30), "a sandbox does not end");
        sleep(LOOK).await;
    }
    sleep(HELD_BACK).await;
    Ok(())
}

fn launchers(app: i32) -> Result<Vec<i32>> {
    let is_one = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim_end() == RUNNER
    };
    let ours = parents()?.into_iter().filter(|(_, parent)| *parent == app);
    Ok(ours.map(|(pid, _)| pid).filter(is_one).collect())
}

/// All processes with their parents.
fn parents() -> Result<Vec<(i32, i32)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse() else { continue };
        // One that has ended meanwhile is none.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let fields = status.rsplit_once(") ").map(|(_, rest)| rest.split(' '));
        let parent = fields.and_then(|mut fields| fields.nth(1)?.parse().ok());
        all.extend(parent.map(|parent| (pid, parent)));
    }
    Ok(all)
}
