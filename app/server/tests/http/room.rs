//! Bodies that are held whole: how many at once, and what becomes of the others.

use crate::world::{self, Child, Puppet, Raw, Setup, client, say};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const MIB: usize = 1024 * 1024;

/// A command, which is answered without a turn, in a body of this size.
fn large(bytes: usize) -> String {
    let command = r#"{"message":"/stop"}"#;
    format!("{command}{}", " ".repeat(bytes - command.len()))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_room_waits_and_then_hears_why_while_small_bodies_pass() {
    const WAIT: Duration = Duration::from_secs(3);
    let setup = Setup::new(Puppet::new(|_, _| vec![say("Fine.")])).set(|config| {
        config.api.request_timeout_seconds = WAIT.as_secs();
        config.api.chat_body_bytes = MIB;
        // Room for one of the largest.
        config.api.buffered_bytes = MIB;
    });
    world::run(setup, async |world| {
        let owner = &world.owner;
        let body = large(MIB);
        let ask = || client::answer(owner.request(Method::POST, "/chat").body(body.clone()));

        // Somebody has begun, and goes on slowly but fast enough.
        let mut holder = Raw::connect(owner.address).await;
        let head = format!(
            "POST /chat HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {}\r\n\
             expect: 100-continue\r\ncontent-length: {MIB}\r\n\r\n",
            owner.token
        );
        holder.send(head).await;
        // It is read, so it has its room.
        holder.until("100 Continue\r\n\r\n").await;
        let done = CancellationToken::new();
        let holding = async {
            let mut sent = 0;
            while !done.is_cancelled() {
                assert!(holder.send(&body[sent..sent + 4096]).await);
                sent += 4096;
                let _pause = tokio::time::timeout(WAIT / 20, done.cancelled()).await;
            }
            holder.send(&body[sent..]).await;
            holder.until("Nothing was running.").await
        };
        let others = async {
            let began = Instant::now();
            let timed = async { (ask().await, Instant::now()) };
            let ((refused, late), small) = tokio::join!(timed, async {
                assert_eq!(owner.say("Quick?").await, "Fine.", "small bodies have their own room");
                Instant::now()
            });
            assert!(small < late, "a small one waited {:?}", small - began);
            assert!(began.elapsed() >= WAIT, "it did not wait: {:?}", began.elapsed());
            assert_eq!(refused.body["type"], "/problems/no-room", "{}", refused.body);
            assert!(refused.body["remedy"].as_str().unwrap().contains("api.buffered_bytes"));
            assert!(refused.headers.contains_key("retry-after"));
            refused.refused(503);
            // The next one waits until the first is done.
            let (taken, ()) = tokio::join!(ask(), async { done.cancel() });
            assert_eq!(taken.ok()["response"], "Nothing was running.");
        };
        let (said, ()) = tokio::join!(holding, others);
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        let (first, second) = tokio::join!(ask(), ask());
        assert_eq!((first.status, second.status), (200, 200), "room is given back");
    })
    .await;
}

/// What a burst of bodies may cost beyond the room that they are given, in MiB: buffers of
/// connections, and code that was not used before.
const BESIDE: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_large_bodies_fits_into_the_room_that_there_is() {
    const BODIES: usize = 32;
    const BODY: usize = 6 * MIB;
    const ROOM: usize = 24 * MIB;
    world::install_tls();
    let database = world::Database::create().await;
    let settings = [
        ("FAMULUS_API__BUFFERED_BYTES", ROOM.to_string()),
        ("FAMULUS_API__CHAT_BODY_BYTES", BODY.to_string()),
        // All get their turn, however slow the machine is.
        ("FAMULUS_API__REQUEST_TIMEOUT_SECONDS", "300".to_owned()),
        ("FAMULUS_API__REQUESTS_BURST", "1000".to_owned()),
    ];
    let child = Child::start(database.url(), &settings).await;
    let owner = &child.owner;
    assert_eq!(owner.post("/chat", json!({"message": "/stop"})).await.status, 200);
    let before = child.peak();

    let body: &'static str = large(BODY).leak();
    let burst = (0..BODIES).map(|number| {
        // Every other one does not say how long it is.
        let request = owner.request(Method::POST, "/chat");
        let request = if number % 2 == 0 {
            request.body(body)
        } else {
            let pieces = body.as_bytes().chunks(MIB).map(Ok::<_, std::io::Error>);
            request.body(reqwest::Body::wrap_stream(futures::stream::iter(pieces)))
        };
        async move { request.send().await.unwrap().json::<Value>().await.unwrap() }
    });
    let answers = tokio::time::timeout(Duration::from_mins(4), join_all(burst));
    for answer in answers.await.unwrap() {
        assert_eq!(answer["response"], "Nothing was running.", "{answer}");
    }
    let grown = child.peak() - before;
    assert!(grown < (ROOM / MIB) as u64 + BESIDE, "{grown} MiB for a room of {ROOM} bytes");
    owner.say("hello").await;
    drop(child);
    database.drop().await;
}
