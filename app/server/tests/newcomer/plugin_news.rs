//! Builds of plugins: how they end is told to an owner who waits no longer, in the conversation, once; and what
//! they need of the machine is there, or is named.

use crate::{
    home::{Home, PATIENCE, hears, said_by},
    up::{Up, with_uv},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// Has a plugin built whose init script and whose tool are these; returns at once.
async fn permit(up: &Up, name: &str, init: &str, tool: &str) {
    let file = |path: &str, content: &str| json!({"path": path, "content": content});
    let plugin = json!({"name": name, "description": "Takes its time.",
        "instructions": "Water it daily.", "init": {"entrypoint": "init"}});
    let grow =
        json!({"name": "grow", "description": "Grows.", "entrypoint": "run", "parameters": {}});
    let files = [
        file("manifest.json", &plugin.to_string()),
        file("init", &format!("#!/bin/sh\n{init}\n")),
        file("grow/manifest.json", &grow.to_string()),
        file("grow/run", tool),
    ];
    let source = json!({"source": {"inline": {"files": files}}});
    let (status, offer) = up.post("/v1/plugins", source).await;
    assert!((200..300).contains(&status), "{status} {offer}");
    let permit = json!({"revision": offer["revision"], "tools": ["*"]});
    let (status, said) = up.post(&format!("/v1/plugins/{name}/permit"), permit).await;
    assert_eq!(status, 202, "{said}");
}

/// Waits until the plugin says this of itself; what it says.
async fn says(up: &Up, name: &str, reason: &str, words: &str) -> Value {
    let begun = Instant::now();
    loop {
        let shown = up.get(&format!("/v1/plugins/{name}")).await;
        if shown["reason"] == reason && shown["message"].as_str().unwrap().contains(words) {
            return shown;
        }
        assert!(begun.elapsed() < PATIENCE, "{shown}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Has one built of which the init script is this; returns while that runs.
async fn underway(up: &Up, name: &str, init: &str) {
    permit(up, name, init, "#!/bin/sh\necho it grows\n").await;
    says(up, name, "Building", "init script runs").await;
}

/// In how many turns the owner was told this.
async fn told(up: &Up, words: &str) -> usize {
    let all = up.get("/v1/conversations/main/messages").await;
    let with_words = |message: &&Value| message["text"].as_str().unwrap().contains(words);
    let turns = all["messages"].as_array().unwrap().iter().filter(with_words);
    turns.map(|message| message["turn_id"].to_string()).collect::<BTreeSet<_>>().len()
}

fn killed(home: &Home, mut up: Up) -> Up {
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    drop(up);
    home.up()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_build_that_nobody_waits_for_is_told_once() {
    const SERVES: &str = "The plugin `aloe` is built and serves now: grow.";
    const FAILED: &str = "The plugin `beet` was not built, and does not serve.";
    const AGAIN: &str = "The plugin `cress` is built and serves now: grow.";
    let home = Home::new("plugin-news");
    let up = home.up();
    underway(&up, "aloe", "sleep 20").await;
    hears(&up, SERVES).await;
    let all = up.get("/v1/conversations/main/messages").await.to_string();
    assert!(all.contains("Water it daily.") && all.contains("for the owner to set it up"), "{all}");

    // One that is killed in the middle is built by the next start.
    underway(&up, "beet", "sleep 2; echo no water; exit 3").await;
    let up = killed(&home, up);
    hears(&up, FAILED).await;
    let all = up.get("/v1/conversations/main/messages").await.to_string();
    assert!(all.contains("exit code 3") && all.contains("no water"), "{all}");
    assert!(all.contains("famulus plugin permit beet"), "{all}");

    // Each start looks at all of them again, in the order of their names.
    underway(&up, "cress", "sleep 2").await;
    let up = killed(&home, up);
    hears(&up, AGAIN).await;
    for words in [SERVES, FAILED, AGAIN] {
        assert_eq!(told(&up, words).await, 1, "{words}");
    }

    up.stop();
}

/// What is missing is named before anything of the plugin runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_the_machine_lacks_is_named_with_its_package() {
    let home = Home::new("plugin-lacks");
    let up = home.up();
    permit(&up, "dill", "exit 3", "#!/usr/bin/env no-such-program\n").await;
    let shown = says(&up, "dill", "ProgramMissing", "grow/run is run by no-such-program").await;
    assert!(shown["message"].as_str().unwrap().contains("apt-get install"), "{shown}");
    up.stop();
}

/// Somebody's own `uv` is shown to a sandbox, and nothing beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_run_by_the_uv_of_the_machine() {
    let home = Home::new("plugin-uv");
    let up = Up::from(&home.place, with_uv(home.famulus(&["up"])));
    let script = "#!/usr/bin/env -S uv run --quiet --script\n# /// script\n# dependencies = []\n# ///\n\
                  import os, shutil\nfolder = os.path.dirname(shutil.which('uv'))\n\
                  print('beside it:', set(os.listdir(folder)) - {'uv', 'uvx'} or 'nothing')\n";
    permit(&up, "elder", "true", script).await;
    says(&up, "elder", "Idle", "").await;
    let mut run = home.famulus(&["plugin", "run", "elder", "grow", "--url", &up.url]);
    run.env("FAMULUS_TOKEN", &up.token);
    let said = said_by(run);
    assert!(said.contains("beside it: nothing"), "{said}");
    up.stop();
}
