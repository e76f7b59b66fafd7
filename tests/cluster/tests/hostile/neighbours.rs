//! Two plugins side by side: nothing of one is the other's, and nothing that one sends is taken for
//! the other's word.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use famulus_cluster_tests::kubectl::{address, kubectl, object, objects};
use famulus_cluster_tests::release::{Release, name};

use crate::kinds::{Kind, classes, is_what_it_is, plugin, pod, run, tool};

/// What stands in the Secret of the one that is robbed.
const CANARY: &str = "canary-of-the-robbed-plugin-4711";

fn files() -> [(&'static str, String); 2] {
    let manifest = tool("look", "run.py", &["requests", "wanted"]);
    [
        ("look/manifest.json", manifest),
        ("look/run.py", include_str!("neighbours/run.py").to_owned()),
    ]
}

#[tokio::test]
async fn a_plugin_finds_nothing_of_another_and_is_not_taken_for_it() {
    classes().await;
    let release = Release::open().await;
    let files = files();
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let literal = format!("--from-literal=key={CANARY}");
    let sandbox = &release.sandbox;
    kubectl(&["-n", sandbox, "create", "secret", "generic", "robbed-config", &literal]).await;
    let label = "famulus.dev/config-for=robbed";
    kubectl(&["-n", sandbox, "label", "secret", "robbed-config", label]).await;
    let secret = json!({"configSecretRef": {"name": "robbed-config"}});
    let names = ["robbed", "thief-host", "thief-user", "thief-gvisor"];
    let kinds = [Kind::User, Kind::Host, Kind::User, Kind::Gvisor];
    for (name, kind) in names.into_iter().zip(kinds) {
        let spec = if name == "robbed" { &secret } else { &json!({}) };
        release.apply(&plugin(name, kind, &files, spec)).await;
    }
    for (name, kind) in names.into_iter().zip(kinds) {
        release.condition(name, "Ready=True").await;
        is_what_it_is(&release, kind, name).await;
    }

    // Its own configuration is found, and its own bearer counts: so what follows proves something.
    let robbed = Credentials::of(&release, "robbed").await;
    let app = app().await;
    let own = look(&release, "robbed", &[robbed.ask(&app)]).await;
    assert_eq!(own["statuses"], json!([200]), "{own}");
    assert_eq!(own["found"].as_array().unwrap().len(), 1, "its config.json: {own}");
    let robbed_pod = pod(&release, "robbed").await;
    let port = format!("{}:8090", robbed_pod["status"]["podIP"].as_str().unwrap());

    let mut users = vec![own["user"].clone()];
    for kind in Kind::ALL {
        let thief = format!("thief-{}", kind.name());
        let own = Credentials::of(&release, &thief).await;
        let cases = [
            ("all that is the other's", robbed.ask(&app), json!(401)),
            (
                "its own bearer in the other's name",
                robbed.with("bearer", &own.bearer).ask(&app),
                json!(401),
            ),
            (
                "the other's bearer in its own name",
                own.with("bearer", &robbed.bearer).ask(&app),
                json!(401),
            ),
            ("a bearer of before", robbed.with("rendered", "0").ask(&app), json!(401)),
            ("the owner's token", robbed.with("bearer", &release.token).ask(&app), json!(401)),
            ("a result of the other's, all right", robbed.result(&app, "c1", "guess"), json!(401)),
            ("a result of a call that is not its own", own.result(&app, "c1", "guess"), json!(403)),
            ("a result without a token", own.result(&app, "c1", ""), json!(403)),
            ("its own revision", own.ask(&app), json!(200)),
        ];
        let requests: Vec<Value> = cases.iter().map(|(_, request, _)| request.clone()).collect();
        let seen = look(&release, &thief, &requests).await;
        for ((what, _, expected), status) in cases.iter().zip(seen["statuses"].as_array().unwrap())
        {
            assert_eq!(status, expected, "{thief}: {what}");
        }
        assert_eq!(seen["found"], json!([]), "{thief}");
        // Its runner, the supervisor and itself; of the node and of the others there are many more.
        let processes = seen["processes"].as_array().unwrap();
        assert!((1..=6).contains(&processes.len()), "{thief} sees {processes:?}");
        let knock = json!({"to": port, "method": "GET", "path": "/health", "headers": {}});
        let seen = look(&release, &thief, &[knock]).await;
        assert!(seen["statuses"][0].is_string(), "{thief} reached the other's port: {seen}");
        users.push(seen["user"].clone());
    }
    // No two share a user, nor a volume.
    users.sort_by_key(Value::to_string);
    users.dedup();
    assert_eq!(users.len(), names.len(), "{users:?}");
    let mut volumes = Vec::new();
    for name in names {
        let claims = objects(sandbox, "pvc", &format!("famulus.dev/plugin={name}")).await;
        volumes.extend(claims.iter().map(|claim| claim["spec"]["volumeName"].to_string()));
    }
    volumes.sort();
    volumes.dedup();
    assert_eq!(volumes.len(), names.len(), "{volumes:?}");
    release.delete(&names).await;
    kubectl(&["-n", sandbox, "delete", "secret", "robbed-config"]).await;
}

async fn look(release: &Release, plugin: &str, requests: &[Value]) -> Value {
    let parameters = json!({"requests": json!(requests).to_string(), "wanted": CANARY});
    let said = run(release, plugin, "look", &parameters).await;
    let text = said["output"]["text"].as_str().unwrap();
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{plugin}: {error}: {said}"))
}

/// The port of the app that sandboxes reach.
async fn app() -> String {
    format!("{}:3002", address(&name(), "app.kubernetes.io/component=app").await)
}

/// What a runner proves itself by. The owner reads it from the Secret of its Pod.
#[derive(Clone)]
struct Credentials {
    bearer: String,
    plugin: String,
    rendered: String,
    revision: String,
}

impl Credentials {
    async fn of(release: &Release, plugin: &str) -> Self {
        let found = object(&release.sandbox, "plugin", plugin).await.unwrap();
        let selector = format!("famulus.dev/plugin={plugin}");
        let secrets = objects(&release.sandbox, "secrets", &selector).await;
        let mounted = secrets.iter().find(|one| one["data"]["wanted.json"].is_string()).unwrap();
        let text = |key: &str| {
            String::from_utf8(STANDARD.decode(mounted["data"][key].as_str().unwrap()).unwrap())
        };
        let wanted: Value = serde_json::from_str(&text("wanted.json").unwrap()).unwrap();
        let revision = found["status"]["revision"].as_str().unwrap();
        Self {
            bearer: text("bearer").unwrap().trim().to_owned(),
            plugin: wanted["uid"].as_str().unwrap().to_owned(),
            rendered: wanted["rendered"].to_string(),
            revision: revision.trim_start_matches("sha256:").to_owned(),
        }
    }

    fn with(&self, what: &str, value: &str) -> Self {
        let mut other = self.clone();
        let field = if what == "bearer" { &mut other.bearer } else { &mut other.rendered };
        value.clone_into(field);
        other
    }

    fn headers(&self) -> Value {
        json!({
            "authorization": format!("Bearer {}", self.bearer),
            "famulus-plugin": self.plugin,
            "famulus-rendered": self.rendered,
        })
    }

    /// For the bundle of its revision.
    fn ask(&self, app: &str) -> Value {
        let path = format!("/internal/v1/revisions/{}/bundle", self.revision);
        json!({"to": app, "method": "GET", "path": path, "headers": self.headers()})
    }

    /// That a call has ended.
    fn result(&self, app: &str, call: &str, token: &str) -> Value {
        let mut headers = self.headers();
        headers["famulus-call-token"] = json!(token);
        let path = format!("/internal/v1/calls/{call}/result");
        json!({"to": app, "method": "POST", "path": path, "headers": headers, "body": "{}"})
    }
}
