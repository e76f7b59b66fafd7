//! Pods that send from their first instruction on: a policy is in force before a Pod is.

use std::collections::BTreeSet;

use famulus_cluster_tests::kubectl::{LONG, kubectl, objects, until};
use famulus_cluster_tests::release;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::outside::{Listeners, Taps};
use crate::places::Places;
use crate::rows::{BESIDE, image, make, pod, remove};

const PODS: usize = 200;

/// At once: as many as a node of two cores starts within seconds.
const BATCH: usize = 25;

/// The shell begins within a few milliseconds, with a packet to each; Python goes on for two seconds.
/// How many it sent stands where the kubelet reads it.
const SENDER: &str = r#"
for to in $TARGETS; do (echo x >/dev/udp/${to%:*}/${to#*:}) 2>/dev/null; done
exec python3 -I -S -c '
import os, socket, time
targets = [(host, int(port)) for host, port in
    (word.split(":") for word in os.environ["TARGETS"].split())]
sent, until = 0, time.monotonic() + 2
while time.monotonic() < until:
    for target in targets:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"x", target)
        with socket.socket() as end:
            end.setblocking(False)
            end.connect_ex(target)
        sent += 2
    time.sleep(0.01)
open("/dev/termination-log", "w").write(str(sent))
'
"#;

#[tokio::test]
async fn two_hundred_fresh_pods_send_nothing_that_arrives() {
    let _listeners = Listeners::start().await;
    let places = Places::find().await;
    let image = image().await;
    let sandbox = format!("{}-sandbox", release::name());
    let taps = Taps::start().await;
    let begun = Instant::now();
    let policies = policies_are_older(&sandbox).await;
    println!("{policies} policies are older than every Pod of a plugin");
    let mut sent = 0;
    let mut addresses = BTreeSet::new();
    let fresh = |batch: &str, one: usize| {
        // The three classes of Pods that there are, in turn.
        let row = one % 3;
        let mut shut: Vec<String> = Vec::new();
        for (_, (_, host, port)) in places.shut(row) {
            shut.push(format!("{host}:{port}"));
        }
        shut.sort();
        shut.dedup();
        let labels = json!({
            "famulus.dev/part": if row == 2 { "build" } else { "runner" },
            "famulus.dev/egress": if row == 0 { "none" } else { "internet" },
            "famulus.dev/callback": "allowed", "famulus.test/fresh": batch,
        });
        let mut pod =
            pod(&format!("fresh-{batch}-{one}"), &labels, &["bash", "-c", SENDER], &image);
        let targets = json!([{"name": "TARGETS", "value": shut.join(" ")}]);
        pod["spec"]["containers"][0]["env"] = targets;
        pod
    };
    for batch in 0..PODS / BATCH {
        let batch = batch.to_string();
        let pods = (0..BATCH).map(|one| fresh(&batch, one));
        make(&sandbox, &pods.collect::<Vec<_>>()).await;
        let what = format!("batch {batch} has sent");
        for pod in until(&what, LONG, async || ended(&sandbox, &batch, BATCH).await).await {
            sent += pod.1;
            addresses.insert(pod.0);
        }
        let of_batch = format!("famulus.test/fresh={batch}");
        kubectl(&["-n", &sandbox, "delete", "pods", "-l", &of_batch, "--wait=false"]).await;
    }
    println!(
        "{PODS} Pods at {} addresses tried {sent} packets in {} s",
        addresses.len(),
        begun.elapsed().as_secs()
    );
    let arrived = taps.seen(&addresses).await;
    assert!(arrived.is_empty(), "{} ways out: {arrived:#?}", arrived.len());

    // The same Pod where nobody is shut in: the taps would have seen it.
    let control = fresh("control", 0);
    make(BESIDE, &[control]).await;
    let control =
        until("the control has sent", LONG, async || ended(BESIDE, "control", 1).await).await;
    let arrived = taps.seen(&BTreeSet::from([control[0].0.clone()])).await;
    println!("the same Pod in another namespace: {} ways out", arrived.len());
    assert!(arrived.len() > 20, "{arrived:#?}");
    taps.end().await;
    remove().await;
}

/// How many policies there are, each older than all that they are about; times are RFC 3339 in UTC.
async fn policies_are_older(sandbox: &str) -> usize {
    let created =
        |object: &Value| object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    let policies = objects(sandbox, "networkpolicies", "").await;
    let newest = policies.iter().map(created).max().unwrap();
    let plugins = objects(sandbox, "plugins", "").await;
    let pods = objects(sandbox, "pods", "").await;
    let first = plugins.iter().chain(&pods).map(created).min().expect("the rows are there");
    assert!(newest <= first, "{newest}: {first}");
    policies.len()
}

/// The addresses of Pods that have ended, and how many packets each tried.
async fn ended(namespace: &str, batch: &str, all: usize) -> Result<Vec<(String, u64)>, String> {
    let pods = objects(namespace, "pods", &format!("famulus.test/fresh={batch}")).await;
    let ended = pods.iter().filter_map(|pod| {
        let status = &pod["status"];
        let end = &status["containerStatuses"][0]["state"]["terminated"];
        let sent = end["message"].as_str()?.parse().ok()?;
        Some((status["podIP"].as_str()?.to_owned(), sent))
    });
    let ended: Vec<_> = ended.filter(|(_, sent)| *sent > 0).collect();
    if ended.len() == all {
        return Ok(ended);
    }
    let phases: Vec<_> = pods.iter().map(|pod| pod["status"]["phase"].clone()).collect();
    Err(format!("{} of {all}: {phases:?}", ended.len()))
}
