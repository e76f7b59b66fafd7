//! Clients that send too much, too slowly, or nonsense: each is told why, and nobody else notices.

use crate::world::{self, Client, Do, Puppet, Raw, Setup, World, client, say, soon};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) const MIB: usize = 1024 * 1024;

pub(crate) fn talkative() -> Setup {
    Setup::new(Puppet::new(|_, _| vec![say("Fine.")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_megabytes_are_refused_with_the_remedy() {
    let setup = talkative().set(|config| config.api.request_timeout_seconds = 1);
    world::run(setup, async |world| {
        let owner = &world.owner;
        let doors = [("/chat", "api.chat_body_bytes"), ("/v1/blobs", "api.blob_bytes")];
        for (path, key) in doors {
            let request = owner.request(Method::POST, path).body(vec![b' '; 30 * MIB]);
            let answer = client::answer(request).await;
            assert!(answer.body["remedy"].as_str().unwrap().contains(key), "{}", answer.body);
            answer.refused(413);

            // Without a word about its length.
            let piece = vec![b' '; MIB];
            let pieces = (0..30).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
            let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
            client::answer(owner.request(Method::POST, path).body(body)).await.refused(413);

            // Announced and never sent.
            let mut raw = Raw::connect(owner.address).await;
            let head = head(&owner.token, "POST", path);
            raw.send(format!("{head}content-length: {}\r\n\r\n", 30 * MIB)).await;
            let answer = raw.rest().await;
            assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("remedy"), "{answer}");

            // Sent without reading a byte, and then gone.
            let mut raw = Raw::connect(owner.address).await;
            raw.send(format!("{head}content-length: {}\r\n\r\n", 30 * MIB)).await;
            for _ in 0..10 {
                raw.send(vec![b' '; MIB]).await;
            }
            raw.abort();
        }
        // As a form, of which a part of the file is stored before it is too large.
        let form = |bytes: usize| {
            let request = owner.request(Method::POST, "/api/upload");
            let request = request.header("content-type", "multipart/form-data; boundary=b");
            let part = "content-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
            client::answer(request.body(format!("--b\r\n{part}{}\r\n--b--\r\n", " ".repeat(bytes))))
        };
        let answer = form(11 * MIB).await;
        assert!(answer.body["remedy"].as_str().unwrap().contains("api.upload_bytes"));
        answer.refused(413);
        let wide = json!({ "text": " ".repeat(2 * MIB) });
        owner.post("/v1/conversations/main/messages", wide).await.refused(413);
        for table in ["select count(*) from blob", "select count(*) from blob_piece"] {
            assert_eq!(world.database.count(table).await, 0, "nothing stays behind");
        }
        assert_eq!(owner.say("Still there?").await, "Fine.");
        assert_eq!(form(9 * MIB).await.ok()["filename"], "a", "what is within the limit is taken");
    })
    .await;
}

/// The head of a request, its last line still open.
pub(crate) fn head(token: &str, method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_body_is_told_where_it_is_wrong() {
    world::run(talkative(), async |world| {
        let owner = &world.owner;
        let messages = "/v1/conversations/main/messages";
        let deep = "[".repeat(200_000);
        let cron = br#"{"note":"x","rule":{"kind":"cron","expression":"61 * * * *"}}"#;
        let blob = br#"{"text":"a","attachments":[{"blob":{"id":5}}]}"#;
        let cases: [(&str, &[u8], &str); 15] = [
            ("/chat", br#"{"message": }"#, "line 1 column 13"),
            ("/chat", br#"["hello"]"#, "object"),
            (messages, br#" ["hello"]"#, "object"),
            ("/v1/schedules", br#"["note",{"kind":"every","seconds":60}]"#, "object"),
            ("/chat", b"hello", "line 1 column 1"),
            ("/chat", br#"{"message":"a"} x"#, "trailing characters"),
            ("/chat", b"{\"message\":\"\xff\"}", "line 1"),
            ("/chat", br#"{"message":"a","async":"yes"}"#, "`async`"),
            ("/chat", br#"{"message":5}"#, "none of `message`"),
            ("/chat", br#"{"message":"a","files":[{"data":"!!"}]}"#, "base64"),
            (messages, br#"{"text":5}"#, "at `text`"),
            (messages, blob, "at `attachments[0].blob.id`"),
            (messages, br#"{"text":"a","txet":"b"}"#, "unknown field `txet`"),
            (messages, deep.as_bytes(), "line 1"),
            ("/v1/schedules", cron, "61 * * * *"),
        ];
        for (path, body, expected) in cases {
            let shown: String = String::from_utf8_lossy(body).chars().take(60).collect();
            let request = owner.request(Method::POST, path).body(body.to_vec());
            let detail = client::answer(request).await.refused(400);
            assert!(detail.contains(expected), "{shown}: {detail}");
        }
        let nowhere = json!({ "message": "a", "conversation_id": "7" });
        assert!(owner.post("/chat", nowhere).await.refused(404).contains("conversation `7`"));
        let count = "select count(*) from message";
        assert_eq!(world.database.count(count).await, 0);

        // Odd, but a text.
        for odd in ["a\0b", "\u{202e}\u{feff}", "\u{1F9D9}\u{200d}\u{2642}"] {
            let reply = owner.chat(odd).await;
            assert_eq!(reply["response"], "Fine.", "{reply}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_slow_is_cut_off_and_holds_nobody_up() {
    let setup = || talkative().set(|config| config.api.request_timeout_seconds = DEADLINE);
    // Beside it one that nobody slow talks to, so that a slow machine is told from a slow answer.
    Box::pin(world::run(setup(), async |control| {
        Box::pin(world::run(setup(), async |world| slow_ones(world, &control.owner).await)).await;
    }))
    .await;
}

/// Seconds until the assistant gives up on a body that does not come.
const DEADLINE: u64 = 1;
/// Whoever waits for somebody slow waits until that one is cut off, which takes longer than this.
const HELD_UP: Duration = Duration::from_millis(DEADLINE * 700);

async fn slow_ones(world: &World, control: &Client) {
    const DRIP: Duration = Duration::from_millis(100);
    let owner = &world.owner;
    let post =
        |path: &str| format!("{}content-length: 9000\r\n\r\n", head(&owner.token, "POST", path));
    let nobody = "POST /chat HTTP/1.1\r\nhost: test\r\ncontent-length: 9000\r\n\r\n";
    let form = |part: &str| {
        let length = "content-type: multipart/form-data; boundary=b\r\ncontent-length: 9000";
        format!("{}{length}\r\n\r\n--b\r\n{part}", head(&owner.token, "POST", "/api/upload"))
    };
    let file = "content-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    // What is sent at once, what comes back, and when at the latest.
    let cases = [
        ("GET /livez HTTP/1.1\r\nhost: test\r\nx-slow: ".to_owned(), "", 10),
        (post("/chat"), "HTTP/1.1 408", 15),
        (post("/v1/conversations/main/messages"), "HTTP/1.1 408", 15),
        (post("/v1/blobs"), "HTTP/1.1 408", 30),
        (form(file), "HTTP/1.1 408", 30),
        (form("x-slow: "), "HTTP/1.1 408", 30),
        (nobody.to_owned(), "HTTP/1.1 401", 30),
    ];
    let slow = cases.map(|(sent, answer, seconds)| async move {
        let mut raw = Raw::connect(owner.address).await;
        raw.send(&sent).await;
        let (said, took) = raw.drip(DRIP).await;
        assert!(took < Duration::from_secs(seconds), "{took:?} for {sent}");
        assert!(said.starts_with(answer), "{said}");
    });
    let silent = [post("/chat"), post("/v1/blobs"), form(file)].map(|sent| async move {
        let mut raw = Raw::connect(owner.address).await;
        raw.send(&sent).await;
        let began = Instant::now();
        let said = raw.rest().await;
        assert!(said.starts_with("HTTP/1.1 408") && said.contains("remedy"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    });
    let gone = CancellationToken::new();
    let others = async {
        let mut pairs = Vec::new();
        while !gone.is_cancelled() {
            pairs.push(tokio::join!(answered_in(owner), answered_in(control)));
            tokio::time::sleep(DRIP).await;
        }
        pairs
    };
    let slow = async {
        let slow = futures::future::join_all(slow);
        tokio::join!(slow, futures::future::join_all(silent));
        gone.cancel();
    };
    let ((), pairs) = tokio::join!(slow, others);
    // Both are asked at the same moment, and what else the machine does slows both.
    let longer = |(here, there): &(Duration, Duration)| here.saturating_sub(*there);
    let worst = pairs.iter().map(longer).max().unwrap();
    assert!(worst < HELD_UP, "held up for {worst:?}: {pairs:?}");
    assert!(pairs.len() >= 2, "somebody asks all the while: {pairs:?}");
    let (here, there) = (median(&pairs, |pair| pair.0), median(&pairs, |pair| pair.1));
    assert!(here < there * 2 + DRIP, "{here:?}, and {there:?} where nobody is slow");
    assert_eq!(world.database.count("select count(*) from blob").await, 0);
}

async fn answered_in(owner: &Client) -> Duration {
    let began = Instant::now();
    assert_eq!(owner.say("Quick?").await, "Fine.");
    began.elapsed()
}

fn median<T>(all: &[T], of: impl Fn(&T) -> Duration) -> Duration {
    let mut all: Vec<Duration> = all.iter().map(of).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_guarded() {
    let setup = talkative().set(|config| {
        config.api.failed_auth_per_minute = 3;
    });
    world::run(setup, async |world| {
        let owner = &world.owner;
        // In an address, whatever else is right.
        let secret = &owner.token;
        for path in [format!("/chat?token={secret}"), "/livez?api_key=x".to_owned()] {
            let answer = owner.get(&path).await;
            assert_eq!(answer.body["type"], "/problems/credentials-in-url");
            let detail = answer.refused(400);
            assert!(!detail.contains(secret.as_str()), "{detail}");
        }
        let mut raw = Raw::connect(owner.address).await;
        raw.send(format!("GET http://ada:{secret}@test/livez HTTP/1.1\r\nhost: test\r\n\r\n"))
            .await;
        let answer = raw.until("}").await;
        assert!(
            answer.starts_with("HTTP/1.1 400") && !answer.contains(secret.as_str()),
            "{answer}"
        );

        // As the seeds' clients send them.
        let basic = STANDARD.encode(format!("anyone:{secret}"));
        let mut raw = Raw::connect(owner.address).await;
        raw.send(format!(
            "GET /v1/me HTTP/1.1\r\nhost: test\r\nauthorization: Basic {basic}\r\n\r\n"
        ))
        .await;
        assert!(raw.until("scope").await.starts_with("HTTP/1.1 200"));
        let mut raw = Raw::connect(owner.address).await;
        raw.send("GET /v1/me HTTP/1.1\r\nhost: test\r\n\r\n").await;
        let answer = raw.until("}").await.to_lowercase();
        assert!(
            answer.starts_with("http/1.1 401") && answer.contains("www-authenticate: basic"),
            "{answer}"
        );

        // Another site's page cannot use what a browser remembers.
        let request = owner.request(Method::POST, "/chat").header("origin", "https://evil.example");
        client::answer(request.body(r#"{"message":"hi"}"#)).await.refused(403);

        // Guessing ends. (The request without a token above did not count as a guess.)
        let guess = owner.with_token("wrong");
        let mut statuses = Vec::new();
        let locked = loop {
            let answer = guess.get("/v1/me").await;
            statuses.push(answer.status);
            if answer.status == 429 {
                break answer;
            }
            assert!(statuses.len() < 10, "{statuses:?}");
        };
        assert!(statuses.len() >= 3, "{statuses:?}");
        let after: u64 = locked.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&after), "{after}");
        locked.refused(429);
        assert_eq!(owner.get("/v1/me").await.status, 200, "whoever is known is not locked out");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_caller_cannot_ask_without_end() {
    let setup = talkative().set(|config| {
        config.api.requests_burst = 20;
        config.api.requests_per_second = 1;
    });
    world::run(setup, async |world| {
        let bridge = world.owner.chat_only().await;
        let asked = (0..40).map(|_| bridge.get("/v1/me"));
        let answers = futures::future::join_all(asked).await;
        let (fine, refused): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.status == 200);
        assert!((20..40).contains(&fine.len()), "{}", fine.len());
        for answer in refused {
            assert!(answer.headers.contains_key("retry-after"));
            answer.refused(429);
        }
        assert_eq!(world.owner.get("/v1/me").await.status, 200, "others have their own share");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_answered_and_forgotten() {
    world::run(talkative(), async |world| {
        let owner = &world.owner;
        assert!(owner.get("/nowhere").await.refused(404).contains("nothing is served"));
        owner.get("/v1/turns/%ff").await.refused(400);
        let wrong = owner.delete("/v1/me").await;
        assert_eq!(wrong.headers["allow"], "GET, PATCH");
        wrong.refused(405);

        let me = head(&owner.token, "GET", "/v1/me");
        let post = head(&owner.token, "POST", "/chat");
        let around = head(&owner.token, "GET", "/v1/../metrics");
        let long = "x".repeat(40_000);
        let cases: [(&str, String, &[&str]); 10] = [
            ("a header of 40 KiB", format!("{me}x: {long}\r\n\r\n"), &["431"]),
            ("200 headers", format!("{me}{}\r\n", "a: b\r\n".repeat(200)), &["431"]),
            ("an address of 40 KiB", format!("GET /{long} HTTP/1.1\r\n\r\n"), &["414", "431"]),
            ("a way around", format!("{around}connection: close\r\n\r\n"), &["404"]),
            ("another protocol", "\x16\x03\x01\x02\0\x01\0\x01\x03\r\n\r\n".to_owned(), &["400"]),
            ("HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), &["400", ""]),
            (
                "two lengths",
                format!("{post}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"),
                &["400"],
            ),
            ("no length", format!("{post}content-length: -1\r\n\r\n"), &["400"]),
            ("no chunk", format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n"), &["400"]),
            ("garbage behind a request", format!("{me}\r\n\0\x01garbage\r\n\r\n"), &["200"]),
        ];
        for (what, sent, expected) in cases {
            let mut raw = Raw::connect(owner.address).await;
            raw.send(&sent).await;
            let said = raw.rest().await;
            let status = said.strip_prefix("HTTP/1.1 ").map_or("", |rest| &rest[..3]);
            assert!(expected.contains(&status), "{what}: {said}");
        }

        // Two requests at once are two answers, in order.
        let nowhere = head(&owner.token, "GET", "/nowhere");
        let mut raw = Raw::connect(owner.address).await;
        raw.send(format!("{me}\r\n{nowhere}connection: close\r\n\r\n")).await;
        let said = raw.rest().await;
        let statuses: Vec<&str> = said.split("HTTP/1.1 ").skip(1).map(|rest| &rest[..3]).collect();
        assert_eq!(statuses, ["200", "404"], "{said}");
        assert_eq!(owner.say("Still there?").await, "Fine.");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_named_and_nothing_is_lost() {
    const FULL: &str = "create function full_disk() returns trigger language plpgsql as
        $$ begin raise exception 'no space left on device' using errcode = '53100'; end $$;
        create trigger full_disk before insert on message execute function full_disk();";
    const FREED: &str = "drop trigger full_disk on message; drop function full_disk";
    let gate = CancellationToken::new();
    let held = gate.clone();
    let model = Puppet::new(move |_, _| vec![say("Half, "), Do::Hold(held.clone()), say("whole.")]);
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let turn = owner.begin("main", "hello").await;
        model.asked(1).await;
        // The server's own words for it; a disk that is really full needs one to fill.
        world.database.execute(FULL).await;
        let message = json!({ "message": "more" });
        let refused = owner.post_keyed("/chat", "key", message.clone()).await;
        assert!(refused.body["remedy"].as_str().unwrap().contains("free some space"));
        assert!(refused.headers.contains_key("retry-after"));
        refused.refused(507);
        gate.cancel();
        // Long enough for more failures than a turn may have.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let waiting = owner.turn(&turn).await;
        assert!(waiting["ended_at"].is_null(), "a full disk ends no turn: {waiting}");

        world.database.execute(FREED).await;
        let again = async { owner.post_keyed("/chat", "key", message).await.ok() };
        let reply: Value = soon("the message is taken", again).await;
        assert!(reply["turn_id"].is_string(), "{reply}");
        owner.reaches(&turn, "complete").await;
        let texts = owner.messages("main").await;
        let told = texts.iter().filter(|message| message["role"] == "user").count();
        assert_eq!(told, 2);
    })
    .await;
}
