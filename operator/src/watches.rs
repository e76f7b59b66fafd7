//! The watches that fill the caches, and tell which Plugin to look at.
//!
//! Each kind has a watch of its own, limited to what is ours. An object that cannot be read is left
//! out, with a word in the log; the watch goes on. A watch that breaks begins anew, ever more slowly.

use std::fmt::Debug;
use std::sync::Arc;

use famulus_crds::labels::{MANAGED_BY, OPERATOR};
use famulus_crds::plugin::Plugin;
use famulus_lifecycle::{OnExit, Tasks};
use futures::{StreamExt, pin_mut};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Event as SandboxEvent;
use kube::core::{DeserializeGuard, ObjectMeta, PartialObjectMeta, PartialObjectMetaExt as _};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use crate::cache::Cache;
use crate::context::{Context, Stores};
use crate::work_queue::WorkQueue;

/// Objects in one answer while a list is read. What is kept of one lies among what was read with it,
/// and holds on to the pages of memory around it: few at a time leave few such pages.
const PAGE: u32 = 50;

/// What the kubelet calls it when the sandbox of a Pod cannot be made.
const SANDBOX_FAILED: &str = "reason=FailedCreatePodSandBox";

/// A Plugin as the controller queues it: its name. What else is known of it is in its cache.
pub type Queued = PartialObjectMeta<Plugin>;

/// Starts all of them.
pub fn start(
    context: &Arc<Context>,
    client: &Client,
    writer: Writer<Queued>,
    queue: &WorkQueue,
    tasks: &Tasks,
) {
    plugins(context, client, writer, queue, tasks);
    children(context, client, queue, tasks, "watch.identities", |stores| &stores.identities);
    children(context, client, queue, tasks, "watch.claims", |stores| &stores.claims);
    children(context, client, queue, tasks, "watch.runners", |stores| &stores.runners);
    children(context, client, queue, tasks, "watch.jobs", |stores| &stores.jobs);
    children(context, client, queue, tasks, "watch.pods", |stores| &stores.pods);
    sandbox_events(context, client, queue, tasks);
}

fn plugins(
    context: &Arc<Context>,
    client: &Client,
    writer: Writer<Queued>,
    queue: &WorkQueue,
    tasks: &Tasks,
) {
    let api: Api<DeserializeGuard<Plugin>> = Api::namespaced(client.clone(), &context.namespace);
    let (context, queue) = (Arc::clone(context), queue.clone());
    let token = tasks.token();
    // The writer outlives a watch that panicked.
    let writer = Arc::new(Mutex::new(writer));
    tasks.spawn_loop("watch.plugins", OnExit::Restart, move || {
        let (api, context, queue) = (api.clone(), Arc::clone(&context), queue.clone());
        let token = token.clone();
        let writer = Arc::clone(&writer);
        async move {
            let events = watch(api, watcher::Config::default().page_size(PAGE)).default_backoff();
            let events = events.take_until(token.cancelled_owned());
            pin_mut!(events);
            while let Some(event) = events.next().await {
                let Some(event) = readable(event) else { continue };
                let about = match &event {
                    Event::Apply(plugin) | Event::InitApply(plugin) => vec![plugin.name_any()],
                    Event::Delete(plugin) => {
                        context.forget(&plugin.name_any(), &plugin.uid().unwrap_or_default());
                        // Who waited for its name.
                        context.stores.plugins.names(&plugin.spec.name).into_iter().collect()
                    }
                    Event::Init | Event::InitDone => Vec::new(),
                };
                writer.lock().await.apply_watcher_event(&queued(&event));
                context.stores.plugins.apply(event);
                for name in about {
                    queue.push(name);
                }
            }
        }
    });
}

/// What the controller's own store keeps of a Plugin.
fn queued(event: &Event<Plugin>) -> Event<Queued> {
    let queued = |plugin: &Plugin| {
        let (name, namespace) = (plugin.metadata.name.clone(), plugin.metadata.namespace.clone());
        ObjectMeta { name, namespace, ..ObjectMeta::default() }.into_response_partial()
    };
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(plugin) => Event::InitApply(queued(plugin)),
        Event::Apply(plugin) => Event::Apply(queued(plugin)),
        Event::Delete(plugin) => Event::Delete(queued(plugin)),
    }
}

