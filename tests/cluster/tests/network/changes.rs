//! While policies change, nothing is open that is shut before and after.

use std::time::Duration;

use famulus_cluster_tests::helm::{CHART, VALUES, helm};
use famulus_cluster_tests::kubectl::{LONG, kubectl, objects, until};
use famulus_cluster_tests::release;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::outside::Listeners;
use crate::places::Places;
use crate::rows::{Watch, feed, remove};

/// How long a policy is away. An enforcer takes some milliseconds to see it.
const AWAY: Duration = Duration::from_millis(700);

/// So that the next upgrade finds its own.
pub(crate) const AS_HELM: [&str; 4] =
    ["apply", "--server-side", "--field-manager=helm", "--force-conflicts"];

/// Another build host, another public address of the cluster, and somebody who reads metrics.
const OTHERS: [&str; 3] = [
    r#"network.buildHosts=[{"host": "house.example", "cidr": "192.168.77.7/32", "port": 80}]"#,
    r#"network.clusterRanges=["198.51.100.1/32"]"#,
    r#"network.metricsFrom=[{"namespaceSelector": {"matchLabels": {"who": "nobody"}}}]"#,
];

/// What [`OTHERS`] make of the table: row, cell, open.
const THEN: [(&str, &str, bool); 7] = [
    ("row-build", "tcp house", true),
    ("row-internet", "tcp api from outside", false),
    ("row-build", "tcp api from outside", false),
    ("row-internet", "tcp node from outside", false),
    ("row-internet", "udp node from outside", false),
    ("row-build", "tcp node from outside", false),
    ("row-build", "udp node from outside", false),
];

#[tokio::test]
async fn nothing_opens_while_policies_are_exchanged() {
    let _listeners = Listeners::start().await;
    let mut places = Places::find().await;
    holds(&places, "before").await;
    // What is shut before and after; the rest may be either meanwhile.
    let changed = |name: &str| THEN.iter().any(|(_, cell, _)| name == *cell);
    let mut watched: Vec<(Watch, Vec<String>)> = Vec::new();
    for (number, row) in places.rows.iter().enumerate() {
        let shut = places.shut(number).into_iter().filter(|(name, _)| !changed(name));
        let (names, cells): (Vec<_>, Vec<_>) = shut.unzip();
        watched.push((row.watch(&cells).await, names));
    }
    let begun = Instant::now();

    let release = release::name();
    for namespace in [format!("{release}-sandbox"), release] {
        for policy in objects(&namespace, "networkpolicies", "").await {
            let name = policy["metadata"]["name"].as_str().unwrap();
            if name.ends_with("default-deny") {
                continue;
            }
            kubectl(&["-n", &namespace, "delete", "networkpolicy", name]).await;
            sleep(AWAY).await;
            feed(&AS_HELM, &bare(&policy)).await;
        }
    }
    println!("policies deleted and made again: {} s", begun.elapsed().as_secs());
    upgrade(&OTHERS).await;
    for (row, cell, open) in THEN {
        places.expect(row, cell, open);
    }
    places.look_up().await;
    holds(&places, "with other values").await;
    upgrade(&[]).await;
    for (row, cell, open) in THEN {
        places.expect(row, cell, !open);
    }

    let took = begun.elapsed().as_millis() as u64;
    for (watch, names) in watched {
        let row = watch.row.clone();
        let (rounds, heard) = watch.end().await;
        // Outside of the sandbox packets go out, also to where a Pod was until a moment ago.
        let is_free = ["row-beside", "row-release"].contains(&row.as_str());
        let counts = |what: &str| !(is_free && what == "No route to host");
        let heard = heard.iter().filter(|(_, what)| counts(what));
        let heard: Vec<String> =
            heard.map(|(number, what)| format!("{}: {what}", names[*number])).collect();
        println!("{row}: {} cells, each tried every {} ms", names.len(), took / rounds.max(1));
        assert!(heard.is_empty(), "{row}: {heard:#?}");
        assert!(rounds > 100, "{row} watched: {rounds}");
    }
    places.look_up().await;
    holds(&places, "after").await;
    remove().await;
}

/// The table comes true, at once or when the enforcer has seen a change.
async fn holds(places: &Places, when: &str) {
    until(&format!("the table holds {when}"), LONG, async || {
        let wrong = places.wrong().await;
        if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:#?}")) }
    })
    .await;
}

/// Without what the API server wrote into it.
pub(crate) fn bare(policy: &Value) -> Value {
    let mut bare = policy.clone();
    let metadata = bare["metadata"].as_object_mut().unwrap();
    metadata
        .retain(|key, _| ["name", "namespace", "labels", "annotations"].contains(&key.as_str()));
    bare
}

/// `helm upgrade` to the values of the tests and these.
async fn upgrade(values: &[&str]) {
    let begun = Instant::now();
    let release = release::name();
    let mut words = vec!["upgrade", &release, CHART, "-f", VALUES];
    words.extend(["--reset-values", "--wait", "--timeout", "10m"]);
    words.extend(values.iter().flat_map(|value| ["--set-json", value]));
    helm(&words).await;
    println!("helm upgrade: {} s", begun.elapsed().as_secs());
}
