//! What a plugin keeps, given to backups and taken from them.

use std::fs;

use famulus_protocol::{Kind, Problem, paths};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::house::{House, KEEPER, MANIFEST, tool};
use crate::support::{BEARER, Runner, json_of, text_of, until};
use crate::switching::{ready, says, serves};

/// Counts its calls in a file of the plugin's, with a home beside it.
const COUNT: &str = "#!/bin/sh\necho . >> ../counted\necho . >> $HOME/counted\n\
    echo \"{\\\"tree\\\": $(wc -l < ../counted), \\\"home\\\": $(wc -l < $HOME/counted)}\"\n";
/// Says that it began, and ends when it is let.
const SLOW: &str = "#!/bin/sh\n: > ../began\nuntil [ -e ../end ]; do sleep 0.05; done\necho done\n";

async fn house() -> (House, String) {
    let house = House::new().await;
    let (count, slow) = (tool("count"), tool("slow"));
    let files = [
        ("manifest.json", MANIFEST),
        ("count/manifest.json", &count),
        ("count/run", COUNT),
        ("slow/manifest.json", &slow),
        ("slow/run", SLOW),
    ];
    let revision = house.make(&files).await;
    (house, revision)
}

async fn count(runner: &Runner, id: &str) -> Value {
    json_of(&runner.run(id, "count", json!({})).await)
}

async fn given(runner: &Runner) -> Vec<u8> {
    let response = runner.keep(KEEPER, Method::GET, paths::OWN_FILES, Vec::new()).await;
    assert_eq!(response.status(), StatusCode::OK);
    response.bytes().await.unwrap().to_vec()
}

async fn problem(response: reqwest::Response) -> Kind {
    response.json::<Problem>().await.unwrap().kind
}

#[tokio::test]
async fn what_a_plugin_keeps_is_given_to_the_bearer_of_backups_alone() {
    let (house, revision) = house().await;
    house.mount(1, Some(&revision), &json!({"token": "of the owner"}), BEARER);
    let runner = house.serve(&[]);
    ready(&runner).await;
    for path in [paths::OWN_FILES, paths::CONFIGURATION] {
        for bearer in [BEARER, "", "the-bearer-of-backup"] {
            let refused = runner.keep(bearer, Method::GET, path, Vec::new()).await;
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{path} {bearer:?}");
        }
    }
    let refused = runner.keep(KEEPER, Method::GET, paths::HEALTH, Vec::new()).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "it is for nothing else");
    let given = runner.keep(KEEPER, Method::GET, paths::CONFIGURATION, Vec::new()).await;
    assert_eq!(given.json::<Value>().await.unwrap(), json!({"token": "of the owner"}));
    // Nothing is taken that is not waited for.
    let refused = runner.keep(KEEPER, Method::PUT, paths::OWN_FILES, vec![0; 1024]).await;
    assert_eq!(problem(refused).await, Kind::Invalid);
}

#[tokio::test]
async fn files_come_back_before_the_first_call_and_once() {
    let (old, revision) = house().await;
    old.mount(1, Some(&revision), &json!({}), BEARER);
    let runner = old.serve(&[]);
    ready(&runner).await;
    for calls in 1..=2 {
        assert_eq!(
            count(&runner, &format!("c{calls}")).await,
            json!({"tree": calls, "home": calls})
        );
    }
    // They are given as they are between two calls.
    let (slow, files) = tokio::join!(runner.run("slow", "slow", json!({})), async {
        until("it runs", || old.path("plugins/test/began").exists()).await;
        let (files, ()) = tokio::join!(given(&runner), async {
            fs::write(old.path("plugins/test/end"), "").unwrap();
        });
        files
    });
    assert_eq!(text_of(&slow).trim(), "done");
    drop(runner);

    let (new, again) = house().await;
    assert_eq!(again, revision);
    new.mount_for(1, None, &json!({}), BEARER, Some("a backup"));
    let mut runner = new.serve(&[]);
    let early = runner.keep(KEEPER, Method::PUT, paths::OWN_FILES, files.clone()).await;
    assert_eq!(problem(early).await, Kind::NotReady, "no revision is there to have files");
    new.mount_for(2, Some(&revision), &json!({}), BEARER, Some("a backup"));
    serves(&runner, &revision).await;
    let (status, refused) = runner.refusal("early", "count", json!({})).await;
    assert_eq!((status, refused.kind), (StatusCode::SERVICE_UNAVAILABLE, Kind::NotReady));
    assert!(refused.detail.contains("a backup") && refused.detail.contains("restored-from"));
    // One that breaks off does not count.
    let torn = files[..files.len() - 1024 - 300].to_vec();
    let torn = runner.keep(KEEPER, Method::PUT, paths::OWN_FILES, torn).await;
    assert_eq!(problem(torn).await, Kind::Internal);
    assert_eq!(
        runner.send_as(None, Method::GET, paths::ALIVE).await,
        StatusCode::SERVICE_UNAVAILABLE
    );
    let taken = runner.keep(KEEPER, Method::PUT, paths::OWN_FILES, files.clone()).await;
    assert_eq!(taken.status(), StatusCode::NO_CONTENT, "{}", taken.text().await.unwrap());
    ready(&runner).await;
    assert_eq!(count(&runner, "c1").await, json!({"tree": 3, "home": 3}));
    // Whoever asks again does no harm, and a successor knows that they came.
    let taken = runner.keep(KEEPER, Method::PUT, paths::OWN_FILES, files.clone()).await;
    assert_eq!(taken.status(), StatusCode::NO_CONTENT);
    assert_eq!(count(&runner, "c2").await, json!({"tree": 4, "home": 4}));
    runner.kill();
    let runner = new.serve(&[]);
    ready(&runner).await;
    assert_eq!(count(&runner, "c3").await, json!({"tree": 5, "home": 5}));
}

#[tokio::test]
async fn an_owner_may_go_on_without_the_files() {
    let (house, revision) = house().await;
    house.mount_for(1, Some(&revision), &json!({}), BEARER, Some("a backup"));
    let runner = house.serve(&[]);
    serves(&runner, &revision).await;
    assert_eq!(
        runner.send_as(None, Method::GET, paths::ALIVE).await,
        StatusCode::SERVICE_UNAVAILABLE
    );
    house.mount(2, Some(&revision), &json!({}), BEARER);
    says(&runner, "the mount is read", |health| health.rendered == Some(2)).await;
    ready(&runner).await;
    assert_eq!(count(&runner, "c1").await, json!({"tree": 1, "home": 1}));
}
