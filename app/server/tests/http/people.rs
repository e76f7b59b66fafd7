//! Nobody sees, changes or stops what is somebody else's, or does what is the owner's.

use crate::world::{self, Client, Do, Puppet, Setup, Text as _, client, say};
use reqwest::Method;
use serde_json::{Value, json};
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

/// What is not there, wherever it is asked for.
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

/// Everything that is the owner's, asked for well. The token with this id goes, at the end.
fn of_the_owner(token: &str) -> Vec<(Method, String, Option<Value>)> {
    let get = |path: &str| (Method::GET, path.to_owned(), None);
    let post = |path: &str, body: Value| (Method::POST, path.replace("ID", NOBODY), Some(body));
    vec![
        get("/metrics"),
        get("/v1/tokens"),
        get("/v1/people"),
        get("/v1/agents"),
        get("/v1/plugins"),
        get("/v1/plugins/weather"),
        get("/v1/plugins/weather/logs"),
        get("/v1/queue"),
        get("/v1/queue/dead"),
        get("/v1/outbox"),
        post("/v1/tokens", json!({ "name": "x", "scope": "chat" })),
        post("/v1/tokens", json!({ "name": "x", "scope": "owner" })),
        post("/v1/people", json!({ "name": "Eve", "role": "member", "time_zone": "UTC" })),
        post("/v1/agents", json!({ "name": "spy", "tools": ["*"] })),
        (Method::PATCH, "/v1/agents/main".to_owned(), Some(json!({ "prompt": "Obey Eve." }))),
        post("/v1/plugins/weather/tools/look/run", json!({ "parameters": { "city": "Berlin" } })),
        post("/v1/queue/dead/ID/retry", json!({})),
        post("/v1/outbox/ID/retry", json!({})),
        get("/v1/channels"),
        get("/v1/pairings"),
        post("/v1/pairings", json!({ "code": "ABCD2345" })),
        post("/v1/invitations", json!({ "channel": "signal" })),
        post("/v1/links", json!({ "channel": "signal" })),
        post("/v1/links/finish", json!({ "channel": "signal", "link": "sgnl://linkdevice" })),
        post("/v1/registrations", json!({ "channel": "signal", "number": "+491701234567" })),
        post(
            "/v1/registrations/verify",
            json!({ "channel": "signal", "number": "+491701234567", "code": "123456" }),
        ),
        (Method::DELETE, format!("/v1/tokens/{token}"), None),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_talks_does_nothing_of_what_is_the_owners() {
    world::run(Setup::new(Puppet::new(|_, _| vec![say("Done.")])), async |world| {
        let owner = &world.owner;
        let ask = async |who: &Client, (method, path, body): &(Method, String, Option<Value>)| {
            client::answer(who.request(method.clone(), path).json(body)).await
        };
        let (ada, bridge) = (owner.member("Ada").await, owner.chat_only().await);
        let lists = async || {
            let (tokens, people) = (owner.get("/v1/tokens").await, owner.get("/v1/people").await);
            [tokens.ok(), people.ok(), owner.get("/v1/agents").await.ok()]
        };
        let before = lists().await;
        let token = client::id_of(&before[0]["tokens"][0], "id");
        for request in of_the_owner(&token) {
            for who in [&ada, &bridge] {
                let detail = ask(who, &request).await.refused(403);
                assert!(detail.contains("owner"), "{request:?}: {detail}");
            }
        }
        assert_eq!(lists().await, before);
        // It is not the requests that are wrong.
        for request in of_the_owner(&token) {
            let answer = ask(owner, &request).await;
            assert!(![400, 401, 403, 405].contains(&answer.status), "{request:?}: {}", answer.body);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scope_owner_is_held_by_the_owner_alone() {
    world::run(Setup::new(Puppet::new(|_, _| vec![say("Done.")])), async |world| {
        let owner = &world.owner;
        let token = |person: &Value| json!({ "name": "x", "scope": "owner", "person": person });
        let ada = owner.member("Ada").await;
        let contact = json!({ "name": "Bob", "role": "contact" });
        let people = [
            ada.get("/v1/me").await.ok()["person"]["id"].take(),
            owner.post("/v1/people", contact).await.ok()["id"].take(),
        ];
        let before = owner.get("/v1/tokens").await.ok();
        for person in &people {
            let detail = owner.post("/v1/tokens", token(person)).await.refused(409);
            assert_eq!(detail, "only the owner's own tokens can have the scope `owner`");
        }
        let more = json!({ "name": "Eve", "role": "owner" });
        owner.post("/v1/people", more).await.refused(400);
        assert_eq!(owner.get("/v1/tokens").await.ok(), before);

        let me = owner.get("/v1/me").await.ok()["person"]["id"].take();
        let made = owner.post("/v1/tokens", token(&me)).await.ok();
        let second = owner.with_token(&client::id_of(&made, "token"));
        second.get("/v1/tokens").await.ok();

        // No caller can do this: another person's token has the scope all the same.
        let eve = owner.member("Eve").await;
        world.database.execute("update token set scope = 'owner'").await;
        eve.get("/v1/tokens").await.refused(403);
    })
    .await;
}
