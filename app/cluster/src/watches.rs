//! The watches that fill the table.
//!
//! One object that cannot be read is left out and named in the log; the others go on. A watch that
//! breaks is begun again by its stream, after a pause; what was seen before stays.

use std::fmt::Debug;
use std::sync::Arc;

use famulus_crds::labels;
use famulus_crds::plugin::Plugin;
use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Tasks};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::plugin::CachedPlugin;
use crate::runner::SandboxPod;
use crate::table::Table;

/// What the watch of one kind does with what it sees.
struct Sink<K, Row> {
    name: &'static str,
    config: watcher::Config,
    read: fn(&K) -> Option<Row>,
    list: fn(&Table, Vec<Row>),
    apply: fn(&Table, Row),
    delete: fn(&Table, &str),
}

pub(crate) fn spawn(client: &Client, namespace: &str, table: &Arc<Table>, tasks: &Tasks) {
    let all = watcher::Config::default();
    let plugins = Sink::<Plugin, CachedPlugin> {
        name: "cluster.plugins",
        config: all.clone(),
        read: |plugin| CachedPlugin::of(plugin.clone()),
        list: Table::list_plugins,
        apply: Table::apply_plugin,
        delete: Table::delete_plugin,
    };
    let pods = Sink::<Pod, SandboxPod> {
        name: "cluster.pods",
        config: all.labels(labels::PART),
        read: SandboxPod::of,
        list: Table::list_pods,
        apply: Table::apply_pod,
        delete: Table::delete_pod,
    };
    start(client, namespace, plugins, table, tasks);
    start(client, namespace, pods, table, tasks);
}

fn start<K, Row>(
    client: &Client,
    namespace: &str,
    sink: Sink<K, Row>,
    table: &Arc<Table>,
    tasks: &Tasks,
) where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    Row: Send + 'static,
{
    let api: Api<DeserializeGuard<K>> = Api::namespaced(client.clone(), namespace);
    let (table, token, sink) = (Arc::clone(table), tasks.token(), Arc::new(sink));
    tasks.spawn_loop(sink.name, OnExit::Restart, move || {
        let (api, token) = (api.clone(), token.clone());
        let (table, sink) = (Arc::clone(&table), Arc::clone(&sink));
        async move {
            tokio::select! {
                () = follow(api, &sink, &table) => {}
                () = token.cancelled() => {}
            }
        }
    });
}

async fn follow<K, Row>(api: Api<DeserializeGuard<K>>, sink: &Sink<K, Row>, table: &Table)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let name = sink.name;
    let mut listed = Vec::new();
    let mut events = watcher(api, sink.config.clone()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                let trouble = chain(&error);
                if table.note_trouble(Some(trouble.clone())) {
                    tracing::warn!(watch = name, error = trouble, "the cluster cannot be watched");
                }
                continue;
            }
        };
        if table.note_trouble(None) {
            tracing::info!(watch = name, "the cluster is watched again");
        }
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => listed.extend(read(sink, &object)),
            Event::InitDone => (sink.list)(table, std::mem::take(&mut listed)),
            Event::Apply(object) => match read(sink, &object) {
                Some(row) => (sink.apply)(table, row),
                // Better none than one that is not as it was.
                None => forget(sink, table, &object),
            },
            Event::Delete(object) => forget(sink, table, &object),
        }
    }
}

fn read<K: Resource<DynamicType = ()>, Row>(
    sink: &Sink<K, Row>,
    object: &DeserializeGuard<K>,
) -> Option<Row> {
    match &object.0 {
        Ok(object) => (sink.read)(object),
        Err(broken) => {
            let object = broken.metadata.name.as_deref().unwrap_or_default();
            let error = &broken.error;
            tracing::warn!(
                watch = sink.name,
                object,
                error,
                "an object is left out: it cannot be read"
            );
            None
        }
    }
}

fn forget<K: Resource<DynamicType = ()>, Row>(
    sink: &Sink<K, Row>,
    table: &Table,
    object: &DeserializeGuard<K>,
) {
    if let Some(uid) = &object.meta().uid {
        (sink.delete)(table, uid);
    }
}
