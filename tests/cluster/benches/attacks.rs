//! What a neighbour and the app notice of a plugin that takes all there is of one thing, over and over.
//! Not a test: it prints a table and judges nothing. `cargo xtask cluster bench attacks` runs it.
//!
//! Each round measures calm calls, and then calls beside each attack; a ratio is that of one round.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench tells people"
)]

use std::time::{Duration, Instant};

use serde_json::json;

use famulus_cluster_tests::figures::{percentile, told};
use famulus_cluster_tests::release::{Release, inline, inline_of};

const ROUNDS: usize = 3;
/// In each of them, so that their 99th of 100 is no single accident.
const CALLS: usize = 200;
/// Between two calls: all of them use one token, which may ask only so often.
const PAUSE: Duration = Duration::from_millis(30);

/// The tools that take, as the tests of hostile plugins have them.
const TAKERS: &str = include_str!("../../plugins/denial/run.py");
const ATTACKS: [&str; 5] = ["forks", "memory", "flood", "scratch", "threads"];

const LOUD: &str = "loud";
const QUIET: &str = "quiet";

/// Milliseconds.
struct Times {
    half: f64,
    nearly: f64,
}

#[tokio::main]
async fn main() {
    let mut release = Release::open().await;
    release.directly().await;
    let manifest = json!({
        "name": "attack", "description": "Takes.", "entrypoint": "run.py",
        "parameters": {"what": {"type": "string", "description": "What to take."}},
    });
    let files = [("attack/manifest.json", &*manifest.to_string()), ("attack/run.py", TAKERS)];
    let stays = "  runner: {idleSeconds: 3600}\n";
    release.apply(&inline_of(LOUD, &files, stays)).await;
    let script = "#!/bin/sh\ncat > /dev/null\necho '{\"done\": true}'\n";
    release.apply(&inline(QUIET, "try", script, stays)).await;
    for name in [LOUD, QUIET] {
        release.condition(name, "Ready=True").await;
    }
    measured(&release).await;

    let mut calm = Vec::new();
    let mut beside: Vec<Vec<[Times; 2]>> = ATTACKS.iter().map(|_| Vec::new()).collect();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}: calm");
        calm.push(measured(&release).await);
        for (attack, rounds) in ATTACKS.iter().zip(&mut beside) {
            eprintln!("round {round} of {ROUNDS}: {attack}");
            let attacks = async {
                loop {
                    release.run(LOUD, "attack", &json!({"what": attack})).await;
                    tokio::time::sleep(PAUSE).await;
                }
            };
            rounds.push(tokio::select! {
                times = measured(&release) => times,
                () = attacks => unreachable!("it has no end"),
            });
            // What was cut off ends by its deadline; a calm round begins after it.
            release.run(LOUD, "attack", &json!({"what": "others"})).await;
        }
    }
    for (at, what) in ["a call of the neighbour", "`/livez` of the app"].iter().enumerate() {
        let of = |figure: fn(&Times) -> f64| told(calm.iter().map(|it| figure(&it[at])).collect());
        println!("| {what}, calm | {} ms | {} ms | – |", of(|it| it.half), of(|it| it.nearly));
        for (attack, rounds) in ATTACKS.iter().zip(&beside) {
            let of =
                |figure: fn(&Times) -> f64| told(rounds.iter().map(|it| figure(&it[at])).collect());
            let ratio = |(calm, it): (&[Times; 2], &[Times; 2])| it[at].nearly / calm[at].nearly;
            let ratio = told(calm.iter().zip(rounds).map(ratio).collect());
            println!(
                "| {what}, beside {attack} | {} ms | {} ms | {ratio} |",
                of(|it| it.half),
                of(|it| it.nearly)
            );
        }
    }
    release.delete(&[LOUD, QUIET]).await;
}

/// Calls of the neighbour, and looks at the app between them.
async fn measured(release: &Release) -> [Times; 2] {
    let (mut ran, mut looked) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let begun = Instant::now();
        let lines = release.run(QUIET, "try", &json!({})).await;
        ran.push(begun.elapsed());
        assert!(lines.contains("done"), "{lines}");
        let begun = Instant::now();
        let answer = release.client.get(format!("{}/livez", release.address)).send().await.unwrap();
        looked.push(begun.elapsed());
        assert!(answer.status().is_success());
        tokio::time::sleep(PAUSE).await;
    }
    [ran, looked].map(Times::of)
}

impl Times {
    fn of(mut all: Vec<Duration>) -> Self {
        let mut at = |part| percentile(&mut all, part).as_secs_f64() * 1e3;
        Self { half: at(0.5), nearly: at(0.99) }
    }
}
