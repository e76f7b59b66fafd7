//! Plugins that are written here, over HTTP.

use crate::{
    config,
    sandboxes::at_door,
    support::{World, with_server},
};
use famulus_core::plugin::PluginSource;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or(Value::Null))
}

fn put(world: &World, path: &str, body: &Value) -> RequestBuilder {
    world.call(crate::OWNER, Method::PUT, path).json(body)
}

async fn create(world: &World) {
    let (status, offer) = answer(world.post("/v1/plugins/dice/create", &json!({}))).await;
    assert_eq!((status, &offer["plugin"]), (201, &json!("dice")), "{offer}");
}

async fn paths(world: &World) -> Vec<String> {
    let (status, list) = answer(world.get("/v1/plugins/dice/files")).await;
    assert_eq!(status, 200, "{list}");
    let files = list["files"].as_array().unwrap().iter();
    files.map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_plugin_is_written_over_http() {
    with_server(config(), async |world| {
        create(world).await;
        assert_eq!(paths(world).await, ["hello/manifest.json", "hello/run.py", "manifest.json"]);
        let run = "/v1/plugins/dice/files/hello/run.py";
        let (status, found) = answer(world.get(run)).await;
        assert_eq!((status, &found["path"]), (200, &json!("hello/run.py")));
        assert!(found["content"].as_str().unwrap().starts_with("#!"), "{found}");

        let write = json!({"content": "#!/bin/sh\n", "before": found["sha256"]});
        let (status, offer) = answer(put(world, run, &write)).await;
        assert_eq!((status, &offer["plugin"]), (200, &json!("dice")), "{offer}");
        // Any writing of the address is the same file.
        let (_, found) = answer(world.get("/v1/plugins/dice/files/hello%2Frun.py")).await;
        assert_eq!(found["content"], "#!/bin/sh\n");
        let odd = "/v1/plugins/dice/files/w%C3%BCrfel/%E9%AA%B0%20%3F.txt";
        assert_eq!(answer(put(world, odd, &json!({"content": "x"}))).await.0, 200);
        assert!(paths(world).await.contains(&"würfel/骰 ?.txt".to_owned()));

        assert_eq!(answer(world.call(crate::OWNER, Method::DELETE, odd)).await.0, 200);
        let edits = json!({"edits": [
            {"move": {"path": "hello/run.py", "to": "hello/go"}},
            {"write": {"path": "move", "content": ""}},
            {"delete": {"path": "hello/manifest.json"}},
        ]});
        assert_eq!(answer(world.post("/v1/plugins/dice/files", &edits)).await.0, 200);
        assert_eq!(paths(world).await, ["hello/go", "manifest.json", "move"]);
        assert_eq!(answer(world.get("/v1/plugins/dice/files/move")).await.0, 200);
        assert!(!world.managed.asked.lock().iter().any(|done| done.contains("permits")));
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_written_says_why() {
    with_server(config(), async |world| {
        create(world).await;
        let git = PluginSource::Git { url: "https://example.com/w".into(), r#ref: "v1".into() };
        world.managed.sources.lock().insert("weather".into(), git);
        let own = |path: &str| format!("/v1/plugins/dice/files/{path}");
        let content = json!({"content": "x"});
        let lost = json!({"content": "x", "before": "0".repeat(64)});
        let half = json!({"edits": [
            {"write": {"path": "new", "content": "x"}},
            {"move": {"path": "manifest.json", "to": "hello/run.py"}},
        ]});
        let not_one = json!({"edits": [{"copy": {"path": "a", "to": "b"}}]});
        let from_git = "/v1/plugins/weather/files";
        for (request, expected, part) in [
            (put(world, &own("hello/run.py"), &lost), 409, "read it again"),
            (put(world, &own("..%2Fx"), &content), 422, "cannot be the path of a file"),
            (put(world, &own("%2Fetc%2Fpasswd"), &content), 422, "cannot be the path of a file"),
            (put(world, &own("hello"), &content), 422, "is a folder"),
            (put(world, &own("a"), &json!({})), 400, "content"),
            (world.post("/v1/plugins/dice/files", &half), 409, "there is a file"),
            (world.post("/v1/plugins/dice/files", &not_one), 400, "copy"),
            (world.get(&own("nosuch")), 404, "the files are"),
            (world.call(crate::OWNER, Method::DELETE, &own("nosuch")), 404, "the files are"),
            (world.get("/v1/plugins/nosuch/files"), 404, "nosuch"),
            (world.get(from_git), 422, "https://example.com/w"),
            (put(world, &format!("{from_git}/a"), &content), 422, "https://example.com/w"),
            (world.post("/v1/plugins/x/create", &json!({"template": "perl"})), 400, "perl"),
        ] {
            let (status, problem) = answer(request).await;
            let detail = problem["detail"].as_str().unwrap_or_default();
            assert!(status == expected && detail.contains(part), "{expected} {part}: {problem}");
        }
        assert_eq!(paths(world).await, ["hello/manifest.json", "hello/run.py", "manifest.json"]);
    })
    .await;
}

#[tokio::test]
async fn the_newest_files_are_given_as_a_tar() {
    with_server(config(), async |world| {
        let export = "/v1/plugins/weather/export";
        assert_eq!(answer(world.get(export)).await.0, 404, "nothing of it is kept");
        assert_eq!(answer(world.get("/v1/plugins/nosuch/export")).await.0, 404);

        let bundle = vec![7_u8; 300_000];
        let hex = hex::encode(Sha256::digest(&bundle));
        let path = |what: &str| format!("/internal/v1/revisions/{hex}/{what}");
        let description =
            json!({"plugin": "weather", "description": "d", "config": [], "tools": []});
        let put = |what: &str| at_door(world, Method::PUT, &path(what), "weather");
        assert_eq!(answer(put("description").json(&description)).await.0, 204);
        assert_eq!(answer(put("bundle").body(bundle.clone())).await.0, 204);
        for plugin in world.sandboxes.plugins.lock().iter_mut() {
            plugin.revision = Some(format!("sha256:{hex}"));
        }
        let answer = world.get(export).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/x-tar");
        assert_eq!(answer.headers()["content-disposition"], "attachment; filename=\"weather.tar\"");
        assert!(answer.bytes().await.unwrap() == bundle);
    })
    .await;
}
