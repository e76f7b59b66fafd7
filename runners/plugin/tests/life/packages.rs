//! Packages from an index of the installation's own, which wants a password.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_protocol::revision::Built;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;

use crate::house::{House, inline, tool};
use crate::support::{BEARER, text_of};
use crate::switching::ready;

const PASSWORD: &str = "canary-of-the-index";

const MANIFEST: &str = r#"{"name":"test","description":"A test.","init":{"entrypoint":"init.sh"}}"#;

const WHEEL: &str = "echoing-1.0-py3-none-any.whl";

/// A wheel of one module, as pip would make it.
const MAKE: &str = r#"
import sys, zipfile
info = "echoing-1.0.dist-info"
files = {
    "echoing/__init__.py": "def echo(text):\n    return f'You asked: {text}'\n",
    f"{info}/METADATA": "Metadata-Version: 2.1\nName: echoing\nVersion: 1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
"#;

#[derive(Clone)]
struct Index {
    wheel: Vec<u8>,
    /// What was asked for, and whether with the password.
    asked: Arc<Mutex<Vec<(String, bool)>>>,
}

async fn answer(State(index): State<Index>, request: Request) -> (StatusCode, HeaderMap, Vec<u8>) {
    let expected = format!("Basic {}", STANDARD.encode(format!("reader:{PASSWORD}")));
    let path = request.uri().path().to_owned();
    let given = request.headers().get("authorization").is_some_and(|it| *it == *expected);
    index.asked.lock().push((path.clone(), given));
    let mut headers = HeaderMap::new();
    if !given {
        headers.insert("www-authenticate", "Basic realm=packages".parse().unwrap());
        return (StatusCode::UNAUTHORIZED, headers, Vec::new());
    }
    match path.as_str() {
        "/simple/echoing/" => {
            headers.insert("content-type", "text/html".parse().unwrap());
            let page = format!("<!DOCTYPE html><a href=\"{WHEEL}\">{WHEEL}</a>");
            (StatusCode::OK, headers, page.into_bytes())
        }
        _ if path.ends_with(WHEEL) => (StatusCode::OK, headers, index.wheel),
        _ => (StatusCode::NOT_FOUND, headers, Vec::new()),
    }
}

async fn serve(index: Index, tasks: &Tasks) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(index);
    tasks.spawn("index", OnExit::Log, async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}/simple/")
}

fn wheel(house: &House) -> Vec<u8> {
    let file = house.path(WHEEL);
    let made = Command::new("python3").args(["-c", MAKE]).arg(&file).status().unwrap();
    assert!(made.success());
    fs::read(file).unwrap()
}

#[tokio::test]
async fn a_build_has_packages_from_an_index_with_a_password_and_a_call_is_told_nothing_of_it() {
    let house = House::new().await;
    let asked: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let index = Index { wheel: wheel(&house), asked: Arc::clone(&asked) };
    let tasks = Tasks::new();
    let index = serve(index, &tasks).await;
    let credentials = house.path("packages");
    fs::create_dir(&credentials).unwrap();
    let settings = [
        ("PACKAGES_PYTHON", index.as_str()),
        ("PACKAGES_CREDENTIALS", credentials.to_str().unwrap()),
    ];

    let echo = "#!/usr/bin/env -S uv run --script\n# /// script\n# dependencies = [\"echoing\"]\n# ///\n\
                import echoing\nprint(echoing.echo(\"why?\"))\n";
    let netrc = credentials.join("netrc");
    let look = format!(
        "#!/bin/sh\nenv | grep -E 'INDEX|NETRC|npm_|PIP_' && echo told\n\
         cat {0} && echo read\nls {1} && echo listed\necho done\n",
        netrc.display(),
        credentials.display()
    );
    house.order(
        "test",
        inline(&[
            ("manifest.json", MANIFEST),
            ("init.sh", "#!/bin/sh\necho \"$PIP_INDEX_URL\"\ncut -d' ' -f1-4 \"$NETRC\"\n"),
            ("echo/manifest.json", &tool("echo")),
            ("echo/run", echo),
            ("look/manifest.json", &tool("look")),
            ("look/run", &look),
        ]),
    );
    let (revision, _) = house.bundle().await;

    let (reason, message) = house.build_failure(&settings).await;
    assert_eq!(reason, "BuildFailed");
    assert!(message.contains("plugins.packages.existingSecret"), "{message}");

    fs::write(&netrc, format!("machine 127.0.0.1 login reader password {PASSWORD}\n")).unwrap();
    let built = house.try_build(&settings).await;
    let Built::Done { init_output, .. } = built else { panic!("{built:?}") };
    assert_eq!(init_output.trim(), format!("{index}\nmachine 127.0.0.1 login reader"));
    let has_wheel = |(path, given): &(String, bool)| path.ends_with(WHEEL) && *given;
    assert!(asked.lock().iter().any(has_wheel), "{asked:?}");

    house.mount(1, Some(&revision), &json!({}), BEARER);
    let before = asked.lock().len();
    let runner = house.serve(&settings);
    ready(&runner).await;
    let echoed = runner.run("c1", "echo", json!({})).await;
    assert_eq!(text_of(&echoed).trim(), "You asked: why?");
    let looked = runner.run("c2", "look", json!({})).await;
    assert_eq!(text_of(&looked).trim(), "done");
    assert_eq!(asked.lock().len(), before, "a call asks no index");
}

#[tokio::test]
async fn without_an_index_a_build_is_told_nothing() {
    let house = House::new().await;
    let init = "#!/bin/sh\nenv | grep -cE 'INDEX|NETRC|npm_|PIP_'\ntrue\n";
    house.order("test", inline(&[("manifest.json", MANIFEST), ("init.sh", init)]));
    house.bundle().await;
    assert_eq!(house.build().await.trim(), "0");
}
