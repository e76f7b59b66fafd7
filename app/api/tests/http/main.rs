//! The API as clients meet it: over TCP, with a real database.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it fails")]

mod doors;
mod plugin_files;
mod runners;
mod sandboxes;
mod support;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use famulus_api::Config;
use famulus_core::{
    event::{DeltaKind, Envelope, Event, EventId, VERSION, Viewers as _},
    ids::{ConversationId, TurnId},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{CHAT, OWNER, World, with_server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A configuration whose limits do not get in the way.
fn config() -> Config {
    Config { failed_auth_per_minute: 10_000, requests_burst: 10_000, ..Config::default() }
}

#[tokio::test]
async fn every_route_is_behind_its_lock() {
    with_server(config(), async |world| {
        let document: Value = serde_json::from_str(famulus_api::openapi::document()).unwrap();
        let mut public = Vec::new();
        let mut walked = 0;
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                walked += 1;
                let url = format!("http://{}{}", world.address, path.replace(['{', '}'], ""));
                let method: Method = method.to_uppercase().parse().unwrap();
                let bare = || world.client.request(method.clone(), &url);
                let answer = bare().send().await.unwrap();
                if operation["security"] == json!([]) {
                    public.push(path.clone());
                    assert_ne!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
                    continue;
                }
                assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
                assert_eq!(answer.headers()["www-authenticate"], "Basic realm=\"famulus\"");
                assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
                let wrong = bare().bearer_auth("wrong").send().await.unwrap();
                assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
                if operation["x-scope"] == "owner" {
                    let member = bare().bearer_auth(CHAT).send().await.unwrap();
                    assert_eq!(member.status(), StatusCode::FORBIDDEN, "{method} {path}");
                }
            }
        }
        assert_eq!(public, ["/livez", "/readyz"]);
        assert!(walked > 40);
    })
    .await;
}

#[tokio::test]
async fn credentials_are_taken_from_the_header_only() {
    with_server(config(), async |world| {
        let status = async |request: reqwest::RequestBuilder| {
            request.send().await.unwrap().status().as_u16()
        };
        let url = format!("http://{}/v1/me", world.address);
        let basic = world.client.get(&url).basic_auth("anybody", Some(OWNER));
        assert_eq!(status(basic).await, 200);
        assert_eq!(status(world.client.get(format!("{url}?token={OWNER}"))).await, 400);
        assert_eq!(status(world.get("/v1/me?api_key=x")).await, 400);
        assert_eq!(status(world.get("/nowhere")).await, 404);
        assert_eq!(status(world.client.get(url.replace("/v1/me", "/nowhere"))).await, 401);
        assert_eq!(status(world.call(OWNER, Method::PUT, "/v1/me")).await, 405);
        let foreign = world.post("/v1/conversations", &json!({})).header("origin", "http://evil");
        assert_eq!(status(foreign).await, 403);
        let inner = format!("http://{}/v1/me", world.internal);
        assert_eq!(status(world.client.get(&inner)).await, 401);
        assert_eq!(status(world.client.get(&inner).bearer_auth(OWNER)).await, 404);

        let made: Value = world
            .post("/v1/tokens", &json!({"name": "x", "scope": "chat"}))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let token = made["token"].as_str().unwrap();
        assert_eq!(status(world.call(token, Method::GET, "/v1/me")).await, 200);
        let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
        assert_eq!(status(world.call(OWNER, Method::DELETE, &path)).await, 204);
        assert_eq!(status(world.call(token, Method::GET, "/v1/me")).await, 401);
    })
    .await;
}

#[tokio::test]
async fn a_token_that_is_made_is_32_random_bytes() {
    with_server(config(), async |world| {
        let make = async || {
            let new = world.post("/v1/tokens", &json!({"name": "x", "scope": "chat"}));
            let (status, made) = answer(new).await;
            assert_eq!(status, 201, "{made}");
            let text = made["token"].as_str().unwrap().strip_prefix("fam_").unwrap().to_owned();
            assert_eq!(text.len(), 43);
            let bytes: [u8; 32] = URL_SAFE_NO_PAD.decode(text).unwrap().try_into().unwrap();
            bytes
        };
        let (a, b) = (make().await, make().await);
        for (place, (a, b)) in a.chunks(8).zip(b.chunks(8)).enumerate() {
            assert_ne!(a, b, "eight bytes from {} on", place * 8);
        }
    })
    .await;
}