fn children<K>(
    context: &Arc<Context>,
    client: &Client,
    queue: &WorkQueue,
    tasks: &Tasks,
    name: &'static str,
    cache: fn(&Stores) -> &Cache<K>,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static,
{
    let api: Api<DeserializeGuard<K>> = Api::namespaced(client.clone(), &context.namespace);
    let (context, queue) = (Arc::clone(context), queue.clone());
    let token = tasks.token();
    tasks.spawn_loop(name, OnExit::Restart, move || {
        let (api, context, queue) = (api.clone(), Arc::clone(&context), queue.clone());
        let token = token.clone();
        async move {
            let ours = format!("{MANAGED_BY}={OPERATOR}");
            let config = watcher::Config::default().labels(&ours).page_size(PAGE);
            let events = watch(api, config).default_backoff();
            let events = events.take_until(token.cancelled_owned());
            pin_mut!(events);
            while let Some(event) = events.next().await {
                let Some(event) = readable(event) else { continue };
                let about = match &event {
                    Event::Apply(child) | Event::InitApply(child) | Event::Delete(child) => {
                        belongs_to(&context, child)
                    }
                    Event::Init | Event::InitDone => Vec::new(),
                };
                cache(&context.stores).apply(event);
                for name in about {
                    queue.push(name);
                }
            }
        }
    });
}

/// Events about Pods whose sandbox could not be made: nothing else is asked for.
fn sandbox_events(context: &Arc<Context>, client: &Client, queue: &WorkQueue, tasks: &Tasks) {
    let api: Api<DeserializeGuard<SandboxEvent>> =
        Api::namespaced(client.clone(), &context.namespace);
    let (context, queue) = (Arc::clone(context), queue.clone());
    let token = tasks.token();
    tasks.spawn_loop("watch.sandbox_events", OnExit::Restart, move || {
        let (api, context, queue) = (api.clone(), Arc::clone(&context), queue.clone());
        let token = token.clone();
        async move {
            let config = watcher::Config::default().fields(SANDBOX_FAILED).page_size(PAGE);
            let events = watch(api, config).default_backoff();
            let events = events.take_until(token.cancelled_owned());
            pin_mut!(events);
            while let Some(event) = events.next().await {
                let Some(event) = readable(event) else { continue };
                let pod = match &event {
                    Event::Apply(told) => told.involved_object.name.clone(),
                    // Whoever begins looks at all.
                    Event::InitApply(_) | Event::Delete(_) | Event::Init | Event::InitDone => None,
                };
                context.stores.sandbox_events.apply(event);
                let pod = pod.and_then(|pod| context.stores.pods.get(&pod));
                for name in pod.into_iter().flat_map(|pod| belongs_to(&context, pod.as_ref())) {
                    queue.push(name);
                }
            }
        }
    });
}

/// The Plugin of a child. A Pod belongs to its Job or ReplicaSet first, and has the label.
fn belongs_to<K: ResourceExt>(context: &Context, child: &K) -> Vec<String> {
    let plugins = owners(child);
    if !plugins.is_empty() {
        return plugins;
    }
    let stem = child.labels().get(famulus_crds::labels::PLUGIN);
    let stems = stem.into_iter().flat_map(|stem| context.stores.identities.indexed(stem));
    stems.flat_map(|identity| owners(identity.as_ref())).collect()
}

/// The Plugins that own an object.
fn owners<K: ResourceExt>(object: &K) -> Vec<String> {
    let owners = object.owner_references().iter().filter(|owner| owner.kind == "Plugin");
    owners.map(|owner| owner.name.clone()).collect()
}

/// The event without the guard. What cannot be read is left as it was.
fn readable<K>(event: Result<Event<DeserializeGuard<K>>, watcher::Error>) -> Option<Event<K>>
where
    K: Resource<DynamicType = ()>,
{
    let kind = K::kind(&());
    let event = match event {
        Ok(event) => event,
        Err(error) => {
            metrics::counter!("famulus_operator_watch_errors_total", "kind" => kind.to_string())
                .increment(1);
            tracing::warn!(object.kind = %kind, %error, "a watch broke, and begins anew");
            return None;
        }
    };
    let read = |DeserializeGuard(object): DeserializeGuard<K>| match object {
        Ok(object) => Some(object),
        Err(invalid) => {
            metrics::counter!("famulus_operator_unreadable_total", "kind" => kind.to_string())
                .increment(1);
            tracing::warn!(
                object.kind = %kind,
                object.name = invalid.metadata.name.unwrap_or_default(),
                error = invalid.error,
                "an object cannot be read and is left alone; see who wrote it, and whether its \
                 definition is of this release"
            );
            None
        }
    };
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(read(object)?),
        Event::Apply(object) => Event::Apply(read(object)?),
        Event::Delete(object) => Event::Delete(read(object)?),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: Value) -> Option<Event<Plugin>> {
        let object = json!({
            "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "weather"}, "spec": spec,
        });
        let guard: DeserializeGuard<Plugin> = serde_json::from_value(object).unwrap();
        readable(Ok(Event::Apply(guard)))
    }

    #[test]
    fn an_object_that_cannot_be_read_is_left_out() {
        assert!(read(json!({"name": "weather", "source": {}})).is_some());
        assert!(read(json!({"name": ["weather"], "source": {}})).is_none());
        assert!(readable::<Plugin>(Ok(Event::InitDone)).is_some());
        assert!(readable::<Plugin>(Err(watcher::Error::NoResourceVersion)).is_none());
    }
}
