//! The callback listener: who is authenticated there, who is not, and what comes in once.

use crate::{
    config,
    runners::bearer,
    support::{CHAT, OWNER, World, with_server},
};
use famulus_core::{
    Clock as _,
    clock::SystemClock,
    ids::ConversationId,
    plugin::{LateCall, LateCalls as _},
    runner::DELIVERY_BYTES,
    sandbox::{RunOutput, SandboxAnswer, SandboxError},
};
use famulus_store::MAIN_AGENT;
use famulus_tools::fake::plugins::result;
use jiff::SignedDuration;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::sleep,
};

const TOKEN: &str = "the-token-of-this-call";
const CALL: &str = "0190a000-0000-7000-8000-000000000001.0.0.0";

/// Opens a conversation and expects the result of a call in it.
async fn expect(world: &World, id: &str, token: &str, expires: SignedDuration) -> ConversationId {
    let opened: Value =
        world.post("/v1/conversations", &json!({})).send().await.unwrap().json().await.unwrap();
    let conversation: ConversationId = serde_json::from_value(opened["id"].clone()).unwrap();
    let call = LateCall {
        id: id.into(),
        plugin: "weather".into(),
        tool: "watch".into(),
        person: world.owner.id,
        agent: MAIN_AGENT,
        conversation,
        origin: None,
        token_hash: Sha256::digest(token.as_bytes()).into(),
        expires_at: SystemClock.now() + expires,
    };
    world.store.expect(&call).await.unwrap();
    conversation
}

fn client_from(address: Ipv4Addr) -> Client {
    let builder = Client::builder().no_proxy().tls_certs_only([]);
    builder.local_address(IpAddr::V4(address)).build().unwrap()
}

pub(crate) fn at_door(world: &World, method: Method, path: &str, plugin: &str) -> RequestBuilder {
    from_here(&world.client, world, method, path, plugin)
}

fn from_here(
    client: &Client,
    world: &World,
    method: Method,
    path: &str,
    plugin: &str,
) -> RequestBuilder {
    client
        .request(method, format!("http://{}{path}", world.callback))
        .bearer_auth(bearer(plugin))
        .header("famulus-plugin", format!("uid-{plugin}"))
        .header("famulus-rendered", "1")
}

fn delivering(world: &World, plugin: &str, id: &str, token: &str) -> RequestBuilder {
    at_door(world, Method::POST, &format!("/internal/v1/calls/{id}/result"), plugin)
        .header("famulus-call-token", token)
        .body("sunny until evening")
}

