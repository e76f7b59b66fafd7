//! Plugins as somebody with one machine has them: installed from a folder, called, updated, rolled back,
//! configured and removed, through restarts and deaths.

use crate::{
    home::{Home, PATIENCE, printed, said_by},
    processes, said,
    up::{Up, client},
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Writes a plugin whose one tool says this.
fn dice(home: &Home, says: &str) -> PathBuf {
    let folder = home.place.0.join("dice");
    fs::create_dir_all(folder.join("roll")).unwrap();
    let tool = json!({"name": "roll", "description": "Throws a die.", "entrypoint": "run", "parameters": {}});
    let plugin = json!({"name": "dice", "description": "Throws dice.",
        "config": {"sides": {"description": "How many sides it has."}}});
    fs::write(folder.join("manifest.json"), plugin.to_string()).unwrap();
    fs::write(folder.join("roll/manifest.json"), tool.to_string()).unwrap();
    fs::write(folder.join("roll/run"), format!("#!/bin/sh\necho {says}; cat ../config.json\n"))
        .unwrap();
    folder
}

/// The processes of this machine whose arguments name the folder, but for the assistant itself.
fn sandboxes(data: &Path) -> usize {
    let named = |pid: &u32| {
        let line = processes::line(*pid);
        line.contains("famulus-runner") && line.contains(data.to_str().unwrap())
    };
    processes::all().into_keys().filter(named).count()
}

/// The folders of plugins.
fn folders(data: &Path) -> usize {
    let entries =
        fs::read_dir(data.join("plugins")).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name != "root").count()
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_lives_on_one_machine_through_restarts_and_deaths() {
    let home = Home::new("plugins");
    let folder = dice(&home, "one");
    let path = folder.to_str().unwrap();
    let mut up = home.up();
    let words = plugin(&home, &up, &["install", path, "--yes"]);
    assert!(words.contains("dice is ready"), "{words}");
    assert!(plugin(&home, &up, &["run", "dice", "roll"]).contains("one"));
    let isolation = plugin(&home, &up, &["show", "dice"]);
    assert!(isolation.contains("namespaces of its own"), "{isolation}");

    assert!(doctor(&home, &up).contains("sandboxes: namespaces of its own"));

    // It is there after an orderly end, and after a death, and nothing of it is left meanwhile.
    up.stop();
    assert_eq!(sandboxes(&home.place.data()), 0);
    up = home.up();
    assert!(plugin(&home, &up, &["run", "dice", "roll"]).contains("one"));
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    until("sandboxes end with it", async || sandboxes(&home.place.data()) == 0).await;
    drop(up);
    let up = home.up();
    assert!(plugin(&home, &up, &["run", "dice", "roll"]).contains("one"));

    // Without its folder, as after a restore, it is built again of what the database keeps.
    up.stop();
    for entry in fs::read_dir(home.place.data().join("plugins")).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    let up = home.up();
    until("it is built again", async || up.get("/v1/plugins/dice").await["ready"] == json!(true))
        .await;
    assert!(plugin(&home, &up, &["run", "dice", "roll"]).contains("one"));

    // Its rights may be narrowed to nothing, and given again.
    let revision = up.get("/v1/plugins/dice").await["revision"].clone();
    let nothing = json!({"revision": revision, "tools": []});
    let (status, narrowed) = up.post("/v1/plugins/dice/permit", nothing).await;
    assert_eq!((status, narrowed["reason"].as_str()), (202, Some("NothingPermitted")));
    plugin(&home, &up, &["permit", "dice", "--tools", "*", "--yes"]);

    dice(&home, "two");
    let words = plugin(&home, &up, &["update", "dice", "--from", path, "--yes"]);
    assert!(words.contains("dice is ready"), "{words}");
    assert!(plugin(&home, &up, &["run", "dice", "roll"]).contains("two"));
    plugin(&home, &up, &["configure", "dice", "sides", "20"]);
    assert!(plugin(&home, &up, &["run", "dice", "roll"]).contains("20"));
    let config = fs::metadata(config_file(&home)).unwrap().permissions().mode();
    assert_eq!(config & 0o777, 0o600);
    plugin(&home, &up, &["rollback", "dice"]);
    assert!(plugin(&home, &up, &["run", "dice", "roll"]).contains("one"));
    let history = plugin(&home, &up, &["history", "dice"]);
    for what in ["fetched", "permitted", "serves", "configured", "rolled back"] {
        assert!(history.contains(what), "{what}: {history}");
    }
    let refused = cli(&home, &up, &["install", path, "--yes"]).output().unwrap();
    assert!(said(&refused).contains("there is a plugin `dice` already"), "{}", said(&refused));

    plugin(&home, &up, &["remove", "dice", "--yes"]);
    assert_eq!(up.get("/v1/plugins").await["plugins"], json!([]));
    assert_eq!((folders(&home.place.data()), sandboxes(&home.place.data())), (0, 0));
    up.stop();
}

/// Written in the terminal: made from the template, changed file by file, and given as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_written_in_place_and_each_save_waits_for_a_yes() {
    let home = Home::new("plugins-written");
    let up = home.up();
    let made = plugin(&home, &up, &["create", "dice", "--description", "Greets."]);
    assert!(made.contains("hello(name: string)") && made.contains("is not permitted"), "{made}");
    assert_eq!(up.get("/v1/plugins/dice").await["ready"], json!(false));
    assert!(plugin(&home, &up, &["permit", "dice", "--yes"]).contains("dice is ready"));
    let greeted =
        |name: &str| plugin(&home, &up, &["run", "dice", "hello", &format!("name={name}")]);
    assert!(greeted("Ada").contains("Hello, Ada!"));

    let read = plugin(&home, &up, &["files", "read", "dice", "hello/run.py"]);
    let file = home.place.0.join("run.py");
    fs::write(&file, read.replace("Hello,", "Good day,")).unwrap();
    let list = up.get("/v1/plugins/dice/files").await["files"].clone();
    let entry =
        list.as_array().unwrap().iter().find(|file| file["path"] == "hello/run.py").unwrap();
    let before = entry["sha256"].as_str().unwrap();
    let from = file.to_str().unwrap();
    let save = ["files", "write", "dice", "hello/run.py", "--from", from, "--before", before];
    let saved = plugin(&home, &up, &save);
    assert!(saved.contains("its files are not") && saved.contains("is not permitted"), "{saved}");
    assert!(greeted("Ada").contains("Hello, Ada!"), "what serves goes on");

    // Another one who read the same loses neither their own save nor this one.
    fs::write(&file, "another").unwrap();
    let refused = cli(&home, &up, &save).output().unwrap();
    assert!(said(&refused).contains("is not what you read"), "{}", said(&refused));
    // What is no plugin is not offered.
    fs::write(&file, "{").unwrap();
    let broken = ["files", "write", "dice", "hello/manifest.json", "--from", from];
    let refused = cli(&home, &up, &broken).output().unwrap();
    assert!(said(&refused).contains("hello/manifest.json: it is no JSON"), "{}", said(&refused));
    assert!(greeted("Ada").contains("Hello, Ada!"));

    assert!(plugin(&home, &up, &["permit", "dice", "--yes"]).contains("dice is ready"));
    assert!(greeted("Ada").contains("Good day, Ada!"));

    let export = client().get(format!("{}/v1/plugins/dice/export", up.url));
    let tar = export.basic_auth("anyone", Some(&up.token)).send().await.unwrap();
    let tar = tar.bytes().await.unwrap();
    let tar = String::from_utf8_lossy(&tar);
    for part in ["hello/manifest.json", "hello/run.py", "Good day,", "\"description\": \"Greets.\""]
    {
        assert!(tar.contains(part), "{part}");
    }
    plugin(&home, &up, &["remove", "dice", "--yes"]);
    up.stop();
}

