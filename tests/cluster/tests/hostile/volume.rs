//! Filling a volume: who does it is ended and told so, its next call is refused with the remedy, the
//! neighbour's volume is as it was, and the remedy works.

use futures::future::join_all;
use serde_json::json;

use famulus_cluster_tests::kubectl::{LONG, until};
use famulus_cluster_tests::release::Release;

use crate::kinds::{Kind, classes, is_what_it_is, long, plugin, run, tool};

/// What fills it, and what the next call reads of it.
const WAYS: [(&str, &str); 2] = [("fill", "bytes"), ("files", "files")];

/// Day by day in the kind that an installation prefers.
#[tokio::test]
async fn who_fills_its_volume_is_ended_and_nobody_else_notices() {
    let release = Release::open().await;
    tokio::join!(of(&release, Kind::User), hidden(&release));
}

/// The other kinds of Pods.
mod soak {
    use super::{Kind, Release, classes, of};

    #[tokio::test]
    async fn who_fills_its_volume_in_another_kind_of_pod_is_ended_and_nobody_else_notices() {
        classes().await;
        let release = Release::open().await;
        tokio::join!(of(&release, Kind::Host), of(&release, Kind::Gvisor));
    }
}

async fn of(release: &Release, kind: Kind) {
    let neighbour = format!("frugal-{}", kind.name());
    release.apply(&filler(&neighbour, kind)).await;
    let ways = match kind {
        Kind::Host | Kind::User => &WAYS[..],
        // So many names take longer there than a call may take.
        Kind::Gvisor => &WAYS[..1],
    };
    tokio::join!(join_all(ways.iter().map(|way| filled(release, kind, *way))), async {
        release.condition(&neighbour, "Ready=True").await;
        is_what_it_is(release, kind, &neighbour).await;
        keeps(release, &neighbour).await;
    });
    keeps(release, &neighbour).await;
    release.delete(&[&neighbour]).await;
}

async fn filled(release: &Release, kind: Kind, (what, of_what): (&str, &str)) {
    let name = format!("{what}-{}", kind.name());
    release.apply(&filler(&name, kind)).await;
    release.condition(&name, "Ready=True").await;
    is_what_it_is(release, kind, &name).await;
    let said = run(release, &name, "keep", &json!({"what": what})).await;
    assert!(said.to_string().contains("became more than they may be"), "{name}: {said}");
    let lines = release.run(&name, "keep", &json!({"what": "note"})).await;
    assert!(
        lines.contains("the plugin's own files and caches are more than")
            && lines.contains(of_what)
            && lines.contains("delete the plugin's volume"),
        "{name}: {lines}"
    );
    if kind == Kind::User {
        empty(release, &name).await;
    }
    release.delete(&[&name]).await;
}

/// The disk of a volume knows of what no walk finds. With the process it is gone.
async fn hidden(release: &Release) {
    let name = "hidden-user";
    release.apply(&filler(name, Kind::User)).await;
    release.condition(name, "Ready=True").await;
    is_what_it_is(release, Kind::User, name).await;
    let said = run(release, name, "keep", &json!({"what": "hidden"})).await;
    assert!(said.to_string().contains("became more than they may be"), "{name}: {said}");
    until(&format!("{name} is called again"), LONG, async || {
        let lines = release.run(name, "keep", &json!({"what": "note"})).await;
        if lines.contains("kept") { Ok(()) } else { Err(lines) }
    })
    .await;
    release.delete(&[name]).await;
}

/// What anybody does with a volume.
async fn keeps(release: &Release, name: &str) {
    let said = run(release, name, "keep", &json!({"what": "note"})).await;
    assert_eq!(said["output"]["text"], "\"kept\"", "{name}: {said}");
}

fn filler(name: &str, kind: Kind) -> String {
    // A volume takes its time to fill on a busy machine.
    let manifest = long(&tool("keep", "run.py", &["what"]));
    let files =
        [("keep/manifest.json", &*manifest), ("keep/run.py", include_str!("volume/run.py"))];
    plugin(name, kind, &files, &json!({}))
}

/// Does what the refusal says: the volume goes although a runner is up, and a new one comes.
async fn empty(release: &Release, name: &str) {
    release.empty(name).await;
    until(&format!("{name} runs on a new volume"), LONG, async || {
        let lines = release.run(name, "keep", &json!({"what": "note"})).await;
        if lines.contains("kept") { Ok(()) } else { Err(lines) }
    })
    .await;
}
