//! Two processes on one database are one assistant: either works what the other accepted, and shows,
//! stops and waits for what the other works.

use crate::world::{self, Child, Client, Do, Puppet, Setup, World, client, say, soon};
use famulus_core::event::{Event, List, Status};
use futures::future::join_all;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The most that may pass from the word to the last effect on a machine that does ten other things. How
/// long it takes is measured by `cargo xtask bench stop`.
const STOP: Duration = Duration::from_secs(5);

/// One of two assistants on one database.
struct Replica {
    owner: Client,
    model: Arc<Puppet>,
}

/// Runs a test with two assistants, each with a model of its own.
async fn with_two<T: AsyncFnOnce(&World, &[Replica; 2])>(
    plan: impl Fn() -> Vec<Do> + Clone + Send + Sync + 'static,
    concurrency: usize,
    test: T,
) {
    let plans = [plan.clone(), plan];
    let [first, second] = plans.map(|plan| Puppet::new(move |_, _| plan()));
    let setup = |model: &Arc<Puppet>| {
        Setup::new(model.clone()).set(|config| config.turns.concurrency = concurrency)
    };
    world::run(setup(&first), async |world| {
        let other = world.another(setup(&second)).await;
        let replicas = [
            Replica { owner: world.owner.clone(), model: first },
            Replica { owner: other, model: second },
        ];
        test(world, &replicas).await;
    })
    .await;
}

/// Waits until one of them works, and returns it before the other.
async fn who_works(replicas: &[Replica; 2]) -> (&Replica, &Replica) {
    let [one, two] = replicas;
    let here = tokio::select! {
        _asked = one.model.asked(1) => true,
        _asked = two.model.asked(1) => false,
    };
    if here { (one, two) } else { (two, one) }
}

