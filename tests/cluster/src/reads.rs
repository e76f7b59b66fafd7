//! Looks at objects of the cluster, which are made over and over while something is waited for.
//!
//! One `kubectl proxy` answers them all: a program for each would be most of what a machine of two
//! cores does meanwhile.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::{Client, StatusCode, Url};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::kubectl::{LONG, LOOK, program, until};

/// As long as the API server takes at most, and a little.
const ANSWER: Duration = Duration::from_secs(70);

/// What ends the proxy with the tests: then its standard input ends.
const PROXY: &str = r#""$0" proxy --port=0 </dev/null & proxy=$!; cat >/dev/null; kill $proxy"#;

/// An object, if it is there.
pub async fn object(namespace: &str, kind: &str, name: &str) -> Option<Value> {
    get(&format!("{}/{name}", resource(kind).path(namespace)), "").await
}

/// The objects with a label; without one, all of them.
pub async fn objects(namespace: &str, kind: &str, selector: &str) -> Vec<Value> {
    let resource = resource(kind);
    let list = get(&resource.path(namespace), selector).await;
    let list = list.unwrap_or_else(|| panic!("the server knows no {kind}"));
    let mut items = list["items"].as_array().unwrap().clone();
    for item in &mut items {
        item["kind"] = resource.kind.as_str().into();
        item["apiVersion"] = resource.version.as_str().into();
    }
    items
}

/// The Pod with a label that takes requests and stays, once there is one.
pub async fn ready_pod(namespace: &str, selector: &str) -> Value {
    until(&format!("a Pod with {selector} is ready"), LONG, async || {
        let pods = objects(namespace, "pods", selector).await;
        let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod);
        let found = pods.iter().find(stays).cloned();
        found.ok_or_else(|| pods.iter().map(why_not).collect::<Vec<_>>().join("; "))
    })
    .await
}

/// What a Pod says of itself that takes no requests.
fn why_not(pod: &Value) -> String {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    let containers = ["initContainerStatuses", "containerStatuses"];
    let states = containers.map(|of| status[of].as_array().into_iter().flatten());
    let states: Vec<_> = states
        .into_iter()
        .flatten()
        .map(|one| (&one["name"], &one["state"], &one["lastState"], &one["restartCount"]))
        .collect();
    format!(
        "{} (deleted {}): {} {} {states:?}",
        metadata["name"], metadata["deletionTimestamp"], status["phase"], status["conditions"]
    )
}

/// Its address.
pub async fn address(namespace: &str, selector: &str) -> String {
    let pod = ready_pod(namespace, selector).await;
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}

/// A condition of an object.
pub fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Whether an object says of itself that it is ready.
pub fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// What the server has there. While it is away, or too busy to answer, it is asked again: that is no
/// fault of what is tested.
async fn get(path: &str, selector: &str) -> Option<Value> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    // A connection would end with the runtime of the test that made it.
    let client =
        CLIENT.get_or_init(|| Client::builder().pool_max_idle_per_host(0).build().unwrap());
    let deadline = Instant::now() + LONG;
    let mut at = proxy(None);
    loop {
        let mut url = Url::parse(&format!("http://{at}{path}")).unwrap();
        if !selector.is_empty() {
            url.query_pairs_mut().append_pair("labelSelector", selector);
        }
        let complaint = match client.get(url).timeout(ANSWER).send().await {
            Ok(answer) if answer.status() == StatusCode::NOT_FOUND => return None,
            Ok(answer) => {
                let status = answer.status();
                let is_away = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                match answer.text().await {
                    Ok(text) if status.is_success() => {
                        return Some(serde_json::from_str(&text).unwrap());
                    }
                    Ok(text) if !is_away => panic!("{path}: {status}: {text}"),
                    Ok(text) => format!("{status}: {text}"),
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => {
                if error.is_connect() {
                    at = proxy(Some(&at));
                }
                error.to_string()
            }
        };
        assert!(Instant::now() < deadline, "{path}: {complaint}");
        sleep(LOOK).await;
    }
}

/// Where the proxy listens; a new one if that one is gone.
fn proxy(gone: Option<&str>) -> String {
    /// With the program, whose standard input stays open.
    static KEPT: Mutex<Option<(String, Child)>> = Mutex::new(None);
    let mut kept = KEPT.lock();
    if let Some((address, _)) = kept.as_ref()
        && gone != Some(address)
    {
        return address.clone();
    }
    if let Some((_, mut gone)) = kept.take() {
        // It closes what it reads from.
        gone.wait().unwrap();
    }
    let mut command = Command::new("sh");
    command.args(["-c", PROXY]).arg(program()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    assert!(address.contains(':'), "kubectl proxy does not serve: {line:?}");
    *kept = Some((address.clone(), child));
    address
}

/// A kind, as the server serves it.
struct Resource {
    /// All words for it.
    names: Vec<String>,
    plural: String,
    version: String,
    kind: String,
    is_namespaced: bool,
}

impl Resource {
    fn path(&self, namespace: &str) -> String {
        let group = if self.version.contains('/') { "apis" } else { "api" };
        let Self { version, plural, .. } = self;
        if self.is_namespaced {
            format!("/{group}/{version}/namespaces/{namespace}/{plural}")
        } else {
            format!("/{group}/{version}/{plural}")
        }
    }
}

fn resource(name: &str) -> &'static Resource {
    static ALL: OnceLock<Vec<Resource>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let output = Command::new(program()).args(["api-resources", "--no-headers"]).output();
        let output = output.unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl api-resources: {complaint}");
        String::from_utf8(output.stdout).unwrap().lines().map(read).collect()
    });
    let named = all.iter().find(|resource| resource.names.iter().any(|it| it == name));
    named.unwrap_or_else(|| panic!("the server knows no {name}"))
}

/// A line: plural, short names if there are any, version, whether it is namespaced, kind.
fn read(line: &str) -> Resource {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [plural, short @ .., version, is_namespaced, kind] = &words[..] else {
        panic!("kubectl api-resources: {line:?}")
    };
    let short = short.iter().flat_map(|names| names.split(',')).map(str::to_owned);
    let names = [(*plural).to_owned(), kind.to_lowercase()].into_iter().chain(short);
    Resource {
        names: names.collect(),
        plural: (*plural).to_owned(),
        version: (*version).to_owned(),
        kind: (*kind).to_owned(),
        is_namespaced: *is_namespaced == "true",
    }
}
