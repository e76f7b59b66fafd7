//! What is told of secrets where nothing may be told of them: after a conversation in which all of them
//! were used, everything that can be read is searched.

use std::fmt::Write as _;

use reqwest::Method;
use serde_json::json;

use famulus_cluster_tests::helm::helm;
use famulus_cluster_tests::kubectl::{LONG, kubectl, objects, tried, until};
use famulus_cluster_tests::release::Release;

use super::canary::Canary;
use super::install::{NAME, content};
use super::{KEEPER, database, guides};

/// A place and what is read there.
type Read = (String, String);

pub(super) async fn secrets(release: &Release, canaries: &[Canary]) {
    use_all(release).await;
    let mut canaries: Vec<&Canary> = canaries.iter().collect();
    let (mounted, bearer) = bearer(release).await;
    canaries.push(&bearer);
    let read = everything(release).await;
    // What was searched holds what a search must find.
    for (place, text) in
        [("log of model", "refused with"), ("database", "api_key"), ("plugins", KEEPER)]
    {
        let is_there = |(name, content): &&Read| name.contains(place) && content.contains(text);
        assert!(read.iter().any(|read| is_there(&read)), "{place} lacks {text}");
    }
    let mut hits = String::new();
    for canary in &canaries {
        for (place, text) in &read {
            for spelling in canary.in_text(text) {
                let _infallible = writeln!(hits, "{}: {place} has {spelling}", canary.name);
            }
        }
    }
    assert_eq!(hits, "", "of {} secrets in {} places", canaries.len(), read.len());
    in_their_places(&canaries).await;
    assert!(mounted.contains(&bearer.value));
}

/// A conversation in which model, webhook, database and plugin are used, well and badly.
async fn use_all(release: &Release) {
    release.condition(KEEPER, "Ready=True").await;
    let digest = guides::output(release, KEEPER, "use", &json!({})).await;
    assert!(digest.starts_with("{\"digest\": "), "{digest}");
    let reply = release.chat("run use of keeper").await;
    assert!(reply.contains(&digest), "{reply}");
    let reply = release.chat("run fail of keeper").await;
    assert!(reply.contains("refused with"), "{reply}");
    let reply = release.chat("run use of keeper with {\"api_key\": 1}").await;
    assert!(reply.contains("api_key"), "{reply}");
    let reply = release.chat("run later of keeper").await;
    assert!(reply.contains("is running; its call id is"), "{reply}");
    release.hears("The result of call").await;
    // A wrong token is refused, and nobody says what the right one is.
    let request = release.client.get(format!("{}/v1/me", release.address));
    let wrong = request.bearer_auth("canary-of+the/token=wrong").send().await.unwrap();
    assert_eq!(wrong.status(), 401);
    let body = json!({"message": "Hello", "async": true});
    let (status, answer) = release.ask(Method::POST, "/chat", Some(&body)).await;
    assert!((200..300).contains(&status), "{answer}");
    until("the webhook is told", LONG, async || {
        let log = kubectl(&["-n", NAME, "logs", "model"]).await;
        if log.contains("x-famulus-signature") { Ok(()) } else { Err(log) }
    })
    .await;
}

/// What proves the runner of the plugin to the app: the Secret that holds it, and itself.
async fn bearer(release: &Release) -> (String, Canary) {
    let name = format!("{KEEPER}-mounted");
    let secrets = objects(&release.sandbox, "secrets", "").await;
    let mounted = secrets.iter().find(|secret| secret["metadata"]["name"] == *name).unwrap();
    let own = json!({"data": {"bearer": mounted["data"]["bearer"]}});
    let value = content(&own).trim().to_owned();
    assert!(value.len() > 20, "{mounted}");
    let places = vec![format!("{}/{name}", release.sandbox)];
    (content(mounted), Canary { name: "bearer", value, places })
}

/// Logs, objects, measurements, database, transcript, what the model was sent, and the release.
async fn everything(release: &Release) -> Vec<Read> {
    let mut read = Vec::new();
    for namespace in [NAME, &release.sandbox] {
        for pod in objects(namespace, "pods", "").await {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let log =
                ["-n", namespace, "logs", name, "--all-containers", "--prefix", "--ignore-errors"];
            match tried(&log).await {
                Ok(said) => read.push((format!("log of {name}"), said)),
                // A build that was done meanwhile.
                Err(complaint) => assert!(complaint.contains("not found"), "{complaint}"),
            }
        }
        for kind in KINDS {
            let said = kubectl(&["-n", namespace, "get", kind, "-o", "yaml"]).await;
            read.push((format!("{kind} of {namespace}"), said));
        }
    }
    for pod in objects(NAME, "pods", "app.kubernetes.io/component=operator").await {
        let address = pod["status"]["podIP"].as_str().unwrap();
        let metrics = release.client.get(format!("http://{address}:8080/metrics"));
        let metrics = metrics.send().await.unwrap().text().await.unwrap();
        assert!(metrics.contains("# TYPE"), "{metrics}");
        read.push(("metrics of the operator".to_owned(), metrics));
    }
    let metrics = release.metrics().await;
    assert!(metrics.contains("# TYPE"), "{metrics}");
    read.push(("metrics of the app".to_owned(), metrics));
    read.push(("database".to_owned(), database::inside(DUMP).await));
    let (_, messages) = release.ask(Method::GET, &release.messages(), None).await;
    read.push(("transcript".to_owned(), messages.to_string()));
    let (_, plugins) = release.ask(Method::GET, "/v1/plugins", None).await;
    read.push(("what the API says of plugins".to_owned(), plugins.to_string()));
    read.push(("the release".to_owned(), helm(&["get", "all", NAME, "-n", NAME]).await));
    read
}

const DUMP: &str = "exec /usr/lib/postgresql/*/bin/pg_dumpall -U postgres";

const KINDS: [&str; 14] = [
    "configmaps",
    "controllerrevisions",
    "deployments",
    "endpointslices",
    "events",
    "jobs",
    "leases",
    "networkpolicies",
    "persistentvolumeclaims",
    "plugins",
    "pods",
    "replicasets",
    "serviceaccounts",
    "statefulsets",
];

/// The Secrets that hold each are those where it belongs, and no others.
async fn in_their_places(canaries: &[&Canary]) {
    let mut secrets: Vec<(String, String)> = Vec::new();
    for namespace in [NAME.to_owned(), format!("{NAME}-sandbox")] {
        for secret in objects(&namespace, "secrets", "").await {
            let name = format!("{namespace}/{}", secret["metadata"]["name"].as_str().unwrap());
            secrets.push((name, content(&secret)));
        }
    }
    for canary in canaries {
        let holds = |(_, content): &&(String, String)| !canary.in_text(content).is_empty();
        let found: Vec<&String> = secrets.iter().filter(holds).map(|(name, _)| name).collect();
        assert_eq!(found, canary.places.iter().collect::<Vec<_>>(), "{}", canary.name);
    }
}
