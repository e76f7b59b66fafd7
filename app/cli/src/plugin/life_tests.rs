//! The life of a plugin from the command line, against a scripted server.

use serde_json::{Value, json};

use super::offer::tests::offered;
use crate::Connection;
use crate::output::Kind;
use crate::peer::{Peer, Script, TOKEN};
use crate::tests::run;

const REVISION: &str = "sha256:0123456789abcdef";
const PLUGIN: &str = "/v1/plugins/weather";
const PERMIT: &str = "/v1/plugins/weather/permit";

pub(super) fn serves(revision: &str) -> Value {
    json!({"name": "weather", "ready": true, "reason": "Idle", "message": "it sleeps",
        "revision": revision, "tools": ["look"], "egress": "internet", "config_keys": []})
}

pub(super) async fn good(connection: &Connection, line: &str) -> String {
    let (out, ended) = run(connection, Kind::Plain, line).await;
    assert!(ended.unwrap(), "{line} gave {out}");
    out
}

#[tokio::test]
async fn a_plugin_is_installed_once_it_is_permitted() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let address = "plugin install https://example.org/weather --ref v1 --tools look,erase";

    peer.script().answers.push(("/v1/plugins", 201, offered()));
    let out = good(&connection, address).await;
    for part in [
        "look(city: string)",
        "key (required, secret)",
        "\n  Set it.",
        "nobody could be asked; `famulus plugin permit weather --tools 'look,erase' --egress none --yes`",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    assert!(peer.heard("POST", PERMIT).is_empty());
    let asked = peer.heard("POST", "/v1/plugins")[0].body.clone();
    let git = json!({"git": {"url": "https://example.org/weather", "ref": "v1"}});
    assert_eq!(asked, json!({"source": git, "name": null}));

    peer.script().answers.extend([
        ("/v1/plugins", 201, offered()),
        (PERMIT, 202, serves(REVISION)),
        (PLUGIN, 200, serves(REVISION)),
    ]);
    let out = good(&connection, &format!("{address} --yes")).await;
    assert!(out.ends_with("weather is ready\n"), "{out}");
    assert_eq!(
        peer.heard("POST", PERMIT)[0].body,
        json!({"revision": REVISION, "tools": ["look", "erase"], "egress": "none"})
    );

    peer.script().answers.push(("/v1/plugins", 201, offered()));
    let line = "plugin install https://example.org/weather --tools nosuch --yes";
    let error = run(&connection, Kind::Plain, line).await.1.unwrap_err().to_string();
    assert!(error.contains("`nosuch` names no tool of it; its tools are: look, erase"), "{error}");
    assert_eq!(peer.heard("POST", PERMIT).len(), 1);
}

#[tokio::test]
async fn a_folder_is_sent() {
    let peer = Peer::start(Script::default()).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("manifest.json"), "{}").unwrap();
    let files = json!([{"path": "manifest.json", "content": "{}"}]);
    let here = folder.path().to_str().unwrap();
    let connection = peer.connection(TOKEN);

    peer.script().answers.push(("/v1/plugins", 201, offered()));
    good(&connection, &format!("plugin install {here} --name weather")).await;
    let asked = peer.heard("POST", "/v1/plugins")[0].body.clone();
    assert_eq!(asked, json!({"source": {"inline": {"files": files}}, "name": "weather"}));

    let mut same = offered();
    same["changed"] = json!(false);
    peer.script().answers.push(("/update", 200, same));
    let out = good(&connection, &format!("plugin update weather --from {here} --yes")).await;
    assert!(out.contains("nothing new"), "{out}");
    assert_eq!(peer.heard("POST", "/update")[0].body, json!({"ref": null, "files": files}));
}