fn config_file(home: &Home) -> PathBuf {
    let entries = fs::read_dir(home.place.data().join("plugins")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path().join("config/config.json"));
    paths.find(|path| path.is_file()).unwrap()
}

/// `famulus plugin`, as the owner says it in a terminal.
fn cli(home: &Home, up: &Up, words: &[&str]) -> Command {
    let mut command = home.famulus(&["plugin"]);
    command.args(words).args(["--url", &up.url]).env("FAMULUS_TOKEN", &up.token);
    command
}

fn plugin(home: &Home, up: &Up, words: &[&str]) -> String {
    said_by(cli(home, up, words))
}

/// What `famulus doctor` says.
fn doctor(home: &Home, up: &Up) -> String {
    let mut command = home.famulus(&["doctor", "--url", &up.url]);
    printed(&command.env("FAMULUS_TOKEN", &up.token).output().unwrap())
}

/// Without a runner nothing of a plugin runs, why is said, and the rest works.
#[tokio::test(flavor = "multi_thread")]
async fn without_sandboxes_no_plugin_is_installed_and_the_rest_works() {
    let home = Home::new("no-plugins");
    let mut command = home.famulus(&["up"]);
    command.env("FAMULUS_PLUGINS__RUNNER", home.place.0.join("nothing"));
    let up = Up::from(&home.place, command);
    let source = json!({"source": {"inline": {"files": []}}});
    let (status, problem) = up.post("/v1/plugins", source).await;
    assert_eq!(status, 409, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("put famulus-runner"), "{problem}");
    assert!(!up.chat("What time is it?").await.is_empty());
    let told = doctor(&home, &up);
    assert!(told.contains("sandboxes") && told.contains("put famulus-runner"), "{told}");
    up.stop();
}

