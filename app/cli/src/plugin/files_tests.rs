//! A plugin that is written here, from the command line, against a scripted server.

use serde_json::{Value, json};

use super::life_tests::{good, serves};
use super::offer::tests::offered;
use crate::Connection;
use crate::error::Error;
use crate::output::Kind;
use crate::paint::Size;
use crate::peer::{Peer, Script, TOKEN};
use crate::tests::run;

const REVISION: &str = "sha256:0123456789abcdef";
const FILES: &str = "/v1/plugins/weather/files";
const PERMIT: &str = "/v1/plugins/weather/permit";
const PLUGIN: &str = "/v1/plugins/weather";

async fn bad(connection: &Connection, line: &str) -> Error {
    run(connection, Kind::Plain, line).await.1.unwrap_err()
}

#[tokio::test]
async fn a_plugin_is_made_and_serves_once_it_is_permitted() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let create = "/v1/plugins/weather/create";
    peer.script().answers.push((create, 201, offered()));
    let out = good(&connection, "plugin create weather --template empty").await;
    assert!(
        out.contains("`famulus plugin permit weather --tools '*' --egress none --yes`"),
        "{out}"
    );
    peer.script().answers.extend([
        (create, 201, offered()),
        (PERMIT, 202, serves(REVISION)),
        (PLUGIN, 200, serves(REVISION)),
    ]);
    let out = good(&connection, "plugin create weather --description Looks. --yes").await;
    assert!(out.ends_with("weather is ready\n"), "{out}");
    let bodies: Vec<Value> =
        peer.heard("POST", create).into_iter().map(|heard| heard.body).collect();
    assert_eq!(
        bodies,
        [
            json!({"description": null, "template": "empty"}),
            json!({"description": "Looks.", "template": "python"}),
        ]
    );
}

#[tokio::test]
async fn a_save_is_shown_and_asked_about_as_an_update_is() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.py");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    let here = file.to_str().unwrap();
    let mut offer = offered();
    offer["before"] = offer["description"].clone();
    offer["permitted"] = json!(["look"]);

    let lines = [
        (
            format!("plugin files write weather look/run.py --from {here} --before ab12"),
            json!({"write": {"path": "look/run.py", "content": "#!/bin/sh\n", "before": "ab12"}}),
        ),
        (
            "plugin files delete weather look/run.py".to_owned(),
            json!({"delete": {"path": "look/run.py"}}),
        ),
        (
            "plugin files move weather look/run.py look/go".to_owned(),
            json!({"move": {"path": "look/run.py", "to": "look/go"}}),
        ),
    ];
    for (line, edit) in lines {
        peer.script().answers.push((FILES, 200, offer.clone()));
        let out = good(&connection, &line).await;
        assert!(out.contains("its tools and keys are the same; its files are not"), "{out}");
        assert!(out.contains("`famulus plugin permit weather --tools 'look'"), "{out}");
        assert_eq!(peer.heard("POST", FILES).last().unwrap().body, json!({"edits": [edit]}));
        assert!(peer.heard("POST", PERMIT).is_empty());
    }

    peer.script().answers.extend([
        (FILES, 200, offer.clone()),
        (PERMIT, 202, serves("sha256:old")),
        (PLUGIN, 200, serves(REVISION)),
    ]);
    let out = good(&connection, "plugin files delete weather a --yes").await;
    assert!(out.ends_with("weather is ready\n"), "{out}");
    offer["changed"] = json!(false);
    peer.script().answers.push((FILES, 200, offer));
    let out = good(&connection, "plugin files delete weather a --yes").await;
    assert_eq!(out, "nothing new: weather serves what is there\n");
    assert_eq!(peer.heard("POST", PERMIT).len(), 1);
}

#[tokio::test]
async fn files_are_listed_and_read_to_the_byte() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let list = || json!({"files": [{"path": "look/run.py", "bytes": 7, "sha256": "ab12"}]});
    peer.script().answers.extend([(FILES, 200, list()), (FILES, 200, list())]);
    let out = good(&connection, "plugin files list weather").await;
    assert_eq!(out, "path         bytes  sha256\nlook/run.py  7      ab12\n");
    let out = good(&connection, "plugin files list weather --json").await;
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), list());

    let file = || json!({"path": "look/run.py", "content": "a\u{1b}[2J", "sha256": "ab12"});
    for _ in 0..2 {
        peer.script().answers.push(("/files/look%2Frun.py", 200, file()));
    }
    let line = "plugin files read weather look/run.py";
    assert_eq!(good(&connection, line).await, "a\u{1b}[2J");
    let terminal = Kind::Terminal(Size { columns: 80, rows: 24 });
    let (out, ended) = run(&connection, terminal, line).await;
    assert!(ended.unwrap() && !out.contains('\u{1b}'), "{out:?}");

    for path in ["..", ".", "a/../b", "/etc/passwd"] {
        let error = bad(&connection, &format!("plugin files read weather {path}")).await;
        assert!(error.to_string().contains("cannot be the path of a file"), "{error}");
    }
    peer.script().answers.push((FILES, 422, json!({"detail": "it is from git"})));
    let error = bad(&connection, "plugin files list weather").await;
    assert!(error.to_string().contains("it is from git"), "{error}");
}

#[tokio::test]
async fn the_files_are_written_into_a_tar_that_replaces_none() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("weather.tar");
    let line = format!("plugin export weather --to {}", to.display());
    peer.script().answers.push(("/v1/plugins/weather/export", 404, json!({"detail": "none"})));
    assert!(bad(&connection, &line).await.to_string().contains("none"));
    assert!(!to.exists(), "nothing came");
    for _ in 0..2 {
        peer.script().answers.push(("/v1/plugins/weather/export", 200, json!("bytes")));
    }
    assert!(good(&connection, &line).await.contains("the files of weather are in"));
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "\"bytes\"");
    let error = bad(&connection, &line).await.to_string();
    assert!(error.contains("cannot be written"), "{error}");
}
