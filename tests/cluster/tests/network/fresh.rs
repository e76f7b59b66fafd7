//! Pods that send from their first instruction on: a policy is in force before a Pod is.
//!
//! What was sent is known by its address, and an address is a Pod's for a time only. So a Pod keeps
//! its own until what it sent was looked at, nothing counts that was sent before it was made, and
//! nobody else may have had the address meanwhile.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;

use famulus_cluster_tests::kubectl::{self, LONG, kubectl, objects, until};
use famulus_cluster_tests::release;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::time::Instant;

use crate::outside::{Listeners, Taps};
use crate::places::Places;
use crate::rows::{BESIDE, image, make, pod, remove};

/// At once: as many as a node of two cores starts within seconds, beside another node.
const BATCH: usize = 15;

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
async fn fresh_pods_send_nothing_that_arrives() {
    send_nothing_that_arrives(45).await;
}

pub(crate) mod soak {
    #[tokio::test]
    async fn two_hundred_fresh_pods_send_nothing_that_arrives() {
        super::send_nothing_that_arrives(200).await;
    }
}

async fn send_nothing_that_arrives(all: usize) {
    let _listeners = Listeners::start().await;
    let places = Places::find().await;
    let image = image().await;
    let sandbox = format!("{}-sandbox", release::name());
    let mut taps = Taps::start().await;
    let begun = Instant::now();
    let policies = policies_are_older(&sandbox).await;
    println!("{policies} policies are older than every Pod of a plugin");
    let (mut sent, mut made) = (0, 0);
    while made < all {
        let size = BATCH.min(all - made);
        let batch = format!("after-{made}");
        let others = Others::watch(&places.rows[0].name).await;
        taps.forget().await;
        let pods = (0..size).map(|one| fresh(&places, &image, &batch, one));
        make(&sandbox, &pods.collect::<Vec<_>>()).await;
        let what = format!("batch {batch} has sent");
        let ended = until(&what, LONG, async || ended(&sandbox, &batch, size).await).await;
        let addresses: BTreeSet<String> =
            ended.iter().map(|(address, _)| address.clone()).collect();
        assert_eq!(addresses.len(), size, "each has an address of its own: {addresses:?}");
        let arrived = taps.seen(&addresses).await;
        assert_eq!(others.had(&addresses), BTreeSet::new(), "somebody else had an address, too");
        assert!(arrived.is_empty(), "{} ways out: {arrived:#?}", arrived.len());
        sent += ended.iter().map(|(_, sent)| sent).sum::<u64>();
        made += size;
        let of_batch = format!("famulus.test/fresh={batch}");
        kubectl(&["-n", &sandbox, "delete", "pods", "-l", &of_batch, "--wait=false"]).await;
    }
    println!("{all} Pods tried {sent} packets in {} s", begun.elapsed().as_secs());

    // The same Pod where nobody is shut in: the taps would have seen it.
    taps.forget().await;
    make(BESIDE, &[fresh(&places, &image, "control", 0)]).await;
    let control =
        until("the control has sent", LONG, async || ended(BESIDE, "control", 1).await).await;
    let arrived = taps.seen(&BTreeSet::from([control[0].0.clone()])).await;
    println!("the same Pod in another namespace: {} ways out", arrived.len());
    assert!(arrived.len() > 20, "{arrived:#?}");
    taps.end().await;
    remove().await;
}

/// A Pod of one of the three classes that there are, in turn, which tries all that is shut to it. When
/// it has, a second container keeps its address.
fn fresh(places: &Places, image: &str, batch: &str, one: usize) -> Value {
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
    let name = format!("fresh-{batch}-{one}");
    let mut pod = pod(&name, &labels, &["bash", "-c", SENDER], image);
    let containers = &mut pod["spec"]["containers"];
    let mut keeper = containers[0].clone();
    keeper["name"] = "keeper".into();
    keeper["command"] = json!(["sleep", "infinity"]);
    containers[0]["env"] = json!([{"name": "TARGETS", "value": shut.join(" ")}]);
    containers.as_array_mut().unwrap().push(keeper);
    pod
}

/// The addresses of all other Pods of the cluster, from now on.
struct Others {
    /// Address and name of each Pod that had not ended.
    seen: Arc<Mutex<BTreeSet<(String, String)>>>,
    _watch: Child,
}

impl Others {
    /// Watches. This Pod is there already: when it was told of, the watch stands.
    async fn watch(there: &str) -> Self {
        const TOLD: &str = r#"jsonpath={.status.podIP} {.metadata.name} {.status.phase}{"\n"}"#;
        let mut watch = kubectl::command(&["get", "pods", "-A", "--watch", "-o", TOLD]);
        let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let seen: Arc<Mutex<BTreeSet<(String, String)>>> = Arc::default();
        let to = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                // One without an address has not begun. One that has ended sends nothing.
                if let [address, name, "Pending" | "Running" | "Unknown"] =
                    *line.split_whitespace().collect::<Vec<_>>()
                {
                    to.lock().insert((address.to_owned(), name.to_owned()));
                }
            }
        });
        let others = Self { seen, _watch: watch };
        until("Pods are watched", LONG, async || {
            let seen = others.seen.lock();
            let is_told = seen.iter().any(|(_, name)| name == there);
            if is_told { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        others
    }

    /// Those that had one of these addresses.
    fn had(&self, addresses: &BTreeSet<String>) -> BTreeSet<(String, String)> {
        let seen = self.seen.lock();
        let is_other = |(address, name): &&(String, String)| {
            addresses.contains(address) && !name.starts_with("fresh-")
        };
        seen.iter().filter(is_other).cloned().collect()
    }
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

/// The addresses of Pods that have sent, and how many packets each tried.
async fn ended(namespace: &str, batch: &str, all: usize) -> Result<Vec<(String, u64)>, String> {
    let pods = objects(namespace, "pods", &format!("famulus.test/fresh={batch}")).await;
    let ended = pods.iter().filter_map(|pod| {
        let status = &pod["status"];
        let sender =
            status["containerStatuses"].as_array()?.iter().find(|one| one["name"] == "row")?;
        let sent = sender["state"]["terminated"]["message"].as_str()?.parse().ok()?;
        Some((status["podIP"].as_str()?.to_owned(), sent))
    });
    let ended: Vec<_> = ended.filter(|(_, sent)| *sent > 0).collect();
    if ended.len() == all {
        return Ok(ended);
    }
    let phases: Vec<_> = pods.iter().map(|pod| pod["status"]["phase"].clone()).collect();
    Err(format!("{} of {all}: {phases:?}", ended.len()))
}