/// Whenever it dies, there is afterwards a whole plugin or none, and nothing beside it.
#[tokio::test(flavor = "multi_thread")]
async fn whenever_it_dies_nothing_is_half_installed() {
    let home = Home::new("plugins-killed");
    let folder = dice(&home, "one");
    let read = |name: &str| {
        let content = fs::read_to_string(folder.join(name)).unwrap();
        json!({"path": name, "content": content})
    };
    let files: Vec<Value> = ["manifest.json", "roll/manifest.json", "roll/run"].map(read).into();
    let source = json!({"source": {"inline": {"files": files}}});
    for step in 0..8_u32 {
        let mut up = home.up();
        let (url, token) = (up.url.clone(), up.token.clone());
        let send = async |path: &str, body: &Value| -> Option<Value> {
            let sent = client().post(format!("{url}{path}")).basic_auth("anyone", Some(&token));
            sent.json(body).send().await.ok()?.json().await.ok()
        };
        let life = async {
            let offer = send("/v1/plugins", &source).await;
            let revision = match offer.as_ref().map(|offer| &offer["revision"]) {
                Some(Value::String(revision)) => revision.clone(),
                _ => up.get("/v1/plugins/dice").await["offered"].as_str()?.to_owned(),
            };
            send("/v1/plugins/dice/permit", &json!({"revision": revision, "tools": ["*"]})).await
        };
        let _cut = tokio::time::timeout(Duration::from_millis(u64::from(step) * 25), life).await;
        up.child.kill().unwrap();
        up.child.wait().unwrap();
        drop(up);
        until("sandboxes end with it", async || sandboxes(&home.place.data()) == 0).await;

        let up = home.up();
        let there = up.get("/v1/plugins").await["plugins"].as_array().unwrap().len();
        assert_eq!(folders(&home.place.data()), there, "after {step}");
        if there == 1 {
            let now = up.get("/v1/plugins/dice").await;
            if let Some(revision) = now["offered"].as_str() {
                let permit = json!({"revision": revision, "tools": ["*"]});
                let (status, said) = up.post("/v1/plugins/dice/permit", permit).await;
                assert_eq!(status, 202, "{said}");
            }
            until("it serves", async || up.get("/v1/plugins/dice").await["ready"] == json!(true))
                .await;
            assert!(plugin(&home, &up, &["run", "dice", "roll"]).contains("one"), "after {step}");
            plugin(&home, &up, &["remove", "dice", "--yes"]);
        }
        up.stop();
    }
}
