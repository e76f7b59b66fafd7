//! The whole container of a runner is killed, as a kernel with cgroup v2 does when one of its
//! processes takes too much memory: the call that ran names the limit, the next finds the plugin anew, and a
//! neighbour's call goes on meanwhile.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use famulus_cluster_tests::host::{kill_all, kill_container, of_pod};
use famulus_cluster_tests::kubectl::{LONG, until};
use famulus_cluster_tests::release::Release;

use crate::kinds::{Kind, classes, is_what_it_is, pod, program, run};

const NEIGHBOUR: &str = "calm";

/// Sleeps as long as it is told, and says so.
const SLEEP: &str = "#!/usr/bin/env python3\nimport json, sys, time\n\
    what = json.load(sys.stdin)[\"what\"]\ntime.sleep(float(what))\nprint(json.dumps(what))\n";

#[tokio::test]
async fn a_runner_whose_whole_container_is_killed_is_named_and_comes_back() {
    classes().await;
    let release = Release::open().await;
    release.apply(&sleeper(NEIGHBOUR, Kind::User)).await;
    tokio::join!(of(&release, Kind::Host), of(&release, Kind::User), of(&release, Kind::Gvisor));
    release.delete(&[NEIGHBOUR]).await;
}

async fn of(release: &Release, kind: Kind) {
    let name = format!("ended-{}", kind.name());
    release.apply(&sleeper(&name, kind)).await;
    for (one, its) in [(&*name, kind), (NEIGHBOUR, Kind::User)] {
        release.condition(one, "Ready=True").await;
        is_what_it_is(release, its, one).await;
        sleeps(release, one, "0").await;
    }
    let killed = pod(release, &name).await;
    let before = of_pod(&killed).len();
    let lost = async {
        let said = run(release, &name, "sleep", &json!({"what": "25"})).await;
        let limit = &killed["spec"]["containers"][0]["resources"]["limits"]["memory"];
        let words = format!("took more memory than its limit of {}", limit.as_str().unwrap());
        assert!(said.to_string().contains(&words), "{name}: {said}");
    };
    let kill = async {
        until(&format!("{name} runs"), LONG, async || {
            let now = of_pod(&killed).len();
            // In gVisor the machine sees no process of a tool: then the call is given its time.
            if now > before || kind == Kind::Gvisor { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        match kind {
            Kind::Host | Kind::User => {
                let selector = format!("famulus.dev/plugin={name},famulus.dev/part=runner");
                kill_container(&release.sandbox, &selector).await;
            }
            Kind::Gvisor => kill_all(&killed),
        }
        Instant::now()
    };
    let beside = async {
        sleeps(release, NEIGHBOUR, "20").await;
        Instant::now()
    };
    let ((), at, over) = tokio::join!(lost, kill, beside);
    assert!(at < over, "the neighbour's call was over before {name} was killed");
    sleeps(release, &name, "0").await;
    release.delete(&[&name]).await;
}

/// Without a volume, which would take time and stands in no way of this.
fn sleeper(name: &str, kind: Kind) -> String {
    program(name, kind, "sleep", SLEEP, &json!({"state": "Ephemeral"}))
}

async fn sleeps(release: &Release, name: &str, seconds: &str) {
    let said = run(release, name, "sleep", &json!({"what": seconds})).await;
    assert_eq!(said["output"]["text"], json!(seconds).to_string(), "{name}: {said}");
}
