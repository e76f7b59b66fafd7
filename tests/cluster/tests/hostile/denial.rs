//! Taking all there is: each attempt ends with an error that names what was taken, gives back what
//! it took, and leaves plugin, neighbour and app usable.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use famulus_cluster_tests::host::of_pod;
use famulus_cluster_tests::kubectl::until;
use famulus_cluster_tests::release::Release;

use crate::kinds::{Kind, classes, is_what_it_is, pod, program, run};

/// What is taken, and words of what the caller reads of it.
const ATTACKS: [(&str, &str); 8] = [
    ("forks", "more than 128, and was ended"),
    ("memory", "close to its memory limit and the tool was ended"),
    ("scratch", "No space left on device"),
    ("flood", "the output was cut: "),
    ("daemons", "processes that the tool left running were ended"),
    ("descriptors", "Too many open files"),
    ("threads", "can't start new thread"),
    ("deaf", "was not done after 30 s"),
];

/// What grows fastest may reach the container's memory before the runner has looked, on a busy
/// machine and in gVisor, whose own memory counts, too: then the node ends all of it, the caller is
/// told of which limit, and the next call finds it anew.
const WHOLE: &str = "took more memory than its limit of";

/// gVisor may need longer than a call has to come to its limit, on a busy machine: then time ends it.
const SLOW: &str = "was not done after 30 s";

/// From the end of a call until its Pod uses what it used before.
const BACK: Duration = Duration::from_mins(1);

/// Processes and bytes beyond what it had. gVisor keeps a pool of threads, and the pages of its one
/// file of memory are counted once in each of its processes.
fn allowed(kind: Kind) -> (usize, u64) {
    match kind {
        Kind::Host | Kind::User => (0, 16 << 20),
        Kind::Gvisor => (16, 256 << 20),
    }
}

/// What is tried day by day: all of it in the kind that an installation prefers, in the others what ends there
/// in another way. In gVisor forks and threads may take a processor for as long as a call lasts.
fn is_daily(kind: Kind, what: &str) -> bool {
    match kind {
        Kind::Host => ["memory", "daemons"].contains(&what),
        Kind::User => true,
        Kind::Gvisor => ["memory", "scratch", "daemons", "descriptors"].contains(&what),
    }
}

#[tokio::test]
async fn who_takes_all_there_is_gets_an_error_that_names_it_and_gives_it_back() {
    taken(is_daily).await;
}

/// Eight attacks in three kinds of Pods.
mod soak {
    #[tokio::test]
    async fn who_takes_all_there_is_in_any_kind_of_pod_gets_an_error_and_gives_it_back() {
        super::taken(|_, _| true).await;
    }
}

async fn taken(is_tried: fn(Kind, &str) -> bool) {
    classes().await;
    let release = Release::open().await;
    tokio::join!(
        all_of(&release, Kind::Host, is_tried),
        all_of(&release, Kind::User, is_tried),
        all_of(&release, Kind::Gvisor, is_tried)
    );
}

async fn all_of(release: &Release, kind: Kind, is_tried: fn(Kind, &str) -> bool) {
    let name = format!("denial-{}", kind.name());
    let run_py = include_str!("../../../plugins/denial/run.py");
    release.apply(&program(&name, kind, "attack", run_py, &json!({}))).await;
    release.condition(&name, "Ready=True").await;
    is_what_it_is(release, kind, &name).await;
    is_usable(release, &name).await;
    let pod = pod(release, &name).await;
    let (before, more) = (used(&pod), allowed(kind));
    for (what, words) in ATTACKS.into_iter().filter(|(what, _)| is_tried(kind, what)) {
        let begun = Instant::now();
        let said = run(release, &name, "attack", &json!({"what": what})).await;
        let took = begun.elapsed();
        let text = said.to_string();
        let whole = ["forks", "memory"].contains(&what) && text.contains(WHOLE);
        let slow =
            kind == Kind::Gvisor && ["forks", "threads"].contains(&what) && text.contains(SLOW);
        assert!(text.contains(words) || whole || slow, "{name}, {what}: {}", short(&said));
        until(&format!("{name} has given back {what}"), BACK, async || {
            let now = used(&pod);
            let is_back = now.0 <= before.0 + more.0 && now.1 <= before.1 + more.1;
            if is_back { Ok(()) } else { Err(format!("{now:?}, and {before:?} before")) }
        })
        .await;
        println!("{name}, {what}: ended after {took:?}, {:?} of {before:?}", used(&pod));
        is_usable(release, &name).await;
    }
    release.delete(&[&name]).await;
}

/// A call works, and finds nobody of an earlier one.
async fn is_usable(release: &Release, name: &str) {
    let said = run(release, name, "attack", &json!({"what": "others"})).await;
    assert_eq!(said["output"]["text"], "[]", "{name}: {said}");
}

/// Processes of a Pod and the memory that they hold, as the node sees it.
fn used(pod: &Value) -> (usize, u64) {
    let pages = of_pod(pod).into_iter().map(|pid| {
        let sizes = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        sizes.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0)
    });
    pages.fold((0, 0), |(count, bytes), pages| (count + 1, bytes + pages * 4096))
}

/// The beginning of it: an answer may be a MiB.
fn short(said: &Value) -> String {
    said.to_string().chars().take(2000).collect()
}
