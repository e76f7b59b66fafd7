//! Plugins of different make, each through its whole life on one machine: what a cluster does with them in
//! `tests/cluster/tests/cluster/compatible.rs`.

use crate::{
    home::{Home, PATIENCE},
    up::{Up, client, with_uv},
};
use async_trait::async_trait;
use famulus_plugin_life::{Home as PluginHome, Method, all_live};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

/// `famulus up`, asked by its owner.
struct Machine(Up);

impl Machine {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let method = reqwest::Method::from_bytes(method.name().as_bytes()).unwrap();
        let request = client().request(method, format!("{}{path}", self.0.url));
        request.bearer_auth(&self.0.token).timeout(PATIENCE)
    }
}

#[async_trait]
impl PluginHome for Machine {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = self.request(method, path);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    async fn run(&self, plugin: &str, tool: &str, parameters: &Value) -> String {
        let path = format!("/v1/plugins/{plugin}/tools/{tool}/run");
        let request = self.request(Method::Post, &path).json(&json!({"parameters": parameters}));
        request.send().await.unwrap().text().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_of_different_make_live_on_one_machine() {
    let home = Home::new("compatible");
    let machine = Machine(Up::from(&home.place, with_uv(home.famulus(&["up"]))));
    let failures: Vec<String> = all_live(&machine).await.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(machine.0.get("/v1/plugins").await["plugins"], json!([]));
    machine.0.stop();
}
