//! Nobody sees, changes or stops what is somebody else's.

use crate::world::{self, Client, Do, Puppet, Setup, Text as _, client, say};
use reqwest::Method;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Each list that a person has, and its name in the answer.
const LISTS: [(&str, &str); 4] = [
    ("/v1/conversations", "conversations"),
    ("/v1/knowledge", "knowledge"),
    ("/v1/schedules", "schedules"),
    ("/v1/approvals", "approvals"),
];

async fn lengths(who: &Client) -> Vec<usize> {
    let mut lengths = Vec::new();
    for (path, name) in LISTS {
        lengths.push(who.get(path).await.ok()[name].as_array().unwrap().len());
    }
    lengths
}

#[tokio::test(flavor = "multi_thread")]
async fn another_persons_token_reaches_nothing_of_the_owner() {
    let gate = CancellationToken::new();
    let held = gate.clone();
    let model = Puppet::new(move |_, request| {
        if request.last().ends_with("slowly") {
            return vec![Do::Hold(held.clone()), say("Done.")];
        }
        vec![say(format!("{} | {}", request.context, request.all().len()))]
    });
    world::run(Setup::new(model.clone()), async |world| {
        let owner = &world.owner;
        let ada = owner.member("Ada").await;
        let conversation = client::id_of(&owner.chat("a secret").await, "conversation_id");
        let memory = json!({ "kind": "memory", "body": "The safe opens with 1234." });
        let memory = client::id_of(&owner.post("/v1/knowledge", memory).await.ok(), "id");
        let schedule = json!({ "note": "x", "rule": { "kind": "every", "seconds": 86_400 } });
        let schedule = client::id_of(&owner.post("/v1/schedules", schedule).await.ok(), "id");
        let file = owner.upload("a secret file").await;
        let turn = owner.begin("main", "slowly").await;
        model.asked(2).await;

        assert_eq!(lengths(&ada).await, [0, 0, 0, 0]);
        let refused = [
            (Method::GET, format!("/v1/conversations/{conversation}"), None),
            (
                Method::PATCH,
                format!("/v1/conversations/{conversation}"),
                Some(json!({ "title": "x" })),
            ),
            (Method::GET, format!("/v1/conversations/{conversation}/messages"), None),
            (
                Method::POST,
                format!("/v1/conversations/{conversation}/messages"),
                Some(json!({ "text": "hello" })),
            ),
            (Method::POST, format!("/v1/conversations/{conversation}/stop"), None),
            (Method::GET, format!("/v1/conversations/{conversation}/events"), None),
            (Method::GET, format!("/v1/turns/{turn}"), None),
            (Method::POST, format!("/v1/turns/{turn}/cancel"), None),
            (Method::POST, format!("/v1/turns/{turn}/continue"), None),
            (Method::GET, format!("/v1/knowledge/{memory}"), None),
            (Method::DELETE, format!("/v1/knowledge/{memory}"), None),
            (Method::PATCH, format!("/v1/schedules/{schedule}"), Some(json!({ "note": "x" }))),
            (Method::DELETE, format!("/v1/schedules/{schedule}"), None),
            (Method::GET, format!("/v1/schedules/{schedule}/slots"), None),
            (Method::GET, format!("/v1/blobs/{file}"), None),
            (
                Method::POST,
                "/chat".to_owned(),
                Some(json!({ "message": "x", "conversation_id": conversation })),
            ),
            (
                Method::POST,
                "/chat".to_owned(),
                Some(json!({ "message": "x", "attachments": [{ "blob": { "id": file } }] })),
            ),
        ];
        for (method, path, body) in refused {
            let request = ada.request(method.clone(), &path).json(&body);
            let answer = client::answer(request).await;
            assert_eq!(answer.status, 404, "{method} {path}: {}", answer.body);
        }
        for path in
            ["/v1/tokens", "/v1/people", "/v1/agents", "/v1/queue", "/v1/outbox", "/metrics"]
        {
            ada.get(path).await.refused(403);
        }
        let stop = ada.chat("/stop").await;
        assert_eq!(stop["response"], "Nothing was running.", "a stop ends what is one's own");

        // The same key of two people is two keys; each has a main conversation of their own.
        let message = json!({ "message": "hello" });
        let hers = ada.post_keyed("/chat", "key", message.clone()).await.ok();
        assert_eq!(hers["response"], " | 1", "the model reads nothing of the owner's");
        assert_ne!(hers["conversation_id"], json!(conversation));
        gate.cancel();
        owner.reaches(&turn, "complete").await;
        let his = owner.post_keyed("/chat", "key", message).await.ok();
        assert!(his["response"].as_str().unwrap().contains("1234"), "{his}");
        assert_eq!(lengths(&ada).await, [1, 0, 0, 0]);
        assert_eq!(lengths(owner).await, [1, 1, 1, 0]);

        // The host of the installation does not read along either.
        let path = format!("/v1/conversations/{}", client::id_of(&hers, "conversation_id"));
        owner.get(&path).await.refused(404);
    })
    .await;
}