/// Whoever comes while it starts waits: what they come with may not be known yet, such as the first token.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_answered_before_the_start_is_over() {
    let setup = || Setup::new(Puppet::new(|_, _| vec![say("Fine.")]));
    world::run(setup(), async |world| {
        let owner = world.beginning(setup()).await;
        let mut asked = Box::pin(owner.get("/v1/tokens"));
        let early = tokio::time::timeout(Duration::from_millis(500), &mut asked).await;
        assert!(early.is_err(), "it was answered");
        world.has_begun();
        soon("an answer", asked).await.ok();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_is_shared_and_nothing_is_worked_twice() {
    const TURNS: usize = 40;
    let gate = CancellationToken::new();
    let held = gate.clone();
    let plan = move || vec![Do::Hold(held.clone()), say("Done.")];
    with_two(plan, TURNS / 2, async |world, replicas| {
        let [one, two] = replicas;
        // Everything comes in by one of them.
        let conversations = join_all((0..TURNS).map(|_| one.owner.open("main"))).await;
        let turns = join_all(conversations.iter().map(|id| one.owner.begin(id, "work"))).await;
        // Neither can hold more than half, so that each must have taken its half.
        tokio::join!(one.model.asked(TURNS / 2), two.model.asked(TURNS / 2));
        gate.cancel();
        join_all(turns.iter().map(|turn| two.owner.reaches(turn, "complete"))).await;
        assert_eq!((one.model.times(), two.model.times()), (TURNS / 2, TURNS / 2));
        let replies = "select count(*) from message where role = 'assistant'";
        assert_eq!(world.database.count(replies).await, TURNS as i64);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_anywhere_hears_of_lists_and_of_what_ends() {
    let gate = CancellationToken::new();
    let held = gate.clone();
    let plan = move || vec![say("One."), Do::Hold(held.clone())];
    with_two(plan, 8, async |_, replicas| {
        let [one, two] = replicas;
        let mut watchers = [one.owner.watch_lists().await, two.owner.watch_lists().await];
        // Whoever connects is told of every list first.
        for watcher in &mut watchers {
            for _ in 0..5 {
                watcher.next().await;
            }
            // From here on it knows what there is.
            watcher.seen.clear();
        }
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let note = json!({"note": "water", "rule": {"kind": "every", "seconds": 3_600},
                          "conversation_id": "main"});
        one.owner.post("/v1/schedules", note).await.ok();
        let turn = one.owner.begin("main", "hello").await;
        for watcher in &mut watchers {
            let is_schedules =
                |event: &Event| matches!(event, Event::ListChanged { list: List::Schedules });
            watcher.until("the schedules have changed", is_schedules).await;
        }
        // Seen once while it runs, so that its end is one.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        gate.cancel();
        two.owner.reaches(&turn, "complete").await;
        for watcher in &mut watchers {
            let is_idle = |event: &Event| {
                matches!(event, Event::Status { turn: of, status: Status::Idle } if of.to_string() == turn)
            };
            watcher.until("the conversation rests", is_idle).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_anywhere_sees_the_stream_and_a_caller_anywhere_ends_it() {
    let gates: Arc<Vec<CancellationToken>> =
        Arc::new((0..3).map(|_| CancellationToken::new()).collect());
    let held = Arc::clone(&gates);
    let plan = move || {
        let mut script = vec![say("First. ")];
        for (number, gate) in held.iter().enumerate() {
            script.push(Do::Hold(gate.clone()));
            script.push(say(format!("Piece {number}. ")));
        }
        script.push(Do::Hold(CancellationToken::new()));
        script
    };
    with_two(plan, 4, async |_, replicas| {
        let conversation = replicas[0].owner.open("main").await;
        let turn = replicas[0].owner.begin(&conversation, "talk").await;
        let (here, there) = who_works(replicas).await;
        // One comes before the text, one in its midst.
        let mut early = there.owner.watch(&conversation).await;
        let said = |text: String| move |event: &Event| {
            matches!(event, Event::Delta { text: piece, .. } if *piece == text)
        };
        early.until("the first words", said("First. ".into())).await;
        gates[0].cancel();
        early.until("more", said("Piece 0. ".into())).await;
        let mut late = there.owner.watch(&conversation).await;
        for (number, gate) in gates.iter().enumerate().skip(1) {
            gate.cancel();
            for viewer in [&mut early, &mut late] {
                viewer.until("the next piece", said(format!("Piece {number}. "))).await;
            }
        }

        let told = Instant::now();
        let path = format!("/v1/conversations/{conversation}/stop");
        let stopped = there.owner.post(&path, json!({})).await.ok();
        assert_eq!(stopped["stopped"], json!([turn]));
        here.model.dropped(1).await;
        assert!(told.elapsed() < STOP, "{:?}", told.elapsed());
        let whole = "First. Piece 0. Piece 1. Piece 2. ";
        assert_eq!((early.whole().await, late.whole().await), (whole.to_owned(), whole.to_owned()));
        assert_eq!(there.owner.reaches(&turn, "cancelled").await["text"], whole);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_waits_for_a_turn_that_runs_elsewhere() {
    let gates = [CancellationToken::new(), CancellationToken::new(), CancellationToken::new()];
    let (plans, next) = (gates.clone(), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let plan = move || {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        vec![say("I am "), Do::Hold(plans[number.min(2)].clone()), say("done.")]
    };
    // Each works one turn at a time.
    with_two(plan, 1, async |_, replicas| {
        let [one, two] = replicas;
        let busy = one.owner.begin(&one.owner.open("main").await, "first").await;
        let (here, there) = who_works(replicas).await;
        // The first is taken up for as long as its gate is shut, so the other works this one.
        let asked = json!({ "message": "second", "conversation_id": one.owner.open("main").await });
        let waiting = here.owner.post("/chat", asked);
        let opening = async {
            there.model.asked(1).await;
            gates[1].cancel();
            Instant::now()
        };
        let (reply, opened) = tokio::join!(waiting, opening);
        let reply = reply.ok();
        assert_eq!(
            (&reply["state"], &reply["response"]),
            (&json!("complete"), &json!("I am done."))
        );
        assert!(opened.elapsed() < Duration::from_secs(15), "{:?}", opened.elapsed());
        let turn = client::id_of(&reply, "turn_id");
        let elsewhere = soon("the turn is over", two.owner.turn(&turn)).await;
        assert_eq!(elsewhere["text"], "I am done.");
        gates[0].cancel();
        one.owner.reaches(&busy, "complete").await;
    })
    .await;
}

/// Four processes find an empty database at the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_together_agree_on_schema_and_owner() {
    const PROCESSES: usize = 4;
    world::install_tls();
    let database = world::Database::empty().await;
    // They wait for each other before the first migration: here for somebody who is there already.
    let mut first = PgConnection::connect(database.url()).await.unwrap();
    for statement in [
        "create table famulus_start (one integer primary key check (one = 1))",
        "begin",
        "lock table famulus_start in access exclusive mode",
    ] {
        first.execute(statement).await.unwrap();
    }
    // As in a cluster, where they have one Secret.
    let home = tempfile::tempdir().unwrap();
    let start = |_| Child::start_in(home.path(), database.url(), &[]);
    let starting = join_all((0..PROCESSES).map(start));
    let waiting = async {
        let waiting = "select count(*) from pg_stat_activity
                       where datname = current_database() and wait_event_type = 'Lock'";
        while database.count(waiting).await < PROCESSES as i64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(database.count("select count(*) from pg_class where relname = 'turn'").await, 0);
        first.execute("commit").await.unwrap();
    };
    let (children, ()) = tokio::join!(starting, soon("all of them wait", waiting));
    first.close().await.unwrap();

    let mut owners = Vec::new();
    for child in &children {
        owners.push(child.owner.get("/v1/me").await.ok()["person"]["id"].clone());
        // The token that one of them made is the one of all.
        for other in &children {
            let there = other.owner.with_token(&child.owner.token);
            assert_eq!(there.get("/v1/me").await.status, 200);
        }
        child.owner.say("hello").await;
    }
    assert!(owners.iter().all(|id| id.is_string() && *id == owners[0]), "{owners:?}");
    assert_eq!(database.count("select count(*) from person where role = 'owner'").await, 1);
    assert_eq!(database.count("select count(*) from agent where name = 'main'").await, 1);
    let failed = "select count(*) from _sqlx_migrations where not success";
    assert_eq!(database.count(failed).await, 0);
    drop(children);
    database.drop().await;
}

/// Who was found is remembered there, so that a request costs no query; asking on and on makes it no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_works_in_another_process_for_five_seconds_at_most() {
    const REMEMBERED: Duration = Duration::from_secs(5);
    const WHERE: &str = "/v1/conversations";
    with_two(Vec::new, 1, async |_, [one, two]| {
        let made = one.owner.post("/v1/tokens", json!({ "name": "lost", "scope": "chat" })).await;
        let made = made.ok();
        let token = client::id_of(&made, "token");
        let [here, there] = [one, two].map(|replica| replica.owner.with_token(&token));
        for lost in [&here, &there] {
            lost.get(WHERE).await.ok();
        }
        one.owner.delete(&format!("/v1/tokens/{}", client::id_of(&made, "id"))).await.ok();
        let revoked = Instant::now();
        here.get(WHERE).await.refused(401);
        let answer = loop {
            let asked = revoked.elapsed();
            let answer = there.get(WHERE).await;
            if answer.status != 200 {
                break answer;
            }
            assert!(asked <= REMEMBERED, "it still works after {asked:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        answer.refused(401);
    })
    .await;
}
