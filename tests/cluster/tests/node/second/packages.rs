//! An index and a registry that want a password. The installation has it for builds; the plugins do not
//! say where their packages come from.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use famulus_cluster_tests::beside::{Repository, node, plugin, run};
use famulus_cluster_tests::release::Release;

use super::guides::output;

/// Both are one server, which lets nobody in below `private` without the password.
pub(super) const PYTHON: &str = "http://pypi.example/private/simple/";
pub(super) const NPM: &str = "http://pypi.example/private/npm/";

const NAME: &str = "registered";

/// What the owner puts into the Secret for builds; the server asks for it from now on.
pub(super) fn credentials(password: &str) -> Value {
    let login = format!("reader:{password}");
    fs::write(node().join("internet/password"), &login).unwrap();
    let place = NPM.strip_prefix("http:").unwrap();
    json!({
        "netrc": format!("machine pypi.example login reader password {password}\n"),
        "npmrc": format!("{place}:_auth={}\n", STANDARD.encode(login)),
    })
}

/// A plugin in Node whose package is in the registry alone.
pub(super) async fn ask_for(release: &Release) {
    publish();
    let repository = Repository::new(NAME);
    // It fetches a package, which takes its time on a busy machine.
    let init = json!({"entrypoint": "init.sh", "async": true});
    let manifest = json!({"name": NAME, "description": "Has a package.", "init": init});
    repository.write("manifest.json", &manifest.to_string());
    repository.write(
        "init.sh",
        "#!/bin/sh\nexec npm install --no-audit --no-fund --no-update-notifier --loglevel=error left\n",
    );
    repository.tool(
        "side",
        "run.js",
        "#!/usr/bin/env node\nconsole.log(JSON.stringify({ side: require(\"left\") }));\n",
    );
    repository.push("With a package");
    release.apply(&plugin(NAME, &json!({}))).await;
}

pub(super) async fn answer(release: &Release) -> String {
    release.condition(NAME, "Ready=True").await;
    assert_eq!(output(release, NAME, "side", &json!({})).await, r#"{"side":"left"}"#);
    NAME.to_owned()
}

/// A package as a registry has it: what it says of it, and an archive.
fn publish() {
    let registry = node().join("internet/index/npm");
    let package = node().join("internet-trees/left/package");
    for folder in [registry.join("files"), package.clone()] {
        fs::create_dir_all(folder).unwrap();
    }
    let described = json!({"name": "left", "version": "1.0.0", "main": "index.js"});
    fs::write(package.join("package.json"), described.to_string()).unwrap();
    fs::write(package.join("index.js"), "module.exports = \"left\";\n").unwrap();
    let archive = registry.join("files/left-1.0.0.tgz");
    run("tar", &["czf", archive.to_str().unwrap(), "package"], package.parent().unwrap());
    let mut version = described;
    version["dist"] = json!({"tarball": format!("{NPM}files/left-1.0.0.tgz")});
    let versions = json!({"1.0.0": version});
    let said = json!({"name": "left", "dist-tags": {"latest": "1.0.0"}, "versions": versions});
    fs::write(registry.join("left"), said.to_string()).unwrap();
}
