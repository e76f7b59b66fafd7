//! An API server, as far as the app talks to one: lists, watches with bookmarks, the scale of
//! Plugins, logs. It notes every request.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Between two bookmarks.
const BOOKMARK: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct ApiServer {
    shared: Arc<Shared>,
    pub(crate) address: SocketAddr,
}

struct Shared {
    world: Mutex<World>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct World {
    version: u64,
    /// Versions up to here are forgotten: whoever asks from before hears *410*.
    compacted: u64,
    objects: BTreeMap<(&'static str, String), Value>,
    events: Vec<(u64, &'static str, &'static str, Value)>,
    requests: Vec<String>,
    writes: Vec<Value>,
    /// Nothing is answered, and watches end.
    away: bool,
    /// What a write is answered with instead of being done.
    refuses: Option<StatusCode>,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let world = Mutex::new(World { version: 100, ..World::default() });
        let shared = Arc::new(Shared { world, changes: watch::Sender::new(0) });
        let server = Self { shared, address };
        let plugins = "/apis/famulus.dev/v1alpha1/namespaces/sandbox/plugins";
        let router = Router::new()
            .route(plugins, get(plugins_of))
            .route("/api/v1/namespaces/sandbox/pods", get(pods_of))
            .route(&format!("{plugins}/{{name}}/scale"), patch(scale))
            .route("/api/v1/namespaces/sandbox/pods/{name}/log", get(log))
            .fallback(nothing)
            .with_state(server.clone());
        Tasks::new().spawn("api server", OnExit::Log, async move {
            axum::serve(listener, router).await.unwrap();
        });
        server
    }

    pub(crate) fn kube(&self) -> kube::Client {
        // Whichever test comes first installs it for all.
        let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let uri = format!("http://{}", self.address).parse().unwrap();
        kube::Client::try_from(kube::Config::new(uri)).unwrap()
    }

    /// Adds an object, or writes it anew. What is missing in its metadata is made.
    pub(crate) fn put(&self, kind: &'static str, name: &str, mut object: Value) {
        let mut world = self.world();
        let key = (kind, name.to_owned());
        let before = world.objects.get(&key).cloned();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("name".to_owned(), json!(name));
        metadata.entry("uid").or_insert_with(|| json!(format!("uid-of-{name}")));
        metadata.entry("creationTimestamp").or_insert_with(|| json!("2026-01-01T00:00:00Z"));
        world.version += 1;
        object["metadata"]["resourceVersion"] = json!(world.version.to_string());
        let event = if before.is_some() { "MODIFIED" } else { "ADDED" };
        world.note(kind, event, object.clone());
        world.objects.insert(key, object);
        drop(world);
        self.tell();
    }

    pub(crate) fn change(&self, kind: &'static str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.world().objects[&(kind, name.to_owned())].clone();
        change(&mut object);
        self.put(kind, name, object);
    }

    pub(crate) fn delete(&self, kind: &'static str, name: &str) {
        let mut world = self.world();
        let mut object = world.objects.remove(&(kind, name.to_owned())).unwrap();
        world.version += 1;
        object["metadata"]["resourceVersion"] = json!(world.version.to_string());
        world.note(kind, "DELETED", object);
        drop(world);
        self.tell();
    }

    /// Forgets the past: every watch hears *410* and has to list again.
    pub(crate) fn compact(&self) {
        let mut world = self.world();
        world.version += 1;
        world.compacted = world.version;
        drop(world);
        self.tell();
    }

    pub(crate) fn go_away(&self, away: bool) {
        self.world().away = away;
        self.tell();
    }

    pub(crate) fn refuse_writes(&self, with: Option<StatusCode>) {
        self.world().refuses = with;
    }

    /// The bodies of all writes.
    pub(crate) fn writes(&self) -> Vec<Value> {
        self.world().writes.clone()
    }

    /// Method and path of every request.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.world().requests.clone()
    }

    fn tell(&self) {
        self.shared.changes.send_modify(|changes| *changes += 1);
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock()
    }
}

impl World {
    fn note(&mut self, kind: &'static str, event: &'static str, object: Value) {
        self.events.push((self.version, kind, event, object));
    }
}

type Parameters = Query<BTreeMap<String, String>>;

async fn plugins_of(State(api): State<ApiServer>, uri: Uri, Query(asked): Parameters) -> Response {
    read(&api, "plugins", &uri, &asked)
}

async fn pods_of(State(api): State<ApiServer>, uri: Uri, Query(asked): Parameters) -> Response {
    assert!(asked.contains_key("labelSelector"), "Pods of everybody are asked for");
    read(&api, "pods", &uri, &asked)
}