/// Delivers with the token of the call and this bearer of this number.
fn showing(world: &World, path: &str, bearer: &str, rendered: &str) -> RequestBuilder {
    world
        .client
        .post(format!("http://{}{path}", world.callback))
        .bearer_auth(bearer)
        .header("famulus-plugin", "uid-weather")
        .header("famulus-rendered", rendered)
        .header("famulus-call-token", TOKEN)
        .body("sunny")
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

async fn messages(world: &World, conversation: ConversationId) -> Vec<Value> {
    let path = format!("/v1/conversations/{conversation}/messages");
    let list: Value = world.get(&path).send().await.unwrap().json().await.unwrap();
    list["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_result_becomes_one_message_of_its_conversation() {
    with_server(config(), async |world| {
        let conversation = expect(world, CALL, TOKEN, SignedDuration::from_hours(1)).await;
        assert_eq!(status(delivering(world, "weather", CALL, TOKEN)).await, 204);
        let found = messages(world, conversation).await;
        assert_eq!(found.len(), 1);
        let text = found[0]["parts"][0]["text"].as_str().unwrap();
        assert!(text.contains("\nsunny until evening\n"), "{text}");
        assert_eq!(found[0]["parts"][0]["provenance"], "tool");
        assert_eq!(found[0]["parts"][1]["type"], "file");
        assert_eq!(found[0]["parts"][1]["name"], "chart.csv");
        assert_eq!(world.sandboxes.acknowledged(), [CALL]);
        // The token was for once.
        assert_eq!(status(delivering(world, "weather", CALL, TOKEN)).await, 410);
        assert_eq!(messages(world, conversation).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_result_that_comes_several_times_at_once_comes_once() {
    with_server(config(), async |world| {
        let conversation = expect(world, CALL, TOKEN, SignedDuration::from_hours(1)).await;
        let many = (0..8).map(|_| status(delivering(world, "weather", CALL, TOKEN)));
        let answers = futures::future::join_all(many).await;
        assert!(answers.iter().all(|answer| [204, 410].contains(answer)), "{answers:?}");
        assert!(answers.contains(&204), "{answers:?}");
        assert_eq!(messages(world, conversation).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_result_of_the_largest_size_comes_in_and_a_larger_one_is_told_so() {
    with_server(config(), async |world| {
        let conversation = expect(world, CALL, TOKEN, SignedDuration::from_hours(1)).await;
        let sent = async |bytes: usize| {
            let request = delivering(world, "weather", CALL, TOKEN).body("x".repeat(bytes));
            status(request).await
        };
        assert_eq!(sent(DELIVERY_BYTES + 1).await, 413);
        assert!(messages(world, conversation).await.is_empty());
        assert_eq!(sent(DELIVERY_BYTES).await, 204);
        assert_eq!(messages(world, conversation).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_forged_result_is_refused_and_changes_nothing() {
    with_server(config(), async |world| {
        let conversation = expect(world, CALL, TOKEN, SignedDuration::from_hours(1)).await;
        let (other, late) = ("another.call", "late.call");
        expect(world, other, "another-token", SignedDuration::from_hours(1)).await;
        expect(world, late, "late-token", SignedDuration::from_hours(-1)).await;
        let elsewhere = client_from(Ipv4Addr::new(127, 0, 0, 2));
        let path = format!("/internal/v1/calls/{CALL}/result");
        let right = || delivering(world, "weather", CALL, TOKEN);
        let cases = [
            ("the token of another call", delivering(world, "weather", CALL, "another-token"), 403),
            ("the call of another token", delivering(world, "weather", other, TOKEN), 403),
            ("a call that is not", delivering(world, "weather", "no.call", TOKEN), 403),
            ("an expired one", delivering(world, "weather", late, "late-token"), 410),
            ("another plugin's bearer", delivering(world, "other", CALL, TOKEN), 403),
            ("no token", at_door(world, Method::POST, &path, "weather").body("sunny"), 403),
            ("a wrong bearer", showing(world, &path, "wrong", "1"), 401),
            ("the owner's token as the bearer", showing(world, &path, OWNER, "1"), 401),
            ("an old bearer", showing(world, &path, &bearer("weather"), "0"), 401),
            (
                "right, and from the wrong address",
                from_here(&elsewhere, world, Method::POST, &path, "weather")
                    .header("famulus-call-token", TOKEN)
                    .body("sunny"),
                401,
            ),
        ];
        for (what, request, expected) in cases {
            assert_eq!(status(request).await, expected, "{what}");
        }
        assert!(messages(world, conversation).await.is_empty());
        assert!(world.sandboxes.acknowledged().is_empty());
        // What was refused did not use the right one up.
        assert_eq!(status(right()).await, 204);
    })
    .await;
}

#[tokio::test]
async fn no_door_opens_with_the_key_of_another() {
    with_server(config(), async |world| {
        let ping = format!("http://{}/internal/v1/ping", world.callback);
        assert_eq!(status(world.client.get(&ping)).await, 204);
        let path = format!("/internal/v1/revisions/{}/bundle", "0".repeat(64));
        for token in [OWNER, CHAT] {
            let request = world.client.get(format!("http://{}{path}", world.callback));
            assert_eq!(status(request.bearer_auth(token)).await, 401);
            let request = world.client.get(format!("http://{}/v1/me", world.callback));
            assert_eq!(status(request.bearer_auth(token)).await, 401);
        }
        for address in [world.address, world.internal] {
            let request = world
                .client
                .get(format!("http://{address}{path}"))
                .bearer_auth(bearer("weather"))
                .header("famulus-plugin", "uid-weather")
                .header("famulus-rendered", "1");
            assert_eq!(status(request).await, 401);
            let request = world.client.get(format!("http://{address}{path}")).bearer_auth(OWNER);
            assert_eq!(status(request).await, 404);
        }
        let mut greeting = String::new();
        let mut canary = TcpStream::connect(world.canary).await.unwrap();
        canary.read_to_string(&mut greeting).await.unwrap();
        assert_eq!(greeting, "famulus\n");
    })
    .await;
}

/// As many connections as asked for, each with a head that never ends.
async fn half_open(world: &World, from: Ipv4Addr, count: usize) -> Vec<TcpStream> {
    let mut sockets = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        let mut socket = socket.connect(world.callback).await.unwrap();
        // Who is over its number is hung up on, perhaps before this.
        let _hung_up = socket.write_all(b"GET /internal/v1/ping HTTP/1.1\r\nhost: ").await;
        sockets.push(socket);
    }
    sockets
}

/// What a probe from this address is told, within the two seconds that a probe waits.
async fn probe(world: &World, from: Ipv4Addr) -> Result<u16, String> {
    let client = client_from(from);
    let url = format!("http://{}/internal/v1/ping", world.callback);
    match tokio::time::timeout(Duration::from_secs(2), client.get(url).send()).await {
        Ok(Ok(answer)) => Ok(answer.status().as_u16()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_late) => Err("no answer in 2 s".to_owned()),
    }
}

#[tokio::test]
async fn half_open_requests_shut_out_nobody_but_their_own_address() {
    with_server(config(), async |world| {
        let conversation = expect(world, CALL, TOKEN, SignedDuration::from_hours(1)).await;
        let held = half_open(world, Ipv4Addr::new(127, 0, 0, 2), 600).await;
        assert_eq!(probe(world, Ipv4Addr::new(127, 0, 0, 3)).await, Ok(204));
        // Results come in from another address, too.
        let delivered = status(delivering(world, "weather", CALL, TOKEN));
        let delivered = tokio::time::timeout(Duration::from_secs(2), delivered).await;
        assert_eq!(delivered, Ok(204));
        assert_eq!(messages(world, conversation).await.len(), 1);
        drop(held);
    })
    .await;
}

#[tokio::test]
async fn a_probe_gets_through_although_many_addresses_hold_all_that_they_may() {
    with_server(config(), async |world| {
        let mut held = Vec::new();
        for last in 10..60 {
            held.extend(half_open(world, Ipv4Addr::new(127, 0, 1, last), 20).await);
        }
        for last in 1..5 {
            assert_eq!(probe(world, Ipv4Addr::new(127, 0, 2, last)).await, Ok(204));
        }
        drop(held);
    })
    .await;
}

#[tokio::test]
async fn a_head_that_does_not_come_is_waited_for_briefly() {
    with_server(config(), async |world| {
        let begun = Instant::now();
        let mut socket = half_open(world, Ipv4Addr::new(127, 0, 0, 2), 1).await.remove(0);
        let mut rest = Vec::new();
        let ended = socket.read_to_end(&mut rest);
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
        assert!(ended.is_ok(), "the connection is still held after {:?}", begun.elapsed());
        // Its place is free again.
        assert_eq!(probe(world, Ipv4Addr::new(127, 0, 0, 2)).await, Ok(204));
    })
    .await;
}

#[tokio::test]
async fn wrong_bearers_are_slowed_down() {
    let config = famulus_api::Config { failed_auth_per_minute: 3, ..config() };
    with_server(config, async |world| {
        let wrong = || showing(world, "/internal/v1/calls/c/result", "wrong", "1");
        let mut answers = Vec::new();
        for _ in 0..5 {
            answers.push(status(wrong()).await);
        }
        assert_eq!(answers, [401, 401, 401, 429, 429]);
        // From elsewhere it is heard.
        let elsewhere = client_from(Ipv4Addr::new(127, 0, 0, 2));
        let address = format!("http://{}/internal/v1/calls/c/result", world.callback);
        let wrong = elsewhere.post(address).bearer_auth("wrong");
        let wrong = wrong.header("famulus-plugin", "uid-weather").header("famulus-rendered", "1");
        assert_eq!(status(wrong).await, 401);
    })
    .await;
}

#[tokio::test]
async fn a_bundle_comes_in_described_and_goes_out_as_it_came() {
    with_server(config(), async |world| {
        let bundle: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        let hex = hex::encode(Sha256::digest(&bundle));
        let path = |what: &str| format!("/internal/v1/revisions/{hex}/{what}");
        let put = |what: &str, plugin: &str| at_door(world, Method::PUT, &path(what), plugin);
        let description =
            |plugin: &str| json!({"plugin": plugin, "description": "d", "config": [], "tools": []});

        assert_eq!(status(put("bundle", "weather").body(bundle.clone())).await, 404);
        let foreign = put("description", "weather").json(&description("other"));
        assert_eq!(status(foreign).await, 409);
        let own = put("description", "weather").json(&description("weather"));
        assert_eq!(status(own).await, 204);
        assert_eq!(status(put("bundle", "weather").body(bundle[1..].to_vec())).await, 422);
        assert_eq!(status(put("bundle", "other").body(bundle.clone())).await, 404);
        assert_eq!(status(put("bundle", "weather").body(bundle.clone())).await, 204);
        assert_eq!(status(put("bundle", "weather").body(bundle.clone())).await, 204, "again");
        let again = put("description", "weather").json(&description("weather"));
        assert_eq!(status(again).await, 200, "its bundle need not be sent");

        let read = at_door(world, Method::GET, &path("bundle"), "weather").send().await.unwrap();
        assert_eq!(read.status(), 200);
        assert_eq!(read.bytes().await.unwrap(), bundle);
        assert_eq!(status(at_door(world, Method::GET, &path("bundle"), "other")).await, 404);
        let crooked = at_door(world, Method::GET, "/internal/v1/revisions/ABC/bundle", "weather");
        assert_eq!(status(crooked).await, 400);
    })
    .await;
}

#[tokio::test]
async fn the_owner_lists_shows_and_runs_plugins() {
    with_server(config(), async |world| {
        let list: Value = world.get("/v1/plugins").send().await.unwrap().json().await.unwrap();
        assert_eq!(list["plugins"][0]["name"], "weather");
        assert_eq!(list["fixed_tokens"], 250);
        let shown = world.get("/v1/plugins/weather").send().await.unwrap();
        assert_eq!(shown.json::<Value>().await.unwrap()["ready"], true);
        assert_eq!(status(world.get("/v1/plugins/nosuch")).await, 404);

        let run = "/v1/plugins/weather/tools/look/run";
        let body = json!({"parameters": {"city": "Berlin"}});
        let answer = world.post(run, &body).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
        let lines: Vec<Value> = answer
            .text()
            .await
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0], json!({"event": "stage", "stage": "started", "run": 0, "runs": 1}));
        let last = lines.last().unwrap();
        assert_eq!(last["event"], "result");
        assert_eq!(last["result"]["runs"][0]["output"]["text"], r#"{"city":"Berlin"}"#);
        assert_eq!(world.sandboxes.acknowledged().len(), 1);

        let logs: Value =
            world.get("/v1/plugins/weather/logs").send().await.unwrap().json().await.unwrap();
        assert_eq!(logs["lines"], json!(["weather said hello"]));
    })
    .await;
}

#[tokio::test]
async fn a_call_that_ends_later_is_asked_after_until_it_has_ended() {
    with_server(config(), async |world| {
        let run = "/v1/plugins/weather/tools/look/run";
        let answer = world.post(run, &json!({"parameters": {"later": true}})).send().await.unwrap();
        let call = world.sandboxes.calls()[0].id.clone();
        let end = async {
            for error in [
                SandboxError::Unreachable { plugin: "weather".into(), why: "it moves".into() },
                SandboxError::Away("its API server starts".into()),
            ] {
                world.sandboxes.trouble(error);
                while world.sandboxes.is_in_trouble() {
                    sleep(Duration::from_millis(20)).await;
                }
            }
            let ended = result(RunOutput::Text("at last".into()));
            world.sandboxes.keep(&call, SandboxAnswer::Ended(ended));
        };
        let (lines, ()) = tokio::join!(answer.text(), end);
        let lines = lines.unwrap();
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(last["result"]["runs"][0]["output"]["text"], "at last", "{lines}");
        assert_eq!(world.sandboxes.acknowledged(), [call]);
    })
    .await;
}