#[tokio::test]
async fn too_many_wrong_credentials_are_slowed_down() {
    let config = Config { failed_auth_per_minute: 3, ..Config::default() };
    with_server(config, async |world| {
        let wrong = async || world.call("wrong", Method::GET, "/v1/me").send().await.unwrap();
        for _ in 0..3 {
            assert_eq!(wrong().await.status(), StatusCode::UNAUTHORIZED);
        }
        let slowed = wrong().await;
        assert_eq!(slowed.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(slowed.headers().contains_key("retry-after"));
        let problem: Value = slowed.json().await.unwrap();
        assert_eq!(problem["type"], "/problems/too-many-failures");
        assert!(problem["remedy"].as_str().unwrap().starts_with("wait"));
    })
    .await;
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or(Value::Null))
}

#[tokio::test]
async fn chat_waits_for_the_reply_whoever_gives_it() {
    with_server(config(), async |world| {
        let mut viewer = stream(world, "/v1/conversations/main/events", "").await;
        read_until(&mut viewer, "retry: 1000\n\n").await;
        let asked = answer(world.post("/chat", &json!({"message": "hello"})));
        let ((status, reply), turn) = tokio::join!(asked, world.work("good day"));
        assert_eq!((status, reply["response"].as_str()), (200, Some("good day")));
        assert_eq!(reply["state"], "complete");
        assert_eq!(reply["turn_id"], json!(turn));
        let ended = read_until(&mut viewer, "\n\n").await;
        assert!(ended.contains("event: complete\n") && ended.contains("good day"), "{ended}");

        let (status, turn) = answer(world.get(&format!("/v1/turns/{turn}"))).await;
        assert_eq!((status, turn["text"].as_str()), (200, Some("good day")));
        let (_, page) = answer(world.get("/v1/conversations/main/messages")).await;
        let texts: Vec<&str> = page["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|m| m["text"].as_str())
            .collect();
        assert_eq!(texts, ["hello", "good day"]);
        let (_, other) =
            answer(world.call(CHAT, Method::GET, "/v1/conversations/main/messages")).await;
        assert_eq!(other["messages"], json!([]), "another person's main conversation is theirs");
    })
    .await;
}

#[tokio::test]
async fn chat_checks_before_it_keeps_anything() {
    with_server(config(), async |world| {
        let problem = async |body: Value| {
            let (status, problem) = answer(world.post("/chat", &body)).await;
            (status, problem["type"].as_str().unwrap_or_default().to_owned())
        };
        let bad = (400, "/problems/bad-request".to_owned());
        assert_eq!(problem(json!({"message": "x", "async": 1})).await, bad);
        assert_eq!(problem(json!({})).await, bad);
        assert_eq!(problem(json!({"message": 5})).await, bad);
        let file = json!({"data": "!!", "filename": "a.txt", "mimeType": "text/plain"});
        assert_eq!(problem(json!({"files": [file]})).await, bad);
        assert_eq!(problem(json!({"audio": "!!", "audioContentType": "audio/ogg"})).await, bad);
        assert_eq!(problem(json!({"audio": "aGVsbG8gaGVsbG8gaGVsbG8="})).await, bad);
        assert_eq!(problem(json!({"audio": "aGVsbG8=", "audioContentType": "a/b"})).await, bad);
        let (status, page) =
            answer(world.call(OWNER, Method::POST, "/chat").body("{\"message\":")).await;
        assert_eq!((status, page["type"].as_str()), (400, Some("/problems/invalid-json")));
        let large = format!("{{\"message\":\"{}\"}}", "x".repeat(30 * 1024 * 1024));
        let (status, page) = answer(world.call(OWNER, Method::POST, "/chat").body(large)).await;
        assert_eq!((status, page["type"].as_str()), (413, Some("/problems/too-large")));
        assert!(page["remedy"].as_str().unwrap().contains("api.chat_body_bytes"));

        let (status, none) = answer(world.post("/chat", &json!({"message": " /STOP "}))).await;
        assert_eq!((status, none["response"].as_str()), (200, Some("Nothing was running.")));
        let send = async |key: &str, message: &str| {
            let body = json!({"message": message, "async": true});
            answer(world.post("/chat", &body).header("idempotency-key", key)).await
        };
        let (status, first) = send("k1", "hello").await;
        assert_eq!((status, &first["accepted"]), (202, &json!(true)));
        let (status, again) = send("k1", "hello").await;
        assert_eq!((status, &again["turn_id"]), (202, &first["turn_id"]));
        assert_eq!(send("k1", "another").await.0, 409);
        let (_, stopped) = answer(world.post("/chat", &json!({"message": "/stop"}))).await;
        assert_eq!(stopped["response"], "Stopped.");
        // Who may answer depends on the question, and this one is nobody's.
        let approve = json!({"message": "/approve ABCDEFGH"});
        let (status, none) = answer(world.call(CHAT, Method::POST, "/chat").json(&approve)).await;
        let said = none["response"].as_str().unwrap_or_default();
        assert!(status == 200 && said.contains("no question"), "{status}: {none}");
    })
    .await;
}

#[tokio::test]
async fn a_spoken_message_needs_no_words() {
    with_server(config(), async |world| {
        let wav = "UklGRiQAAABXQVZFZm10IA==";
        let said = json!({"audio": wav, "async": true});
        let (status, accepted) = answer(world.post("/chat", &said)).await;
        assert_eq!(status, 202, "{accepted}");
        let path = "/v1/conversations/main/messages";
        let (_, page) = answer(world.call(OWNER, Method::GET, path)).await;
        let parts = &page["messages"][0]["parts"];
        let audio = parts.as_array().unwrap().iter().find(|part| part["type"] == "audio").unwrap();
        assert_eq!(
            (&audio["name"], &audio["blob"]["mime"]),
            (&json!("audio"), &json!("audio/wav"))
        );
    })
    .await;
}

#[tokio::test]
async fn files_go_in_and_come_out_as_they_were() {
    with_server(Config { blob_bytes: 600_000, ..config() }, async |world| {
        let bytes: Vec<u8> = (0..500_000_u32).map(|n| (n / 7) as u8).collect();
        let upload = world
            .call(OWNER, Method::POST, "/v1/blobs")
            .header("content-type", "text/html")
            .body(bytes.clone());
        let (status, blob) = answer(upload).await;
        assert_eq!((status, &blob["size"]), (201, &json!(500_000)));
        let path = format!("/v1/blobs/{}", blob["id"].as_str().unwrap());
        let read = world.get(&path).send().await.unwrap();
        assert_eq!(read.headers()["content-disposition"], "attachment");
        assert!(read.headers()["content-security-policy"].to_str().unwrap().contains("sandbox"));
        assert!(read.bytes().await.unwrap() == bytes);
        let other = world.call(CHAT, Method::GET, &path).send().await.unwrap();
        assert_eq!(other.status(), StatusCode::NOT_FOUND);
        let large = world.call(OWNER, Method::POST, "/v1/blobs").body(vec![0; 700_000]);
        assert_eq!(answer(large).await.0, 413);

        let form = "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"../a.txt\"\r\n\
                    content-type: text/plain\r\n\r\nhello\r\n--x--\r\n";
        let upload = world
            .call(OWNER, Method::POST, "/api/upload")
            .header("content-type", "multipart/form-data; boundary=x")
            .body(form);
        let (status, uploaded) = answer(upload).await;
        assert_eq!((status, uploaded["filename"].as_str()), (200, Some("a.txt")));
    })
    .await;
}

async fn stream(world: &World, path: &str, more: &str) -> TcpStream {
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {OWNER}\r\n{more}\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

async fn read_until(socket: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        let read =
            tokio::time::timeout(std::time::Duration::from_secs(10), socket.read(&mut buffer));
        let count = read.await.unwrap_or_else(|_| panic!("`{wanted}` is not in {text}")).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}

#[tokio::test]
async fn events_stream_until_the_server_ends() {
    with_server(config(), async |world| {
        let (_, main) = answer(world.get("/v1/conversations/main")).await;
        let conversation: ConversationId = main["id"].as_str().unwrap().parse().unwrap();
        let mut viewer = stream(world, "/v1/conversations/main/events", "").await;
        let head = read_until(&mut viewer, "retry: 1000\n\n").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
        assert_eq!(world.hub.viewers(), 1);
        let event =
            Event::Delta { turn: TurnId::new(), kind: DeltaKind::Text, text: "hello".to_owned() };
        let id = EventId { fence: 7, number: 1 };
        let at = "2026-11-21T10:00:00Z".parse().unwrap();
        world.hub.publish(&Arc::new(Envelope { v: VERSION, id, conversation, at, event }));
        let shown = read_until(&mut viewer, "\n\n").await;
        assert!(shown.starts_with("id: 7-1\nevent: delta\ndata: {\"v\":1,"), "{shown}");

        let mut lists = stream(world, "/v1/events", "").await;
        read_until(&mut lists, "\"list\":\"knowledge\"").await;
        let (status, _) =
            answer(world.post("/v1/knowledge", &json!({"kind": "memory", "body": "x"}))).await;
        assert_eq!(status, 201);
        read_until(&mut lists, "\"list\":\"knowledge\"").await;

        drop(lists);
        let bad = stream(world, "/v1/conversations/main/events", "last-event-id: x\r\n").await;
        read_until(&mut { bad }, "/problems/bad-request").await;
        world.tasks.shutdown();
        read_until(&mut viewer, ": the server is ending\nretry: 1000\n\n").await;
        let mut rest = Vec::new();
        viewer.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
    })
    .await;
}

#[tokio::test]
async fn the_nouns_of_v1_can_be_made_read_and_deleted() {
    with_server(config(), async |world| {
        let (status, made) =
            answer(world.post("/v1/conversations", &json!({"title": "Trip"}))).await;
        assert_eq!((status, made["title"].as_str()), (201, Some("Trip")));
        let path = format!("/v1/conversations/{}", made["id"].as_str().unwrap());
        let renamed = world.call(OWNER, Method::PATCH, &path).json(&json!({"title": "Journey"}));
        assert_eq!(answer(renamed).await.1["title"], "Journey");
        assert_eq!(answer(world.call(CHAT, Method::GET, &path)).await.0, 404);
        let (status, sent) =
            answer(world.post(&format!("{path}/messages"), &json!({"text": "hi"}))).await;
        assert_eq!((status, sent["disposition"].as_str()), (202, Some("started")));
        let (_, stopped) = answer(world.post(&format!("{path}/stop"), &json!({}))).await;
        assert_eq!(stopped["stopped"], json!([sent["turn_id"]]));

        let rule = json!({"kind": "cron", "expression": "0 9 * * 1-5"});
        let (status, schedule) = answer(
            world.post("/v1/schedules", &json!({"name": "News", "note": "news", "rule": rule})),
        )
        .await;
        assert_eq!((status, schedule["time_zone"].as_str()), (201, Some("Europe/Berlin")));
        assert_eq!(schedule["name"], "News");
        let path = format!("/v1/schedules/{}", schedule["id"].as_str().unwrap());
        let change = world.call(OWNER, Method::PATCH, &path).json(&json!({"enabled": false}));
        assert_eq!(answer(change).await.1["enabled"], false);
        assert_eq!(answer(world.get(&format!("{path}/slots"))).await.1["slots"], json!([]));
        assert_eq!(answer(world.call(OWNER, Method::DELETE, &path)).await.0, 204);
        let bad = json!({"kind": "cron", "expression": "61 * * * *"});
        let (status, problem) =
            answer(world.post("/v1/schedules", &json!({"note": "x", "rule": bad}))).await;
        assert_eq!(status, 400, "{problem}");

        let (_, me) = answer(world.get("/v1/me")).await;
        assert_eq!(me["person"]["id"], json!(world.owner.id));
        let zone = world.call(OWNER, Method::PATCH, "/v1/me").json(&json!({"time_zone": "Mars"}));
        assert_eq!(answer(zone).await.0, 400);
        let agent = json!({"name": "helper", "tools": ["get_tme"]});
        assert_eq!(answer(world.post("/v1/agents", &agent)).await.0, 404);
        let agent = json!({"name": "helper", "tools": ["get_time"]});
        assert_eq!(answer(world.post("/v1/agents", &agent)).await.0, 201);
        assert_eq!(answer(world.post("/v1/agents", &agent)).await.0, 409);
        let (_, queue) = answer(world.get("/v1/queue")).await;
        assert_eq!((&queue["depth"], &queue["dead"]), (&json!(1), &json!(0)));
        assert_eq!(answer(world.get("/v1/queue/dead")).await.1["jobs"], json!([]));
        assert_eq!(answer(world.get("/v1/outbox?state=failed")).await.1["messages"], json!([]));
        let (_, status) = answer(world.get("/v1/status")).await;
        let fine = status["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true);
        assert!(fine, "{status}");
        let configuration = &status["checks"].as_array().unwrap().last().unwrap();
        assert_eq!(configuration["detail"], "in force as it stands");
        assert_eq!(answer(world.get("/readyz")).await.0, 200);
        let metrics = world.get("/metrics").send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        assert!(metrics.starts_with("up 1\n# TYPE famulus_queue_dead gauge\n"), "{metrics}");
        let dead = "famulus_queue_dead{class=\"turn\"} 0\n";
        assert!(metrics.contains(dead), "{metrics}");
    })
    .await;
}
