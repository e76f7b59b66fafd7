//! A cluster in memory: it answers the requests of the operator as an API server would, counts what
//! is written, and fails where a test says so. Kubelet and controllers are played by the test.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use famulus_operator::cache::Cache;
use famulus_operator::context::Context;
use hyper::{Method, Request, Response, StatusCode};
use kube::client::Body;
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::service_fn;

/// Clones share one.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// By resource (`pods`) and name.
    objects: BTreeMap<(String, String), Value>,
    writes: Vec<String>,
    faults: VecDeque<Fault>,
    counter: u64,
}

/// The next request whose method and path hold these words fails.
struct Fault {
    method: Method,
    path: String,
    how: How,
}

#[derive(Clone, Copy)]
pub(crate) enum How {
    Status(u16, &'static str),
    /// No answer, ever.
    Silence,
    /// Done, but the answer is this one.
    Late(u16, &'static str),
}

impl Cluster {
    pub(crate) fn client(&self) -> Client {
        let cluster = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move { Ok::<_, Infallible>(cluster.answer(request).await) }
        });
        Client::new(service, "sandbox")
    }

    pub(crate) fn fail(&self, method: Method, path: &str, how: How) {
        self.with(|shared| {
            shared.faults.push_back(Fault { method, path: path.to_owned(), how });
        });
    }

    /// What was written since the last time it was asked: `PATCH deployments/weather-runner`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.with(|shared| std::mem::take(&mut shared.writes))
    }

    pub(crate) fn get(&self, resource: &str, name: &str) -> Option<Value> {
        self.with(|shared| shared.objects.get(&(resource.to_owned(), name.to_owned())).cloned())
    }

    pub(crate) fn names(&self, resource: &str) -> Vec<String> {
        self.with(|shared| {
            let names = shared.objects.keys().filter(|(kind, _)| kind == resource);
            names.map(|(_, name)| name.clone()).collect()
        })
    }

    /// Everything that is stored, as text.
    pub(crate) fn all_but(&self, resource: &str) -> String {
        self.with(|shared| {
            let others = shared.objects.iter().filter(|((kind, _), _)| kind != resource);
            others.map(|(_, object)| object.to_string()).collect()
        })
    }

    /// Somebody else's write: it is not counted.
    pub(crate) fn put(&self, resource: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.with(|shared| shared.store(resource, &name, object));
    }

    pub(crate) fn change(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.with(|shared| {
            let key = (resource.to_owned(), name.to_owned());
            let mut object = shared.objects.get(&key).cloned().expect("the object exists");
            change(&mut object);
            shared.store(resource, name, object);
        });
    }

    pub(crate) fn remove(&self, resource: &str, name: &str) {
        self.with(|shared| shared.objects.remove(&(resource.to_owned(), name.to_owned())));
    }

    /// Lets the caches see what is stored, as watches would.
    pub(crate) fn show(&self, context: &Context) {
        let stores = &context.stores;
        self.fill("plugins", &stores.plugins);
        self.fill("serviceaccounts", &stores.identities);
        self.fill("persistentvolumeclaims", &stores.claims);
        self.fill("deployments", &stores.runners);
        self.fill("jobs", &stores.jobs);
        self.fill("pods", &stores.pods);
        self.fill("events", &stores.sandbox_events);
        context.note_users();
    }

    fn fill<K: Serialize + DeserializeOwned + ResourceExt>(
        &self,
        resource: &str,
        cache: &Cache<K>,
    ) {
        cache.apply(Event::Init);
        for name in self.names(resource) {
            let object = self.get(resource, &name).expect("it is listed");
            // What the operator tells is among the events, too, and its watch does not ask for it.
            if resource == "events" && object["reason"] != "FailedCreatePodSandBox" {
                continue;
            }
            let object = serde_json::from_value(object).expect("it is of its kind");
            cache.apply(Event::InitApply(object));
        }
        cache.apply(Event::InitDone);
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let fault = self.with(|shared| {
            let place = shared
                .faults
                .iter()
                .position(|fault| fault.method == parts.method && path.contains(&fault.path));
            place.and_then(|place| shared.faults.remove(place))
        });
        let late = match fault.map(|fault| fault.how) {
            Some(How::Silence) => std::future::pending().await,
            Some(How::Status(code, reason)) => return failure(code, reason),
            Some(How::Late(code, reason)) => Some(failure(code, reason)),
            None => None,
        };
        let bytes = body.collect_bytes().await.expect("a whole body");
        let sent: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let target = Target::of(&path);
        let answer = self.with(|shared| shared.answer(&parts.method, &target, sent));
        late.unwrap_or(answer)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Shared) -> T) -> T {
        work(&mut self.shared.lock())
    }
}

