//! Clients that do not read, go away without a word, or come by the thousand.

use crate::world::{self, Child, Client, Do, Puppet, Raw, Setup, client, say, soon, watch};
use famulus_core::event::Event;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_models::scripted::{Scenario, Script, Scripted, Step};
use famulus_server::descriptors;
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::CancellationToken;

/// Asks for the events of a conversation on a connection of its own.
async fn attach(owner: &Client, conversation: &str) -> Raw {
    attach_by(Raw::connect(owner.address).await, owner, conversation).await
}

async fn attach_by(mut raw: Raw, owner: &Client, conversation: &str) -> Raw {
    raw.send(format!(
        "GET /v1/conversations/{conversation}/events HTTP/1.1\r\nhost: test\r\n\
         authorization: Bearer {}\r\n\r\n",
        owner.token
    ))
    .await;
    raw
}

/// Attaches so many viewers, some at a time, and waits until all of them are.
async fn attached(owner: &Client, conversation: &str, count: usize) -> Vec<Raw> {
    let mut viewers = Vec::new();
    while viewers.len() < count {
        let some = (count - viewers.len()).min(100);
        let mut some = join_all((0..some).map(|_| attach(owner, conversation))).await;
        join_all(some.iter_mut().map(|raw| raw.until(ATTACHED))).await;
        viewers.append(&mut some);
    }
    viewers
}

/// The first that a viewer reads.
const ATTACHED: &str = "retry: 1000\n\n";

/// What one who reads late takes now and then.
const SIP: usize = 16 << 10;

/// How long a thousand viewers may take to read, on a machine that does much else.
const LONG: Duration = Duration::from_secs(150);

/// Reads until the turn has ended, and returns what a person would see.
async fn read_whole(raw: &mut Raw) -> String {
    let mut all = raw.whenever("event: complete").await;
    all.push_str(&raw.whenever("\n\n").await);
    let events: Vec<_> = all.split("\n\n").filter_map(watch::read).collect();
    watch::text_of(&events)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_late_reads_everything() {
    const PIECES: usize = 600;
    let piece = |n: usize| format!("{n:05} {}\n", "x".repeat(4000));
    let whole: String = (0..PIECES).map(piece).collect();
    let model = Puppet::new(move |_, _| (0..PIECES).map(|n| say(piece(n))).collect());
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let conversation = owner.open("main").await;
        let small = Raw::connect_small(owner.address, SIP as u32).await;
        let mut late = attach_by(small, owner, &conversation).await;
        late.until(ATTACHED).await;
        let mut prompt = owner.watch(&conversation).await;
        let turn = owner.begin(&conversation, "talk").await;
        // Who takes nothing for a minute is cut off. The system lets it have more when it has
        // taken two or three of these. On a thread of its own: whoever reads promptly has much to do.
        let (enough, mut had_enough) = oneshot::channel::<()>();
        let (given_back, falls_behind) = oneshot::channel();
        let tasks = Tasks::new();
        tasks.spawn("the late viewer", OnExit::Log, async move {
            while had_enough.try_recv().is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                late.sip(SIP).await;
            }
            let _ended = given_back.send(late);
        });
        assert!(prompt.whole().await == whole, "others are not held up");
        owner.reaches(&turn, "complete").await;
        // Longer than one may take nothing: what it has begun to be told takes it minutes.
        tokio::time::sleep(Duration::from_secs(65)).await;
        enough.send(()).unwrap();
        let mut late = falls_behind.await.unwrap();
        assert!(
            soon("the late one has read", read_whole(&mut late)).await == whole,
            "what was not read at once is read from the record"
        );
    })
    .await;
}

/// A piece of a provider's reply.
fn word(text: &str) -> Step {
    piece(&json!({ "content": text }), &Value::Null)
}

fn piece(delta: &Value, end: &Value) -> Step {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": end });
    Step::Send(format!("data: {}\n\n", json!({ "choices": [choice] })).into())
}

/// A provider's reply of these pieces, and its end.
fn reply(mut steps: Vec<Step>) -> Scenario {
    steps.push(piece(&json!({}), &json!("stop")));
    steps.push(Step::Send("data: [DONE]\n\n".into()));
    Scenario::Script(Script::events(steps))
}

/// A server as a process of its own, with a scripted provider behind it.
async fn serve(server: &Scripted, database: &world::Database) -> Child {
    let settings = [
        ("FAMULUS_MODEL__BASE_URL", server.base_url().to_string()),
        ("FAMULUS_MODEL__NAME", "demo".to_owned()),
        ("FAMULUS_API__REQUESTS_BURST", "10000".to_owned()),
    ];
    Child::start(database.url(), &settings).await
}

/// What a process that serves many viewers who do not read may need beyond what it needed before,
/// in MiB. They would hold nearly twice as much if the reply were kept for each of them.
const GROWTH: u64 = 100;

