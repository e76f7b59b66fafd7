//! What plugins of one machine keep, in a backup and back again: their files and their keys.

use crate::{
    home::{Home, PATIENCE, said_by},
    up::{Up, client},
};
use memchr::memmem;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Said to the plugin, and to be in no backup as it is.
const KEY: &str = "canary-of-a-key";

/// Keeps what it is told in its folder and in its home, and shows both with its key. It takes its time where it
/// is asked to.
const RUN: &str = r#"#!/bin/sh
line=$(cat)
case "$line" in
*slowly*) echo begun >>../lines; sleep 2; echo ended >>../lines;;
*forever*) echo begun >>../lines; sleep 28;;
*note*) echo "$line" >>../lines; echo "$line" >>"$HOME/lines";;
esac
cat ../lines "$HOME/lines" ../config.json 2>/dev/null; true
"#;

async fn install(up: &Up) {
    let file = |path: &str, content: String| json!({"path": path, "content": content});
    let tool = json!({"name": "keep", "description": "Keeps.", "entrypoint": "run",
        "parameters": {"words": {"type": "string", "description": "What."}}});
    let manifest = json!({"name": "diary", "description": "Keeps a diary.",
        "config": {"word": {"description": "A key."}}});
    let files = [
        file("manifest.json", manifest.to_string()),
        file("keep/manifest.json", tool.to_string()),
        file("keep/run", RUN.to_owned()),
    ];
    let (status, offer) =
        up.post("/v1/plugins", json!({"source": {"inline": {"files": files}}})).await;
    assert_eq!(status, 201, "{offer}");
    let permit = json!({"revision": offer["revision"], "tools": ["*"]});
    assert_eq!(up.post("/v1/plugins/diary/permit", permit).await.0, 202);
    serves(up).await;
    let put = client().put(format!("{}/v1/plugins/diary/config/word", up.url));
    let put = put.basic_auth("anyone", Some(&up.token)).json(&json!({"value": KEY}));
    assert!(put.send().await.unwrap().status().is_success());
}