struct Target {
    resource: String,
    name: Option<String>,
    is_status: bool,
}

impl Target {
    /// `/apis/apps/v1/namespaces/sandbox/deployments/weather-runner/status`
    fn of(path: &str) -> Self {
        let (_, rest) = path.split_once("/namespaces/").expect("a path in a namespace");
        let mut parts = rest.split('/').skip(1);
        Self {
            resource: parts.next().unwrap_or_default().to_owned(),
            name: parts.next().map(str::to_owned),
            is_status: parts.next() == Some("status"),
        }
    }
}

impl Shared {
    fn answer(&mut self, method: &Method, target: &Target, sent: Value) -> Response<Body> {
        let Target { resource, name, is_status } = target;
        let name = name.clone().or_else(|| sent["metadata"]["name"].as_str().map(str::to_owned));
        let name = name.unwrap_or_default();
        let key = (resource.clone(), name.clone());
        let live = self.objects.get(&key).cloned();
        // As an API server counts.
        if resource == "events" && sent["note"].as_str().is_some_and(|note| note.len() > 1024) {
            return failure(422, "Invalid");
        }
        if method != Method::GET && resource != "events" {
            let of = if *is_status { "/status" } else { "" };
            self.writes.push(format!("{method} {resource}/{name}{of}"));
        }
        match (method, live) {
            (&Method::GET, Some(live)) => success(&live),
            (&Method::DELETE, Some(live)) => {
                let wanted = &sent["preconditions"]["resourceVersion"];
                if !wanted.is_null() && *wanted != live["metadata"]["resourceVersion"] {
                    return failure(409, "Conflict");
                }
                self.objects.remove(&key);
                success(&json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            (&Method::PATCH | &Method::POST | &Method::PUT, live) => {
                let wanted = sent["metadata"]["resourceVersion"].as_str();
                let there = live.as_ref().map(|live| &live["metadata"]["resourceVersion"]);
                if wanted.is_some() && there.and_then(Value::as_str) != wanted {
                    return failure(409, "Conflict");
                }
                let mut object = live.unwrap_or_else(|| json!({}));
                let before = object["spec"].clone();
                if *is_status {
                    object["status"] = sent["status"].clone();
                } else {
                    merge(&mut object, sent);
                }
                if resource == "deployments" && object["spec"] != before {
                    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
                    object["metadata"]["generation"] = json!(generation + 1);
                }
                success(&self.store(resource, &name, object))
            }
            _ => failure(404, "NotFound"),
        }
    }

    fn store(&mut self, resource: &str, name: &str, mut object: Value) -> Value {
        let key = (resource.to_owned(), name.to_owned());
        if self.objects.get(&key) == Some(&object) {
            return object;
        }
        self.counter += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(name);
        metadata["namespace"] = json!("sandbox");
        metadata["resourceVersion"] = json!(self.counter.to_string());
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{}", self.counter));
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!("2026-11-21T10:00:00Z");
        }
        // What an API server fills in where there is a default class.
        if resource == "persistentvolumeclaims" && object["spec"]["storageClassName"].is_null() {
            object["spec"]["storageClassName"] = json!("standard");
            object["spec"]["volumeMode"] = json!("Filesystem");
        }
        self.objects.insert(key, object.clone());
        object
    }
}

/// As far as the operator's objects need it: maps are merged, lists and values replaced.
fn merge(live: &mut Value, sent: Value) {
    match (live, sent) {
        (Value::Object(live), Value::Object(sent)) => {
            for (key, value) in sent {
                if ["data", "template"].contains(&key.as_str()) {
                    live.insert(key, value);
                } else {
                    merge(live.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (live, sent) => *live = sent,
    }
}

fn success(object: &Value) -> Response<Body> {
    respond(StatusCode::OK, object)
}

fn failure(code: u16, reason: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": format!("scripted: {reason}"),
    });
    respond(StatusCode::from_u16(code).expect("a status"), &status)
}

fn respond(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = status;
    response
}
