//! Plugins from git, with the internet that stands beside a node of `cargo xtask cluster`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::kubectl::{LONG, kubectl, until};
use crate::release::{Release, condition};

/// The folder of the cluster.
fn node() -> PathBuf {
    let folder = std::env::var("FAMULUS_TEST_NODE").unwrap_or_else(|_| {
        panic!(
            "FAMULUS_TEST_NODE is not set: these tests put repositories and packages beside the \
             node; run them by `cargo xtask cluster suite`, or leave them out by `--skip node::`"
        )
    });
    folder.into()
}

fn run(program: &str, args: &[&str], folder: &Path) {
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
}

/// A repository that Pods find as `git://git.example/NAME.git`, and a tree to commit from.
struct Repository {
    tree: PathBuf,
}

impl Repository {
    fn new(name: &str) -> Self {
        let bare = node().join(format!("internet/git/{name}.git"));
        let tree = node().join(format!("internet-trees/{name}"));
        for folder in [&bare, &tree] {
            if folder.exists() {
                fs::remove_dir_all(folder).unwrap();
            }
            fs::create_dir_all(folder).unwrap();
        }
        run("git", &["init", "-q", "--bare", "-b", "main"], &bare);
        run("git", &["init", "-q", "-b", "main"], &tree);
        run("git", &["remote", "add", "origin", bare.to_str().unwrap()], &tree);
        Self { tree }
    }