/// What a burst left behind is given back once it is quiet. A viewer that does not read is cut off
/// after a minute: until then it would hold what is kept for it.
const STUCK: Duration = Duration::from_secs(15);
/// Where nobody is cut off meanwhile, the machine may be busy with other things.
const QUIET: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn viewers_that_never_read_cost_no_memory() {
    const VIEWERS: usize = 60;
    const REPLY: usize = 3 * 1024 * 1024;
    world::install_tls();
    let server = Scripted::start().await.unwrap();
    let database = world::Database::create().await;
    let child = serve(&server, &database).await;
    let owner = &child.owner;
    let long = |bytes: usize| reply(vec![word(&"x".repeat(4096)); bytes / 4096]);

    // Everything that is needed once is there after the first.
    let conversation = owner.open("main").await;
    server.push(long(REPLY));
    let turn = owner.begin(&conversation, "talk").await;
    owner.reaches(&turn, "complete").await;
    let before = child.memory();

    let conversation = owner.open("main").await;
    let mut stuck = join_all((0..VIEWERS).map(|_| attach(owner, &conversation))).await;
    join_all(stuck.iter_mut().map(|raw| raw.until(ATTACHED))).await;
    let mut prompt = owner.watch(&conversation).await;
    server.push(long(REPLY));
    let turn = owner.begin(&conversation, "talk").await;
    assert_eq!(prompt.whole().await.len(), REPLY);
    let ended = owner.reaches(&turn, "complete").await;
    assert_eq!(ended["text"].as_str().unwrap().len(), REPLY);
    child.settles(before + GROWTH, STUCK).await;

    // Nor do bodies that are refused.
    let bodies = (0..12).map(|_| {
        let request = owner.request(reqwest::Method::POST, "/chat").body(vec![b' '; 30 << 20]);
        client::answer(request)
    });
    for answer in join_all(bodies).await {
        answer.refused(413);
    }
    child.settles(before + GROWTH, QUIET).await;
    drop((stuck, prompt));
    drop(child);
    database.drop().await;
}

/// What a viewer may cost in a build for tests, in KiB: a task, a place and a socket, and its share
/// of what is written to it.
const EACH: u64 = 24;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_viewers_of_one_conversation_all_see_everything() {
    const VIEWERS: usize = 1000;
    const LATE: usize = 100;
    world::install_tls();
    descriptors::allow_all();
    let server = Scripted::start().await.unwrap();
    let database = world::Database::create().await;
    let child = serve(&server, &database).await;
    let owner = &child.owner;
    let words: Vec<String> = (0..60).map(|number| format!("word{number} ")).collect();
    let (gate, whole) = (CancellationToken::new(), words.concat());
    let script = |gate: &CancellationToken| {
        let mut steps: Vec<Step> = words.iter().map(|text| word(text)).collect();
        steps.insert(30, Step::WaitFor(gate.clone()));
        reply(steps)
    };

    // Everything that is needed once is there after the first.
    let done = CancellationToken::new();
    done.cancel();
    server.push(script(&done));
    let conversation = owner.open("main").await;
    let turn = owner.begin(&conversation, "talk").await;
    owner.reaches(&turn, "complete").await;
    let before = child.memory();

    let conversation = owner.open("main").await;
    let mut prompt = owner.watch(&conversation).await;
    let mut viewers = attached(owner, &conversation, VIEWERS - LATE).await;
    server.push(script(&gate));
    let turn = owner.begin(&conversation, "talk").await;
    prompt.until("a word", |event| matches!(event, Event::Delta { .. })).await;
    // In the middle of the reply.
    viewers.extend(attached(owner, &conversation, LATE).await);
    gate.cancel();
    let seen = timeout(LONG, join_all(viewers.iter_mut().map(read_whole))).await;
    let seen = seen.unwrap_or_else(|_| panic!("not all have read within {LONG:?}"));
    assert_eq!(seen.len(), VIEWERS);
    for (number, text) in seen.iter().enumerate() {
        assert_eq!(*text, whole, "viewer {number}");
    }
    assert_eq!(owner.reaches(&turn, "complete").await["text"], json!(whole));
    // They are all still there.
    child.settles(before + VIEWERS as u64 * EACH / 1024, QUIET).await;
    drop((viewers, prompt));
    drop(child);
    database.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_that_vanish_give_their_places_back() {
    const PLACES: usize = 3;
    const PIECES: usize = 768;
    let gate = CancellationToken::new();
    let held = gate.clone();
    // More than the system keeps for somebody who does not read.
    let model = Puppet::new(move |_, _| {
        let hold = [Do::Hold(held.clone())].into_iter();
        hold.chain((0..PIECES).map(|_| say("x".repeat(4096)))).collect()
    });
    let setup = Setup::new(model.clone()).set(|config| config.api.viewer_limit = PLACES);
    world::run(setup, async |world| {
        let owner = &world.owner;
        let conversation = owner.open("main").await;
        let path = format!("/v1/conversations/{conversation}/events");
        let mut viewers = attached(owner, &conversation, PLACES).await;
        let full = owner.get(&path).await;
        assert_eq!(full.body["type"], "/problems/too-many-viewers");
        assert!(full.headers.contains_key("retry-after"));
        full.refused(503);

        // One is cut off without a word, one hangs up: there is room for two.
        viewers.pop().unwrap().abort();
        drop(viewers.pop());
        let mut next = Vec::new();
        for _ in 0..2 {
            next.push(soon("a place is free", get_in(owner, &conversation)).await);
        }
        owner.get(&path).await.refused(503);

        // One stops reading, as a machine that lost its network does: it is cut off as soon as
        // nothing more can be sent to it for a while.
        let turn = owner.begin(&conversation, "talk").await;
        model.asked(1).await;
        gate.cancel();
        let whole = "x".repeat(4096 * PIECES);
        let read = timeout(LONG, join_all(next.iter_mut().map(read_whole))).await.unwrap();
        assert!(read.iter().all(|text| *text == whole), "the others are not held up");
        owner.reaches(&turn, "complete").await;
        let _last = timeout(LONG, get_in(owner, &conversation)).await.unwrap();
        drop((viewers, next));
    })
    .await;
}

/// Tries until there is a place.
async fn get_in(owner: &Client, conversation: &str) -> Raw {
    loop {
        let mut raw = attach(owner, conversation).await;
        let said = raw.until("\r\n\r\n").await;
        if said.starts_with("HTTP/1.1 200") {
            raw.until(ATTACHED).await;
            return raw;
        }
        assert!(said.starts_with("HTTP/1.1 503"), "{said}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