#[tokio::test]
async fn an_update_keeps_what_was_permitted() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let mut offer = offered();
    offer["before"] = offer["description"].clone();
    offer["before"]["tools"] = json!([]);
    offer["permitted"] = json!(["look"]);
    offer["egress"] = json!("internet");
    peer.script().answers.extend([
        ("/update", 200, offer),
        (PERMIT, 202, serves("sha256:old")),
        (PLUGIN, 200, serves(REVISION)),
    ]);
    let out = good(&connection, "plugin update weather --ref v2 --yes").await;
    assert!(out.contains("new tool: look(city: string)"), "{out}");
    assert_eq!(peer.heard("POST", "/update")[0].body, json!({"ref": "v2", "files": null}));
    assert_eq!(
        peer.heard("POST", PERMIT)[0].body,
        json!({"revision": REVISION, "tools": ["look"], "egress": "internet"})
    );
}

#[tokio::test]
async fn what_is_offered_goes_before_what_serves() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let mut both = serves("sha256:old");
    both["offered"] = json!(REVISION);
    let neither = json!({"name": "weather", "ready": false, "reason": "Pending"});
    for (state, line, permitted) in [
        (
            both,
            "plugin permit weather --yes",
            json!({"revision": REVISION, "tools": ["look"], "egress": "internet"}),
        ),
        (
            serves(REVISION),
            "plugin permit weather --tools * --egress none --yes",
            json!({"revision": REVISION, "tools": ["*"], "egress": "none"}),
        ),
    ] {
        peer.script().answers.extend([
            (PLUGIN, 200, state),
            (PERMIT, 202, serves(REVISION)),
            (PLUGIN, 200, serves(REVISION)),
        ]);
        assert!(good(&connection, line).await.contains("weather is ready"));
        assert_eq!(peer.heard("POST", PERMIT).last().unwrap().body, permitted);
    }
    peer.script().answers.push((PLUGIN, 200, neither));
    let ended = run(&connection, Kind::Plain, "plugin permit weather --yes").await.1;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("`famulus plugin update weather`"), "{error}");

    // Where nobody can be asked nothing is done, and that is a failure of who asked for nothing else.
    peer.script().answers.push((PLUGIN, 200, serves(REVISION)));
    let (out, ended) = run(&connection, Kind::Plain, "plugin permit weather").await;
    assert!(!ended.unwrap() && out.contains("--yes` permits it"), "{out}");
}

#[tokio::test]
async fn a_key_is_given_a_value_and_loses_it() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let key = "/v1/plugins/weather/config/count";
    for _ in 0..2 {
        peer.script().answers.push((key, 204, Value::Null));
    }
    good(&connection, "plugin configure weather count -7").await;
    assert_eq!(peer.heard("PUT", key)[0].body, json!({"value": -7}));
    good(&connection, "plugin configure weather count --unset").await;
    assert_eq!(peer.heard("DELETE", key).len(), 1);
}

#[tokio::test]
async fn an_earlier_revision_serves_again() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let history = json!({"entries": [
        {"at": "2026-11-21T10:00:00Z", "what": "rolled back", "who": "Ada", "revision": REVISION,
            "commit": null}]});
    for (line, sent) in [
        ("plugin rollback weather --to 0123", json!(REVISION)),
        ("plugin rollback weather", Value::Null),
    ] {
        peer.script().answers.extend([
            ("/history", 200, history.clone()),
            ("/rollback", 202, serves("sha256:new")),
            (PLUGIN, 200, serves(REVISION)),
        ]);
        assert!(good(&connection, line).await.contains("weather is ready"));
        assert_eq!(peer.heard("POST", "/rollback").last().unwrap().body, json!({"revision": sent}));
    }
    peer.script().answers.push(("/history", 200, history));
    assert!(good(&connection, "plugin history weather").await.contains("rolled back  Ada"));
}

#[tokio::test]
async fn nothing_is_removed_unless_somebody_agrees() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let out = good(&connection, "plugin remove weather").await;
    assert!(out.contains("nothing was removed") && out.contains("--yes"), "{out}");
    assert!(peer.heard("DELETE", PLUGIN).is_empty());
    peer.script().answers.push((PLUGIN, 204, Value::Null));
    assert!(good(&connection, "plugin remove weather --yes").await.contains("is removed"));
    assert_eq!(peer.heard("DELETE", PLUGIN).len(), 1);
}
