//! What a tool leaves behind: regular files of plain names, within bounds, and nothing else of the
//! machine by way of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use famulus_cluster_tests::kubectl::objects;
use famulus_cluster_tests::release::Release;

use crate::kinds::{Kind, classes, is_what_it_is, program, run};

#[tokio::test]
async fn files_that_lead_elsewhere_are_left_behind_and_huge_ones_are_not_taken() {
    classes().await;
    let release = Release::open().await;
    tokio::join!(of(&release, Kind::Host), of(&release, Kind::User), of(&release, Kind::Gvisor));
}

async fn of(release: &Release, kind: Kind) {
    let name = format!("outputs-{}", kind.name());
    let run_py = include_str!("outputs/run.py");
    release.apply(&program(&name, kind, "leave", run_py, &json!({}))).await;
    release.condition(&name, "Ready=True").await;
    is_what_it_is(release, kind, &name).await;
    let leave = async |what: &str| {
        let said = run(release, &name, "leave", &json!({"what": what})).await;
        assert_eq!(said["output"]["text"], "\"left\"", "{name}, {what}: {said}");
        said
    };

    let said = leave("tricks").await;
    // A name that says where to, on another system, is replaced.
    assert_eq!(names(&said), ["file-0", "plain.txt"], "{name}: {said}");
    let notes = said["notes"].to_string();
    assert!(notes.contains("links, and what is no regular file, are not taken"), "{name}: {said}");

    for (what, note) in [("many", "100 files"), ("sparse", "none was taken")] {
        let said = leave(what).await;
        assert!(names(&said).is_empty(), "{name}, {what}: {said}");
        assert!(said["notes"].to_string().contains(note), "{name}, {what}: {said}");
    }
    let said = leave("swapped").await;
    assert!(names(&said).is_empty(), "{name}: {said}");

    let secrets = objects(&release.sandbox, "secrets", &format!("famulus.dev/plugin={name}")).await;
    let bearers = secrets.iter().filter_map(|one| one["data"]["bearer"].as_str());
    for bearer in bearers {
        let bearer = String::from_utf8(STANDARD.decode(bearer).unwrap()).unwrap();
        assert!(!said.to_string().contains(bearer.trim()), "{name}: {said}");
    }
    release.delete(&[&name]).await;
}

fn names(said: &Value) -> Vec<&str> {
    let files = said["files"].as_array().unwrap();
    files.iter().map(|file| file[0].as_str().unwrap_or_else(|| panic!("{said}"))).collect()
}
