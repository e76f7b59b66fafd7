//! Who of several operators works.

use std::convert::Infallible;
use std::time::Duration;

use famulus_lifecycle::OnExit;
use famulus_operator::health::Health;
use famulus_operator::leading;
use famulus_operator::lease::Candidate;
use hyper::Method;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{Cluster, How};

const SOON: Duration = Duration::from_secs(5);

fn candidate(cluster: &Cluster, identity: &str) -> Candidate {
    Candidate::new(cluster.client(), "system", "famulus-operator".into(), identity.into())
}

fn holder(cluster: &Cluster) -> serde_json::Value {
    cluster.get("leases", "famulus-operator").expect("the lease exists")["spec"]["holderIdentity"]
        .clone()
}

#[tokio::test(start_paused = true)]
async fn one_works_and_the_other_waits_until_it_is_given_back() {
    let cluster = Cluster::default();
    let (one, two) = (candidate(&cluster, "one"), candidate(&cluster, "two"));
    one.acquire().await;
    assert_eq!(holder(&cluster), "one");
    tokio::select! {
        biased;
        lost = one.hold() => panic!("{lost}"),
        () = two.acquire() => panic!("both work"),
        () = sleep(Duration::from_mins(2)) => {}
    }
    one.release().await;
    let before = Instant::now();
    two.acquire().await;
    assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
    assert_eq!(holder(&cluster), "two");
    assert_eq!(cluster.get("leases", "famulus-operator").unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_one_held_is_taken_after_fifteen_seconds() {
    let cluster = Cluster::default();
    candidate(&cluster, "dead").acquire().await;
    let before = Instant::now();
    candidate(&cluster, "two").acquire().await;
    let waited = before.elapsed();
    assert!((15..=16).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_renew_gives_up_before_another_may_take_it() {
    let cluster = Cluster::default();
    let one = candidate(&cluster, "one");
    one.acquire().await;
    for _ in 0..10 {
        cluster.fail(Method::GET, "leases", How::Silence);
    }
    let before = Instant::now();
    let lost = timeout(Duration::from_mins(1), one.hold()).await.expect("it gives up");
    assert!(lost.to_string().contains("the lease famulus-operator was lost"));
    assert_eq!(before.elapsed().as_secs(), 10, "others may take it after 15 s");
}

#[tokio::test(start_paused = true)]
async fn one_failure_is_no_loss_and_a_taken_lease_is() {
    let cluster = Cluster::default();
    let one = candidate(&cluster, "one");
    one.acquire().await;
    cluster.fail(Method::PUT, "leases", How::Status(500, "InternalError"));
    assert!(timeout(Duration::from_secs(30), one.hold()).await.is_err(), "it holds on");
    cluster.change("leases", "famulus-operator", |lease| {
        lease["spec"]["holderIdentity"] = json!("another");
    });
    assert!(timeout(Duration::from_secs(5), one.hold()).await.is_ok());
}

/// Notes when it is dropped.
struct Part<'a>(&'a Mutex<Vec<String>>, String);

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.0.lock().push(format!("{} is over", self.1));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_lost_the_lease_drops_its_work_and_begins_anew_when_it_is_free() {
    let cluster = Cluster::default();
    let (one, two) = (candidate(&cluster, "one"), candidate(&cluster, "two"));
    let log: &'static Mutex<Vec<String>> = Box::leak(Box::default());
    let (health, ends) = (Health::default(), tokio::sync::Notify::new());
    let mut times = 0;
    let lead = leading::lead(
        &one,
        &health,
        async || ends.notified().await,
        |tasks, stop| {
            times += 1;
            let (of_work, of_task) =
                (Part(log, format!("work {times}")), Part(log, format!("watch {times}")));
            log.lock().push(format!("work {times} begins"));
            tasks.spawn("watch", OnExit::Log, async move {
                let _held = of_task;
                std::future::pending::<()>().await;
            });
            Ok::<_, Infallible>(async move {
                let _held = of_work;
                stop.cancelled().await;
            })
        },
    );
    let meanwhile = async {
        sleep(Duration::from_secs(30)).await;
        for _ in 0..3 {
            cluster.fail(Method::GET, "leases", How::Silence);
        }
        // Its last renewal was at most 2 s ago.
        sleep(Duration::from_secs(13)).await;
        assert_eq!(*log.lock(), ["work 1 begins", "work 1 is over", "watch 1 is over"]);
        cluster.change("leases", "famulus-operator", |lease| {
            lease["spec"]["holderIdentity"] = json!("two");
        });
        sleep(Duration::from_secs(10)).await;
        assert_eq!(log.lock().len(), 3, "two has it");
        two.release().await;
        sleep(SOON).await;
        assert_eq!(log.lock()[3..], ["work 2 begins"]);
        ends.notify_one();
    };
    let (ended, ()) = tokio::join!(timeout(Duration::from_mins(5), lead), meanwhile);
    ended.expect("it ends").unwrap();
    assert_eq!(log.lock()[4..], ["work 2 is over", "watch 2 is over"]);
    assert_eq!(holder(&cluster), "", "it gave the lease back");
}
