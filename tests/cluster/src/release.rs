//! The installed release: its app over HTTP, its Plugins.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::beside::NODE;
use crate::forward;
use crate::kubectl::{
    self, LONG, LOOK, address, condition, is_ready, kubectl, object, objects, until,
};

/// An assistant that can be talked to.
pub struct Release {
    pub name: String,
    pub sandbox: String,
    pub address: String,
    pub token: String,
    /// One of its own, so that tests that run at once do not steer each other's turns.
    conversation: String,
    pub client: Client,
    /// The way there; it ends with this.
    _forward: Child,
}

/// The release that the tests are run against.
pub fn name() -> String {
    env::var("FAMULUS_TEST_RELEASE").unwrap_or_else(|_| "famulus".to_owned())
}

/// The app hangs up on a connection on which nothing was asked for a while, and a request may be on its
/// way at that moment: such a connection is given up first.
fn client() -> Client {
    Client::builder().pool_idle_timeout(Duration::from_secs(1)).build().unwrap()
}

impl Release {
    /// Finds the way to the app.
    pub async fn open() -> Self {
        Self::open_as(name()).await
    }

    /// Finds the way to the app of a release that has its name's namespace.
    pub async fn open_as(name: String) -> Self {
        if let Err(complaint) = is_there(&name).await {
            panic!(
                "these tests need an installed release `{name}`, as `cargo xtask test` makes it: \
                 {complaint}"
            );
        }
        let service = format!("service/{name}");
        let mut forward = kubectl::command(&["-n", &name, "port-forward", &service, ":3000"]);
        let mut forward = forward.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
        let line = timeout(LONG, lines.next_line()).await.unwrap().unwrap().unwrap();
        let port = line.rsplit_once("127.0.0.1:").unwrap().1.split(' ').next().unwrap();
        // What it tells of each connection is read, or it would end by its own words.
        tokio::spawn(async move { while let Ok(Some(_line)) = lines.next_line().await {} });
        let secret = object(&name, "secret", &token_of(&name).await).await.unwrap();
        let token = STANDARD.decode(secret["data"]["token"].as_str().unwrap()).unwrap();
        let mut release = Self {
            sandbox: format!("{name}-sandbox"),
            address: format!("http://127.0.0.1:{port}"),
            token: String::from_utf8(token).unwrap(),
            client: client(),
            name,
            _forward: forward,
            conversation: String::new(),
        };
        // A database that has just begun may say `try again`, and whoever is told so does.
        let opened = until("a conversation is opened", LONG, async || {
            let (status, said) =
                release.ask(Method::POST, "/v1/conversations", Some(&json!({}))).await;
            assert!((200..300).contains(&status) || status == 503, "{said}");
            if status == 503 { Err(said.to_string()) } else { Ok(said) }
        })
        .await;
        let id = opened["id"].as_str().unwrap_or_else(|| panic!("{opened}"));
        id.clone_into(&mut release.conversation);
        release
    }

    /// One request with the owner's token: the status and the answer.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = self.client.request(method, format!("{}{path}", self.address));
        let request = request.bearer_auth(&self.token).timeout(LONG);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    /// Speaks to the app's Pod from now on, without a way through kubectl.
    pub async fn directly(&mut self) {
        let app = address(&self.name, "app.kubernetes.io/component=app").await;
        self.address = format!("http://{app}:3000");
    }

    /// Speaks to whichever Pod of the app the Service leads to from now on; on a node of ours without a way
    /// through kubectl.
    pub async fn through_service(&mut self) {
        if env::var_os(NODE).is_none() {
            self.address =
                forward::lasting(&self.name, &format!("service/{}", self.name), 3000).await;
            return;
        }
        let service = object(&self.name, "service", &self.name).await.unwrap();
        let address = service["spec"]["clusterIP"].as_str().unwrap();
        self.address = format!("http://{address}:3000");
    }

    /// Runs a tool by hand and waits for its end. Returns the lines of the answer.
    pub async fn run(&self, plugin: &str, tool: &str, parameters: &Value) -> String {
        self.run_lines(plugin, tool, &json!({"parameters": parameters})).await
    }

