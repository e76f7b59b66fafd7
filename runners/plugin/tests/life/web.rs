//! Repositories over HTTP, by git's own program for web servers, and a server that sends elsewhere.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::daemon::Daemon;
use crate::house::{House, MANIFEST};

#[derive(Clone)]
struct Web {
    repositories: PathBuf,
    /// Where everything is said to be instead.
    elsewhere: Option<String>,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn serve(web: Web, tasks: &Tasks) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let router = Router::new().fallback(answer).with_state(web);
    tasks.spawn("web", OnExit::Log, async move { axum::serve(listener, router).await.unwrap() });
    host
}

async fn answer(State(web): State<Web>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    web.asked.lock().push(path.clone());
    if let Some(elsewhere) = &web.elsewhere {
        let to = format!("{elsewhere}{}", head.uri);
        let response = Response::builder().status(StatusCode::FOUND).header("location", to);
        return response.body(Body::empty()).unwrap();
    }
    let header =
        |name: &str| head.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let mut command = Command::new("git");
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &web.repositories)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", head.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&body).await.unwrap();
    let output = child.wait_with_output().await.unwrap().stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = if name == "Status" {
            response.status(value[..3].parse::<u16>().unwrap())
        } else {
            response.header(name, value)
        };
    }
    response.body(Body::from(Bytes::copy_from_slice(&output[end + 4..]))).unwrap()
}

#[tokio::test]
async fn a_repository_is_fetched_over_http_and_redirects_are_followed_where_they_may_lead() {
    let (house, daemon, tasks) = (House::new().await, Daemon::start(), Tasks::new());
    let repository = daemon.repository("plugin");
    repository.write("manifest.json", MANIFEST);
    repository.write("script", "#!/bin/sh\n");
    let commit = repository.commit();
    let repositories = repository.path.parent().unwrap().to_owned();
    let web = Web { repositories, elsewhere: None, asked: Arc::default() };
    let host = serve(web.clone(), &tasks).await;
    let source =
        |host: &str| json!({"git": {"url": format!("http://{host}/plugin/.git"), "ref": "main"}});
    house.order_of("test", source(&host), std::slice::from_ref(&host));
    let (_, found) = house.bundle().await;
    assert_eq!(found.as_ref(), Some(&commit));

    // What it sends on to is looked at as if the owner had named it: here both are allowed.
    web.asked.lock().clear();
    let sends = |to: String| Web { elsewhere: Some(to), asked: Arc::default(), ..web.clone() };
    let lure = sends(format!("http://{host}"));
    let lured = serve(lure.clone(), &tasks).await;
    let twice = serve(sends(format!("http://{lured}")), &tasks).await;
    let all = [host.clone(), lured.clone(), twice.clone()];
    house.order_of("test", source(&twice), &all);
    let (_, found) = house.bundle().await;
    assert_eq!(found, Some(commit));

    // Here somebody allowed sends to somebody who is not, in the second step.
    web.asked.lock().clear();
    lure.asked.lock().clear();
    house.order_of("test", source(&twice), &all[1..]);
    let (reason, message) = house.bundle_failure().await;
    assert_eq!(reason, "SourceUnreachable", "{message}");
    assert!(message.contains("127.0.0.1, which is not public"), "{message}");
    assert!(!lure.asked.lock().is_empty());
    assert!(web.asked.lock().is_empty(), "{:?}", web.asked.lock());

    // Some send round and round, some to what is no repository, some to another transport.
    for (to, why) in [
        (String::new(), "sends on more than 5 times"),
        (format!("http://{host}/login?to="), "which is no repository"),
        (format!("git://{host}"), "over another transport"),
        (format!("ssh://git@{host}"), "over another transport"),
        ("file://".to_owned(), "is not of https, http, git or ssh"),
    ] {
        let lured = serve(sends(to), &tasks).await;
        house.order_of("test", source(&lured), &[host.clone(), lured.clone()]);
        let (reason, message) = house.bundle_failure().await;
        assert_eq!(reason, "SourceUnreachable", "{message}");
        assert!(message.contains(why), "{message}");
    }
    assert!(web.asked.lock().is_empty(), "{:?}", web.asked.lock());
}