/// Whether an object is one of those that a request selects: by labels, or by its name.
fn is_selected(object: &Value, asked: &BTreeMap<String, String>) -> bool {
    let metadata = &object["metadata"];
    let labels = asked.get("labelSelector").into_iter().flat_map(|labels| labels.split(','));
    let mut labels = labels.map(|label| label.split_once('=').unwrap_or((label, "")));
    let named =
        asked.get("fieldSelector").map(|field| field.strip_prefix("metadata.name=").unwrap());
    labels.all(|(key, value)| {
        let has = metadata["labels"][key].as_str();
        if value.is_empty() { has.is_some() } else { has == Some(value) }
    }) && named.is_none_or(|name| metadata["name"] == name)
}

fn read(
    api: &ApiServer,
    kind: &'static str,
    uri: &Uri,
    asked: &BTreeMap<String, String>,
) -> Response {
    let mut world = api.world();
    world.requests.push(format!("GET {}", uri.path()));
    if world.away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if asked.get("watch").is_some_and(|watch| watch == "true") {
        let from = asked["resourceVersion"].parse().unwrap();
        drop(world);
        return watched(api.clone(), kind, from);
    }
    let all = world.objects.iter().filter(|((of, _), _)| *of == kind).map(|(_, one)| one);
    let items: Vec<&Value> = all.filter(|object| is_selected(object, asked)).collect();
    let list = if kind == "pods" { "PodList" } else { "PluginList" };
    let metadata = json!({"resourceVersion": world.version.to_string()});
    Json(json!({"kind": list, "apiVersion": "v1", "metadata": metadata, "items": items}))
        .into_response()
}

fn watched(api: ApiServer, kind: &'static str, from: u64) -> Response {
    let changes = api.shared.changes.subscribe();
    let lines = futures::stream::unfold(Some((api, changes, from)), move |watch| async move {
        let (api, mut changes, from) = watch?;
        changes.borrow_and_update();
        let (lines, next, end) = {
            let world = api.world();
            if world.away {
                return None;
            }
            if from < world.compacted {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Failure", "reason": "Expired", "message": "too old", "code": 410});
                (line("ERROR", &status), from, true)
            } else {
                let new =
                    world.events.iter().filter(|(version, of, ..)| *version > from && *of == kind);
                let lines: String = new.map(|(_, _, event, object)| line(event, object)).collect();
                (lines, world.version, false)
            }
        };
        let bytes = if lines.is_empty() {
            let _quiet = tokio::time::timeout(BOOKMARK, changes.changed()).await;
            let (group, kind) =
                if kind == "pods" { ("v1", "Pod") } else { ("famulus.dev/v1alpha1", "Plugin") };
            let metadata = json!({"resourceVersion": from.to_string()});
            line("BOOKMARK", &json!({"kind": kind, "apiVersion": group, "metadata": metadata}))
        } else {
            lines
        };
        let rest = (!end).then_some((api, changes, next));
        Some((Ok::<_, Infallible>(Bytes::from(bytes)), rest))
    });
    Body::from_stream(lines).into_response()
}

fn line(event: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": event, "object": object}))
}

async fn scale(
    State(api): State<ApiServer>,
    Path(name): Path<String>,
    uri: Uri,
    Json(asked): Json<Value>,
) -> Response {
    let key = ("plugins", name.clone());
    let mut world = api.world();
    world.requests.push(format!("PATCH {}", uri.path()));
    world.writes.push(asked.clone());
    if let Some(status) = world.refuses {
        return failure(status, "it is refused");
    }
    let Some(plugin) = world.objects.get(&key).cloned() else {
        return failure(StatusCode::NOT_FOUND, "there is no such Plugin");
    };
    drop(world);
    let version = &asked["metadata"]["resourceVersion"];
    if !version.is_null() && *version != plugin["metadata"]["resourceVersion"] {
        return failure(StatusCode::CONFLICT, "the object has been modified");
    }
    let replicas = asked["spec"]["replicas"].clone();
    api.change("plugins", &name, |plugin| plugin["spec"]["runner"]["replicas"] = replicas.clone());
    Json(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": name},
        "spec": {"replicas": replicas}, "status": {"replicas": 0}}))
    .into_response()
}

async fn log(State(api): State<ApiServer>, Path(name): Path<String>, uri: Uri) -> String {
    api.world().requests.push(format!("GET {}", uri.path()));
    format!("{name} begins\n{name} serves\n")
}

async fn nothing(State(api): State<ApiServer>, method: Method, uri: Uri) -> Response {
    api.world().requests.push(format!("{method} {}", uri.path()));
    failure(StatusCode::NOT_FOUND, "there is no such path")
}

fn failure(status: StatusCode, message: &str) -> Response {
    let code = status.as_u16();
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "Test", "message": message, "code": code});
    (status, Json(body)).into_response()
}