    /// The same with files, by their ids. Returns the result.
    pub async fn run_with(
        &self,
        plugin: &str,
        tool: &str,
        parameters: &Value,
        files: &[&str],
    ) -> Value {
        let body = json!({"parameters": parameters, "files": files});
        let lines = self.run_lines(plugin, tool, &body).await;
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(last["event"], "result", "{lines}");
        last["result"].clone()
    }

    async fn run_lines(&self, plugin: &str, tool: &str, body: &Value) -> String {
        let path = format!("{}/v1/plugins/{plugin}/tools/{tool}/run", self.address);
        let request = self.client.post(path).bearer_auth(&self.token).timeout(LONG);
        let answer = request.json(body).send().await.unwrap();
        let status = answer.status().as_u16();
        let lines = answer.text().await.unwrap();
        assert_eq!(status, 200, "{lines}");
        lines
    }

    /// Says something and returns the reply.
    pub async fn chat(&self, message: &str) -> String {
        let body = json!({"message": message, "conversation_id": self.conversation});
        let (status, answer) = self.ask(Method::POST, "/chat", Some(&body)).await;
        assert_eq!(status, 200, "{answer}");
        answer["response"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The JSON of a reply that tells what a tool gave, which stands in it whole.
    pub async fn told(&self, message: &str) -> Value {
        let reply = self.chat(message).await;
        let told = reply.lines().find_map(|line| serde_json::from_str(line).ok());
        told.unwrap_or_else(|| panic!("{message}: {reply}"))
    }

    /// Stores a file; its id.
    pub async fn store(&self, bytes: &[u8]) -> String {
        let path = format!("{}/v1/blobs", self.address);
        let request = self.client.post(path).bearer_auth(&self.token).timeout(LONG);
        let answer = request.body(bytes.to_vec()).send().await.unwrap();
        let stored: Value = answer.json().await.unwrap();
        stored["id"].as_str().unwrap_or_else(|| panic!("{stored}")).to_owned()
    }

    /// A stored file.
    pub async fn stored(&self, id: &str) -> Vec<u8> {
        let path = format!("{}/v1/blobs/{id}", self.address);
        let request = self.client.get(path).bearer_auth(&self.token).timeout(LONG);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{id}");
        answer.bytes().await.unwrap().to_vec()
    }

    /// What is measured of the app, as text.
    pub async fn metrics(&self) -> String {
        let request = self.client.get(format!("{}/metrics", self.address));
        request.bearer_auth(&self.token).send().await.unwrap().text().await.unwrap()
    }

    /// Waits until a message that came by itself holds this text and is answered: what is said before
    /// that joins its turn.
    pub async fn hears(&self, text: &str) {
        until(&format!("a message holds {text:?} and is answered"), LONG, async || {
            let (_, page) = self.ask(Method::GET, &self.messages(), None).await;
            let messages = page["messages"].as_array().ok_or_else(|| page.to_string())?;
            let holds = |it: &Value| it["role"] == "user" && it.to_string().contains(text);
            let answers = |it: &Value| it["role"] == "assistant" && it["has_text"] == true;
            let mut after = messages.iter().skip_while(|it| !holds(it));
            if after.any(answers) { Ok(()) } else { Err(page.to_string()) }
        })
        .await;
    }

    /// The path of the conversation's messages.
    pub fn messages(&self) -> String {
        format!("/v1/conversations/{}/messages", self.conversation)
    }

    /// Applies Plugins and fails with the complaint.
    pub async fn apply(&self, manifest: &str) {
        let applied = kubectl::apply(&self.sandbox, manifest).await;
        applied.unwrap_or_else(|complaint| panic!("{complaint}"));
    }

    /// Waits for a condition of a Plugin: `Ready=True`, `Built=False`. Returns the Plugin, of which
    /// the app has then heard.
    pub async fn condition(&self, plugin: &str, wanted: &str) -> Value {
        let (kind, status) = wanted.split_once('=').unwrap();
        let found = until(&format!("{plugin} is {wanted}"), LONG, async || {
            let found = object(&self.sandbox, "plugin", plugin).await;
            let found = found.ok_or("there is no such Plugin")?;
            match condition(&found, kind) {
                Some(one) if one["status"] == status && is_current(&found, one) => Ok(found),
                Some(_) | None => Err(found["status"].to_string()),
            }
        })
        .await;
        self.has_heard(&found).await;
        found
    }

    /// Waits until the app knows a Plugin as it is, which is soon; an app that is away is not waited
    /// for.
    pub async fn has_heard(&self, plugin: &Value) {
        const SOON: Duration = Duration::from_secs(10);
        let name = plugin["spec"]["name"].as_str().unwrap();
        let url = format!("{}/v1/plugins/{name}", self.address);
        let heard = async {
            loop {
                let request = self.client.get(&url).bearer_auth(&self.token).send().await;
                let known: Value = match request {
                    Ok(answer) => answer.json().await.unwrap_or_default(),
                    Err(_away) => Value::Null,
                };
                let (ready, why) = (is_ready(plugin), condition(plugin, "Ready"));
                // One that is ready idles and runs as it pleases.
                let is_why = ready || why.is_none_or(|why| known["reason"] == why["reason"]);
                let is_revision = known["revision"] == plugin["status"]["revision"];
                if known["ready"] == ready && is_why && is_revision {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        let _away = timeout(SOON, heard).await;
    }

    /// Waits until the app says this of a Plugin.
    pub async fn knows(&self, plugin: &str, key: &str, value: &str) {
        until(&format!("the app knows that {key} of {plugin} is {value}"), LONG, async || {
            let path = format!("/v1/plugins/{plugin}");
            let (_, known) = self.ask(Method::GET, &path, None).await;
            if known[key] == value { Ok(()) } else { Err(known.to_string()) }
        })
        .await;
    }

    /// Deletes Plugins, and waits until nothing of them is left.
    pub async fn delete(&self, plugins: &[&str]) {
        for plugin in plugins {
            kubectl(&["-n", &self.sandbox, "delete", "plugin", plugin, "--ignore-not-found"]).await;
        }
        for plugin in plugins {
            let selector = format!("famulus.dev/plugin={plugin}");
            until(&format!("nothing of {plugin} is left"), LONG, async || {
                for kind in ["pods", "jobs", "deployments", "secrets", "pvc", "serviceaccounts"] {
                    let left = objects(&self.sandbox, kind, &selector).await;
                    if !left.is_empty() {
                        return Err(format!("{} {kind}", left.len()));
                    }
                }
                Ok(())
            })
            .await;
        }
    }
}

/// Whether the app is installed. A machine that is busy is asked again, one without a cluster not for
/// long.
async fn is_there(name: &str) -> Result<(), String> {
    let mut said = Ok(());
    for _ in 0..3 {
        said = kubectl::tried(&["-n", name, "get", "deployment", name]).await.map(drop);
        if said.is_ok() {
            break;
        }
        sleep(LOOK).await;
    }
    said
}

/// The Secret with the owner's token, as the app mounts it.
async fn token_of(release: &str) -> String {
    let app = object(release, "deployment", release).await.unwrap();
    let volumes = app["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let token = volumes.iter().find(|volume| volume["name"] == "token").unwrap();
    token["secret"]["secretName"].as_str().unwrap().to_owned()
}

/// Whether it speaks of the spec as it is.
fn is_current(object: &Value, condition: &Value) -> bool {
    condition["observedGeneration"].as_i64() >= object["metadata"]["generation"].as_i64()
}

/// A plugin of one shell tool, written into its resource.
pub fn inline(name: &str, tool: &str, script: &str, more: &str) -> String {
    let of_tool =
        json!({"name": tool, "description": "Runs.", "entrypoint": "run.sh", "parameters": {}});
    let (manifest, program) = (format!("{tool}/manifest.json"), format!("{tool}/run.sh"));
    inline_of(name, &[(&manifest, &of_tool.to_string()), (&program, script)], more)
}

/// A plugin out of the files of its tools, written into its resource.
pub fn inline_of(name: &str, files: &[(&str, &str)], more: &str) -> String {
    let manifest = json!({"name": name, "description": "Holds what a test calls."}).to_string();
    let whole = [&[("manifest.json", &*manifest)], files].concat();
    let files: Vec<Value> =
        whole.iter().map(|(path, content)| json!({"path": path, "content": content})).collect();
    let files = json!(files);
    format!(
        "apiVersion: famulus.dev/v1alpha1\nkind: Plugin\nmetadata: {{name: {name}}}\nspec:\n  \
         name: {name}\n  source: {{inline: {{files: {files}}}}}\n  permissions: {{tools: ['*']}}\n{more}"
    )
}