async fn serves(up: &Up) {
    let begun = Instant::now();
    loop {
        let shown = up.get("/v1/plugins/diary").await;
        if shown["ready"] == json!(true) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{shown}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What the plugin shows after it was told this.
async fn told(up: &Up, words: &str) -> String {
    let path = format!("{}/v1/plugins/diary/tools/keep/run", up.url);
    let request = client().post(path).basic_auth("anyone", Some(&up.token));
    let request = request.json(&json!({"parameters": {"words": words}}));
    request.send().await.unwrap().text().await.unwrap()
}

/// Waits until it shows its key, too: that is with it a moment later.
async fn shows(up: &Up, wanted: &[&str]) -> String {
    let begun = Instant::now();
    loop {
        let shown = told(up, "show").await;
        if wanted.iter().all(|word| shown.contains(word)) {
            return shown;
        }
        assert!(begun.elapsed() < PATIENCE, "{wanted:?}: {shown}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a slow call has begun.
async fn calls(home: &Home) {
    let (begun, state) = (Instant::now(), state(&home.place.data()).unwrap());
    let lines = || fs::read_to_string(state.join("active/lines")).unwrap_or_default();
    while !lines().contains("begun") {
        assert!(begun.elapsed() < PATIENCE, "the call never began");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn parts(home: &Home, backup: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.backups().join(backup)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn state(data: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(data.join("plugins")).ok()?;
    entries.map(|entry| entry.unwrap().path().join("state")).find(|state| state.is_dir())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_keeps_comes_back() {
    let home = Home::new("plugin-backup");
    let up = home.up();
    install(&up).await;
    told(&up, "note one").await;
    shows(&up, &["note one", KEY]).await;

    // Taken while it serves, by another process; no call is under way in it.
    let (slow, first) = tokio::join!(told(&up, "slowly"), async {
        calls(&home).await;
        let command = home.famulus(&["backup"]);
        tokio::task::spawn_blocking(move || said_by(command)).await.unwrap()
    });
    assert!(slow.contains("ended"), "{slow}");
    for words in ["the files of the plugin diary", "the configuration of the plugin diary"] {
        assert!(first.contains(&format!("holds      {words}")), "{first}");
    }
    let first = first.split(' ').next().unwrap().to_owned();
    for part in parts(&home, &first) {
        let bytes = fs::read(&part).unwrap();
        let has = |word: &[u8]| memmem::find(&bytes, word).is_some();
        assert!(!has(KEY.as_bytes()) && !has(b"note one"), "{} is readable", part.display());
    }
    told(&up, "note two").await;
    shows(&up, &["note one", "note two"]).await;
    up.stop();

    // Taken while nothing runs.
    let second = home.backup();
    fs::remove_dir_all(home.place.data()).unwrap();
    let said = home.good(&["restore", &first]);
    assert!(said.contains("The plugin diary is configured as it was."), "{said}");
    assert!(said.contains("has its files when"), "{said}");
    let up = home.up();
    serves(&up).await;
    let shown = shows(&up, &["note one", KEY]).await;
    let count = |word: &str| shown.matches(word).count();
    assert_eq!((count("note one"), count("begun"), count("ended")), (2, 1, 1), "{shown}");
    assert!(!shown.contains("note two"), "{shown}");
    let owner = fs::metadata(state(&home.place.data()).unwrap()).unwrap().uid();
    assert_eq!(owner == 0, !rustix::process::getuid().is_root(), "they are the plugin's own");
    up.stop();

    // Over one that is there: it has what the backup had, and nothing else.
    let replaced = home.replace(&second, "replace\n");
    assert!(replaced.status.success(), "{replaced:?}");
    // Whoever dies here has not half of it.
    let mut up = home.up();
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    drop(up);
    let up = home.up();
    serves(&up).await;
    let shown = shows(&up, &["note one", "note two", KEY]).await;
    assert_eq!(shown.matches("note two").count(), 2, "{shown}");
    up.stop();
}

/// It goes at once and whole, and the backup says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_removed_in_the_middle_of_its_backup() {
    let home = Home::new("plugin-backup-removed");
    // The one that is taken by the clock would be the one that waits.
    let mut command = home.famulus(&["up"]);
    command.env("FAMULUS_BACKUP__EVERY_HOURS", "0");
    let up = Up::from(&home.place, command);
    install(&up).await;
    let (_ended, output) = tokio::join!(told(&up, "forever"), async {
        calls(&home).await;
        let mut command = home.famulus(&["backup"]);
        let backup = tokio::task::spawn_blocking(move || command.output().unwrap());
        let begun = Instant::now();
        // It waits there for the end of the call.
        while !state(&home.place.data()).unwrap().with_file_name("given").is_dir() {
            assert!(begun.elapsed() < PATIENCE, "the files are never asked for");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let gone = client().delete(format!("{}/v1/plugins/diary", up.url));
        let gone = gone.basic_auth("anyone", Some(&up.token)).send().await.unwrap();
        let (status, said) = (gone.status().as_u16(), gone.text().await.unwrap());
        assert_eq!(status, 204, "{said}");
        backup.await.unwrap()
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    let words = "lacks the files of the plugin diary: there is no such plugin any more";
    assert!(said.contains(words), "{said}");
    let left = fs::read_dir(home.place.data().join("plugins")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["root"], "{said}");
    up.stop();
}

/// A backup of everything else is taken all the same, and says what it lacks.
#[tokio::test(flavor = "multi_thread")]
async fn without_sandboxes_a_backup_says_what_it_lacks() {
    let home = Home::new("plugin-backup-lacks");
    let up = home.up();
    install(&up).await;
    told(&up, "note one").await;
    up.stop();
    let mut command = home.famulus(&["backup"]);
    command.env("FAMULUS_PLUGINS__RUNNER", home.place.0.join("nothing"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("lacks the files of the plugin diary"), "{said}");
    let listed: Value = fs::read(
        parts(&home, &home.names()[0]).iter().find(|part| part.ends_with("manifest.json")).unwrap(),
    )
    .map(|bytes| serde_json::from_slice(&bytes).unwrap())
    .unwrap();
    assert!(listed["parts"].as_array().unwrap().len() >= 2, "{listed}");
}
