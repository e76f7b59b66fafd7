//! `famulus-operator retire`: before an uninstall, ends what must not end all at once.
//!
//! The order is what it is for. The policies that keep runners in are the release's and go with it, so
//! every runner ends before; the operator ends first of all, because it would make them anew; and the
//! app, which takes the last results of runners and hands its turns over, ends while it has a database.
//!
//! ```text
//! operator to 0 ─► its Pods gone ─► its Lease, finalizers off ─► Deployments, Jobs, accounts ─► Pods gone
//!   ─► app to 0 ─► its Pods gone
//! ```
//!
//! Plugins, volumes and Secrets stay.

use std::time::Duration;

use famulus_crds::plugin::Plugin;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Environment, EnvironmentError};

/// How often Pods are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// The operator drains what it reconciles, the app its turns.
const SYSTEM_ENDS: Duration = Duration::from_mins(2);

/// A runner that is in a call has 330 s of grace; a little more for its node.
const RUNNERS_END: Duration = Duration::from_mins(7);

/// The beginning of every finalizer of ours.
const FINALIZERS: &str = "famulus.dev/";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("the Deployment {name} cannot be scaled to nothing")]
    Stop { name: String, source: kube::Error },
    #[error("the Lease {name} cannot be deleted")]
    DeleteLease { name: String, source: kube::Error },
    #[error("{kind} cannot be listed in the namespace {namespace}")]
    List { kind: String, namespace: String, source: kube::Error },
    #[error("the finalizers of Plugin {name} cannot be removed")]
    Release { name: String, source: kube::Error },
    #[error("{kind} cannot be deleted in the namespace {namespace}")]
    Delete { kind: String, namespace: String, source: kube::Error },
    #[error(
        "Pods are still there after {seconds} s: {names}; look with kubectl describe why they do not \
         end, and uninstall again"
    )]
    StillThere { seconds: u64, names: String },
}

/// Ends what runs.
///
/// # Errors
/// Something cannot be ended; the message says what.
pub async fn run(
    client: Client,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Error> {
    let environment = Environment(environment);
    let release = environment.text("FAMULUS_RETIRE_RELEASE")?;
    let system = environment.text("FAMULUS_RETIRE_SYSTEM_NAMESPACE")?;
    let sandbox = environment.text("FAMULUS_RETIRE_SANDBOX_NAMESPACE")?;
    let made =
        format!("app.kubernetes.io/managed-by=famulus-operator,famulus.dev/release={release}");
    let ends = async |name: &str, component: &str| {
        let pods = format!(
            "app.kubernetes.io/name=famulus,app.kubernetes.io/instance={release},\
             app.kubernetes.io/component={component}"
        );
        stop(&client, &system, name).await?;
        gone(&client, &system, &pods, SYSTEM_ENDS).await
    };

    let operator = format!("{release}-operator");
    ends(&operator, "operator").await?;
    delete_lease(&client, &system, operator).await?;
    release_plugins(&client, &sandbox).await?;
    delete_all::<Deployment>(&client, &sandbox, &made).await?;
    delete_all::<Job>(&client, &sandbox, &made).await?;
    delete_all::<ServiceAccount>(&client, &sandbox, &made).await?;
    gone(&client, &sandbox, &made, RUNNERS_END).await?;
    tracing::info!("nothing runs in the sandbox; Plugins, volumes and Secrets stay");
    ends(&release, "app").await?;
    tracing::info!("the app has ended");
    Ok(())
}

/// Leaves a Deployment without Pods.
async fn stop(client: &Client, namespace: &str, name: &str) -> Result<(), Error> {
    let nothing = Patch::Merge(json!({"spec": {"replicas": 0}}));
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    match deployments.patch_scale(name, &PatchParams::default(), &nothing).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => Err(Error::Stop { name: name.to_owned(), source }),
    }
}

/// The operator made it, so nobody else takes it away.
async fn delete_lease(client: &Client, namespace: &str, name: String) -> Result<(), Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match leases.delete(&name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => Err(Error::DeleteLease { name, source }),
    }
}

/// Waits until no Pod has the labels.
async fn gone(
    client: &Client,
    namespace: &str,
    labels: &str,
    patience: Duration,
) -> Result<(), Error> {
    let looks = patience.as_secs() / LOOK.as_secs();
    let mut names = String::new();
    for _ in 0..looks {
        let pods = list::<Pod>(client, namespace, labels).await?;
        if pods.is_empty() {
            return Ok(());
        }
        names = pods.iter().map(Pod::name_any).collect::<Vec<_>>().join(", ");
        tokio::time::sleep(LOOK).await;
    }
    Err(Error::StillThere { seconds: patience.as_secs(), names })
}

/// Takes our finalizers off Plugins: nobody is left to do it later, and one that has them could never
/// be deleted. Without the definition there are no Plugins.
async fn release_plugins(client: &Client, namespace: &str) -> Result<(), Error> {
    let plugins = match list::<Plugin>(client, namespace, "").await {
        Err(Error::List { source: kube::Error::Api(status), .. }) if status.is_not_found() => {
            return Ok(());
        }
        plugins => plugins?,
    };
    let api: Api<Plugin> = Api::namespaced(client.clone(), namespace);
    for plugin in plugins {
        let (ours, others): (Vec<_>, Vec<_>) =
            plugin.finalizers().iter().partition(|name| name.starts_with(FINALIZERS));
        if ours.is_empty() {
            continue;
        }
        // The version makes a change by somebody else a conflict, which a repeated run settles.
        let version = plugin.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": others}});
        api.patch(&plugin.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|source| Error::Release { name: plugin.name_any(), source })?;
    }
    Ok(())
}

async fn list<K>(client: &Client, namespace: &str, labels: &str) -> Result<Vec<K>, Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default().labels(labels)).await;
    let failed = |source| Error::List {
        kind: K::plural(&()).into_owned(),
        namespace: namespace.to_owned(),
        source,
    };
    Ok(found.map_err(failed)?.items)
}

async fn delete_all<K>(client: &Client, namespace: &str, labels: &str) -> Result<(), Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let which = ListParams::default().labels(labels);
    // In the background the objects are gone at once, and their Pods end by themselves.
    let deleted = api.delete_collection(&DeleteParams::background(), &which).await;
    let failed = |source| Error::Delete {
        kind: K::plural(&()).into_owned(),
        namespace: namespace.to_owned(),
        source,
    };
    deleted.map(drop).map_err(failed)
}