    fn write(&self, path: &str, content: &str) {
        use std::os::unix::fs::PermissionsExt;
        let file = self.tree.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        if content.starts_with("#!") {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn push(&self, message: &str) {
        run("git", &["add", "-A"], &self.tree);
        let who = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
        let mut commit = who.to_vec();
        commit.extend(["commit", "-q", "-m", message]);
        run("git", &commit, &self.tree);
        run("git", &["push", "-q", "origin", "main"], &self.tree);
    }
}

/// A wheel of one module, in the index that Pods find as `http://pypi.example/simple/`.
fn publish(package: &str, module: &str) {
    let folder = node().join(format!("internet/index/simple/{package}"));
    fs::create_dir_all(&folder).unwrap();
    let script = r#"
import sys, zipfile
package, module, path = sys.argv[1:]
info = f"{package}-1.0.dist-info"
files = {
    f"{package}/__init__.py": module,
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(path, "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
"#;
    let wheel = folder.join(format!("{package}-1.0-py3-none-any.whl"));
    run("python3", &["-c", script, package, module, wheel.to_str().unwrap()], &folder);
}

const MANIFEST: &str = r#"{
  "name": "greeter",
  "description": "Greets people.",
  "instructions": "Set api_key.",
  "config": {
    "api_key": {"description": "The key.", "required": true},
    "mood": {"description": "How it greets.", "required": false, "default": "kindly"}
  }
}"#;

const GREET: &str = r#"#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.11"
# dependencies = ["salutation==1.0"]
#
# [[tool.uv.index]]
# url = "http://pypi.example/simple/"
# default = true
# ///
import json, sys
from pathlib import Path
import salutation

config = json.loads(Path("../config.json").read_text())
given = json.load(sys.stdin)
said = salutation.greet(given["name"])
print(json.dumps({"said": said, "mood": config["mood"], "key": config["api_key"][-4:], "version": 1}))
"#;

fn greeter(repository: &Repository) {
    repository.write("manifest.json", MANIFEST);
    repository.write(
        "greet/manifest.json",
        r#"{"name": "greet", "description": "Greets.", "entrypoint": "run.py",
            "parameters": {"name": {"type": "string", "description": "Whom."}}}"#,
    );
    repository.write("greet/run.py", GREET);
    repository.write(
        "later/manifest.json",
        r#"{"name": "later", "description": "Takes its time.", "entrypoint": "run.sh",
            "async": true, "parameters": {}}"#,
    );
    repository.write("later/run.sh", "#!/bin/sh\nsleep 2\necho '{\"came\": \"late but well\"}'\n");
}

const PLUGIN: &str = "
apiVersion: famulus.dev/v1alpha1
kind: Plugin
metadata: {name: greeter}
spec:
  name: greeter
  source: {git: {url: 'git://git.example/greeter.git', ref: main}}
  configSecretRef: {name: greeter-config}
  permissions: {tools: ['*']}
";

/// Has the ref looked up anew.
async fn refresh(release: &Release, number: u32) {
    let annotation = format!("famulus.dev/refresh={number}");
    kubectl(&["-n", &release.sandbox, "annotate", "--overwrite", "plugin", "greeter", &annotation])
        .await;
}

/// Waits until a message of the conversation holds this text.
async fn hears(release: &Release, text: &str) -> Value {
    until(&format!("a message holds {text:?}"), LONG, async || {
        let (_, messages) = release.ask(Method::GET, &release.messages(), None).await;
        if messages.to_string().contains(text) { Ok(messages) } else { Err(messages.to_string()) }
    })
    .await
}

#[tokio::test]
async fn a_plugin_from_git_is_configured_used_late_broken_mended_and_pinned() {
    publish("salutation", "def greet(name):\n    return f'Good day, {name}'\n");
    let repository = Repository::new("greeter");
    greeter(&repository);
    repository.push("The first");

    let release = Release::open().await;
    release.apply(PLUGIN).await;
    // Without its Secret it is built, and says what is missing.
    let plugin = release.condition("greeter", "Built=True").await;
    let first = plugin["status"]["revision"].as_str().unwrap().to_owned();
    assert_eq!(plugin["status"]["commit"].as_str().unwrap().len(), 40);
    let plugin = release.condition("greeter", "Configured=False").await;
    let configured = condition(&plugin, "Configured").unwrap();
    assert_eq!(configured["reason"], "SecretMissing", "{configured}");

    let key = "a-secret-that-nobody-reads-9876";
    let literal = format!("--from-literal=api_key={key}");
    let create =
        ["-n", &release.sandbox, "create", "secret", "generic", "greeter-config", &literal];
    kubectl(&create).await;
    let plugin = release.condition("greeter", "Ready=True").await;
    assert_eq!(plugin["status"]["configKeys"], json!(["api_key"]));

    let reply = release.chat("run greet of greeter with name=Ada").await;
    assert!(reply.contains("Good day, Ada") && reply.contains("9876"), "{reply}");
    assert!(reply.contains("kindly"), "the default: {reply}");
    assert!(!reply.contains(key), "{reply}");

    // An async tool answers at once, and its result comes by itself.
    let reply = release.chat("run later of greeter").await;
    assert!(reply.contains("is running"), "{reply}");
    hears(&release, "late but well").await;

    // A bad commit is refused, and the revision before goes on.
    repository.write("greet/manifest.json", r#"{"name": "greet"}"#);
    repository.push("A bad one");
    refresh(&release, 1).await;
    let plugin = release.condition("greeter", "Built=False").await;
    let built = condition(&plugin, "Built").unwrap();
    assert_eq!(built["reason"], "ManifestInvalid", "{built}");
    assert_eq!(plugin["status"]["revision"], json!(first));
    let reply = release.chat("run greet of greeter with name=Bob").await;
    assert!(reply.contains("Good day, Bob"), "{reply}");

    // A good one takes over in the Pod that runs.
    greeter(&repository);
    repository.write("greet/run.py", &GREET.replace("\"version\": 1", "\"version\": 2"));
    repository.push("A good one");
    refresh(&release, 2).await;
    release.condition("greeter", "Built=True").await;
    let plugin = release.condition("greeter", "Ready=True").await;
    assert_ne!(plugin["status"]["revision"], json!(first));
    let reply = release.chat("run greet of greeter with name=Cleo").await;
    assert!(reply.contains("\"version\": 2"), "{reply}");

    // A pin goes back.
    let pin = json!({"spec": {"revision": first}}).to_string();
    let patch = ["-n", &release.sandbox, "patch", "plugin", "greeter", "--type=merge", "-p", &pin];
    kubectl(&patch).await;
    until("the pinned revision serves", LONG, async || {
        let reply = release.chat("run greet of greeter with name=Dora").await;
        if reply.contains("\"version\": 1") { Ok(()) } else { Err(reply) }
    })
    .await;

    // The key is nowhere but in its place.
    for kind in ["plugins", "pods", "jobs", "deployments", "configmaps", "events"] {
        let said = kubectl(&["-n", &release.sandbox, "get", kind, "-o", "yaml"]).await;
        assert!(!said.contains(key), "{kind}");
    }
    let (_, messages) = release.ask(Method::GET, &release.messages(), None).await;
    assert!(!messages.to_string().contains(key));
    kubectl(&["-n", &release.sandbox, "delete", "secret", "greeter-config"]).await;
    release.delete(&["greeter"]).await;
}
