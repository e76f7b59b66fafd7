//! Plugins of different make, each through its whole life on one machine: what a cluster does with them in
//! `tests/cluster/tests/cluster/compatible.rs`.

use crate::{
    home::{Home, PATIENCE, said_by},
    outside::{PASSWORD, Servers, listen},
    up::{Up, client, with_uv},
    who::Who,
};
use async_trait::async_trait;
use famulus_plugin_life::{Home as PluginHome, Method, Outside, all_live, is_talked_through};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

/// `famulus up`, asked by its owner.
struct Machine {
    up: Up,
    servers: Servers,
}

impl Machine {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let method = reqwest::Method::from_bytes(method.name().as_bytes()).unwrap();
        let request = client().request(method, format!("{}{path}", self.up.url));
        request.bearer_auth(&self.up.token).timeout(PATIENCE)
    }
}

#[async_trait]
impl PluginHome for Machine {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = self.request(method, path);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    async fn run(&self, plugin: &str, tool: &str, parameters: &Value) -> String {
        let path = format!("/v1/plugins/{plugin}/tools/{tool}/run");
        let request = self.request(Method::Post, &path).json(&json!({"parameters": parameters}));
        request.send().await.unwrap().text().await.unwrap()
    }

    fn outside(&self) -> Option<&Outside> {
        Some(&self.servers.outside)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_of_different_make_live_on_one_machine() {
    let home = Home::new("compatible");
    let servers = Servers::start(&home.place.0).await;
    let up = Up::from(&home.place, servers.named(with_uv(home.famulus(&["up"]))));
    let machine = Machine { up, servers };
    let failures: Vec<String> = all_live(&machine).await.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(machine.up.get("/v1/plugins").await["plugins"], json!([]));
    let log = machine.up.stop();
    assert!(!log.contains(PASSWORD), "the password of the index is logged");
}

/// The conversation of the README, in which nothing is typed into a terminal.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_brought_used_and_removed_in_a_conversation() {
    for who in Who::all() {
        let place = who.place("talk");
        let servers = Servers::start(&place.0).await;
        let up = Up::from(&place, servers.named(who.famulus(&place, &["up"])));
        let machine = Machine { up, servers };
        let talked = is_talked_through(&machine).await;
        assert!(talked.is_ok(), "{who:?}: {}", talked.unwrap_err());
        machine.up.stop();
    }
}

/// Says whom it reaches, what it is told of packages and whether it can read the credentials.
const LOOK: &str = r#"#!/usr/bin/env python3
import json, os, pathlib, socket

def reached(address):
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 3).close()
        return True
    except OSError:
        return False

is_init = os.path.exists("addresses.json")
plugin = pathlib.Path("." if is_init else "..")
addresses = json.loads((plugin / "addresses.json").read_text())
told = [name for name in ("UV_DEFAULT_INDEX", "npm_config_registry", "NETRC") if name in os.environ]
lent = any(os.path.exists(f"/famulus/packages/{name}") for name in ("netrc", "npmrc"))
seen = {"reached": [name for name in sorted(addresses) if reached(addresses[name])], "told": told, "lent": lent}
if is_init:
    pathlib.Path("seen.json").write_text(json.dumps(seen))
else:
    print("seen", json.dumps({"init": json.loads((plugin / "seen.json").read_text()), "tool": seen}))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_build_reaches_the_owners_indexes_and_nobody_else_who_is_private() {
    let home = Home::new("indexes");
    let servers = Servers::start(&home.place.0).await;
    let (_listener, stranger) = listen().await;
    let folder = home.place.0.join("look");
    fs::create_dir_all(folder.join("around")).unwrap();
    let plugin =
        json!({"name": "look", "description": "Looks.", "init": {"entrypoint": "init.py"}});
    let tool = json!({"name": "around", "description": "Looks around.", "entrypoint": "run.py",
        "parameters": {}});
    let addresses = json!({"index": servers.index.to_string(), "git": servers.git.to_string(),
        "stranger": stranger.to_string()});
    for (path, content) in [
        ("manifest.json", plugin.to_string()),
        ("init.py", LOOK.to_owned()),
        ("addresses.json", addresses.to_string()),
        ("around/manifest.json", tool.to_string()),
        ("around/run.py", LOOK.to_owned()),
    ] {
        let path = folder.join(path);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let up = Up::from(&home.place, servers.named(home.famulus(&["up"])));
    let plugin = |words: &[&str]| {
        let mut command = home.famulus(&["plugin"]);
        command.args(words).args(["--url", &up.url]).env("FAMULUS_TOKEN", &up.token);
        said_by(command)
    };
    plugin(&["install", folder.to_str().unwrap(), "--egress", "internet", "--yes"]);
    let said = plugin(&["run", "look", "around"]);
    let line = said.lines().find_map(|line| line.split_once("seen ")).unwrap().1;
    let seen: Value = serde_json::from_str(line).unwrap();
    let told = ["UV_DEFAULT_INDEX", "npm_config_registry", "NETRC"];
    // The git server may be fetched from, by nothing of a plugin.
    assert_eq!(seen["init"], json!({"reached": ["index"], "told": told, "lent": true}));
    assert_eq!(seen["tool"], json!({"reached": [], "told": [], "lent": false}));
    plugin(&["remove", "look", "--yes"]);
    up.stop();
}
