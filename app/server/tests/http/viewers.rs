//! Clients that do not read, go away without a word, or come by the thousand.

use crate::world::{self, Child, Client, Puppet, Raw, Setup, client, say, watch};
use famulus_models::scripted::{Day, Script, Scripted, Step};
use futures::future::join_all;
use serde_json::json;

/// Asks for the events of a conversation on a connection of its own.
async fn attach(owner: &Client, conversation: &str) -> Raw {
    let mut raw = Raw::connect(owner.address).await;
    raw.send(format!(
        "GET /v1/conversations/{conversation}/events HTTP/1.1\r\nhost: test\r\n\
         authorization: Bearer {}\r\n\r\n",
        owner.token
    ))
    .await;
    raw
}

/// Reads until the turn has ended, and returns what a person would see.
async fn read_whole(mut raw: Raw) -> String {
    let mut all = raw.until("event: complete").await;
    all.push_str(&raw.until("\n\n").await);
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
        let mut late = attach(owner, &conversation).await;
        late.until("retry: 1000\n\n").await;
        let mut prompt = owner.watch(&conversation).await;
        let turn = owner.begin(&conversation, "talk").await;
        assert!(prompt.whole().await == whole, "others are not held up");
        owner.reaches(&turn, "complete").await;
        assert!(
            read_whole(late).await == whole,
            "what was not read at once is read from the record"
        );
    })
    .await;
}

/// What a process that serves many viewers who do not read may need beyond what it needed before,
/// in MiB. Each of them would hold the whole reply if it were kept for them.
const GROWTH: u64 = 64;

#[tokio::test(flavor = "multi_thread")]
async fn viewers_that_never_read_cost_no_memory() {
    const VIEWERS: usize = 60;
    const REPLY: usize = 3 * 1024 * 1024;
    world::install_tls();
    let server = Scripted::start().await.unwrap();
    let database = world::Database::create().await;
    let settings = [
        ("FAMULUS_MODEL__BASE_URL", server.base_url().to_string()),
        ("FAMULUS_MODEL__NAME", "demo".to_owned()),
        ("FAMULUS_API__REQUESTS_BURST", "1000".to_owned()),
    ];
    let child = Child::start(&database.url, &settings).await;
    let owner = &child.owner;
    let delta = json!({ "choices": [{ "index": 0, "delta": { "content": "x".repeat(4096) } }] });
    let long = |bytes: usize| {
        let piece = Step::Send(format!("data: {delta}\n\n").into());
        let mut steps = vec![piece; bytes / 4096];
        let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
        steps.push(Step::Send(format!("data: {end}\n\ndata: [DONE]\n\n").into()));
        Day::Script(Script::events(steps))
    };

    // Everything that is needed once is there after the first.
    let conversation = owner.open("main").await;
    server.push(long(REPLY));
    let turn = owner.begin(&conversation, "talk").await;
    owner.reaches(&turn, "complete").await;
    let before = child.memory();

    let conversation = owner.open("main").await;
    let mut stuck = join_all((0..VIEWERS).map(|_| attach(owner, &conversation))).await;
    join_all(stuck.iter_mut().map(|raw| raw.until("retry: 1000\n\n"))).await;
    let mut prompt = owner.watch(&conversation).await;
    server.push(long(REPLY));
    let turn = owner.begin(&conversation, "talk").await;
    assert_eq!(prompt.whole().await.len(), REPLY);
    let ended = owner.reaches(&turn, "complete").await;
    assert_eq!(ended["text"].as_str().unwrap().len(), REPLY);
    let after = child.memory();
    assert!(after < before + GROWTH, "{before} MiB before, {after} MiB after");

    // Nor do bodies that are refused.
    let bodies = (0..12).map(|_| {
        let request = owner.request(reqwest::Method::POST, "/chat").body(vec![b' '; 30 << 20]);
        client::answer(request)
    });
    for answer in join_all(bodies).await {
        answer.refused(413);
    }
    let after = child.memory();
    assert!(after < before + GROWTH, "{before} MiB before, {after} MiB after");
    drop((stuck, prompt));
    drop(child);
    database.drop().await;
}
