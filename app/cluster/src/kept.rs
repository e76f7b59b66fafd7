//! What of a cluster a backup keeps, and how a restore makes it again: the Plugins as their owner wrote
//! them, and the Secrets of a release.
//!
//! Nothing that is there is changed: a Plugin or a Secret of the same name stays as it is.

use famulus_crds::plugin::Plugin;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, PostParams},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Objects of one answer.
const PAGE: u32 = 100;

/// The annotation in which kubectl keeps what it applied last.
const OF_KUBECTL: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error("no cluster is configured here; run in a Pod with a ServiceAccount, or set KUBECONFIG")]
    NoCluster(#[source] kube::Error),
    #[error(
        "the Plugins of {namespace} cannot be listed; may this ServiceAccount list them there?"
    )]
    List { namespace: String, source: kube::Error },
    #[error(
        "the {kind} {name} cannot be made in {namespace}; may this ServiceAccount create it there?"
    )]
    Create { kind: &'static str, name: String, namespace: String, source: kube::Error },
    #[error("what the backup holds of Plugins cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

/// A Plugin without what belongs to the cluster that it was in.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct KeptPlugin {
    name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    spec: famulus_crds::plugin::PluginSpec,
    /// The revision that served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
}

/// What became of objects that were to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub made: Vec<String>,
    pub there: Vec<String>,
}

async fn client() -> Result<Client, KeptError> {
    Client::try_default().await.map_err(KeptError::NoCluster)
}

/// The Plugins of a namespace, as [`make_plugins`] reads them, and how many they are.
///
/// # Errors
/// The API server refuses, or cannot be reached.
pub async fn plugins(namespace: &str) -> Result<(Vec<u8>, usize), KeptError> {
    let api: Api<Plugin> = Api::namespaced(client().await?, namespace);
    let mut kept = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list(&page).await;
        let list =
            list.map_err(|source| KeptError::List { namespace: namespace.to_owned(), source })?;
        kept.extend(list.items.into_iter().map(KeptPlugin::of));
        match list.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => page = page.continue_token(&more),
            None => break,
        }
    }
    let bytes = serde_json::to_vec_pretty(&kept).map_err(KeptError::Unreadable)?;
    Ok((bytes, kept.len()))
}

/// Makes the Plugins that are missing. Each serves the revision that served then, where the database
/// has it.
///
/// # Errors
/// The API server refuses one; those before it are there.
pub async fn make_plugins(namespace: &str, kept: &[u8]) -> Result<Made, KeptError> {
    let kept: Vec<KeptPlugin> = serde_json::from_slice(kept).map_err(KeptError::Unreadable)?;
    let api: Api<Plugin> = Api::namespaced(client().await?, namespace);
    let mut done = Made::default();
    for one in kept {
        let name = one.name.clone();
        create(&api, &one.into_object(), "Plugin", name, namespace, &mut done).await?;
    }
    Ok(done)
}

/// Makes a Secret of one key, unless it is there. It carries the labels of those that an installation
/// makes by itself.
///
/// # Errors
/// The API server refuses.
pub async fn make_secret(
    namespace: &str,
    release: &str,
    name: &str,
    key: &str,
    value: Vec<u8>,
) -> Result<Made, KeptError> {
    let api: Api<Secret> = Api::namespaced(client().await?, namespace);
    let labels = [
        ("app.kubernetes.io/name", "famulus"),
        ("app.kubernetes.io/instance", release),
        ("app.kubernetes.io/component", "secret"),
    ];
    let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(value))])),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    };
    let mut done = Made::default();
    create(&api, &secret, "Secret", name.to_owned(), namespace, &mut done).await?;
    Ok(done)
}

async fn create<K>(
    api: &Api<K>,
    object: &K,
    kind: &'static str,
    name: String,
    namespace: &str,
    done: &mut Made,
) -> Result<(), KeptError>
where
    K: Clone + std::fmt::Debug + Serialize + serde::de::DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Ok(_) => done.made.push(name),
        Err(kube::Error::Api(status)) if status.is_already_exists() => done.there.push(name),
        Err(source) => {
            return Err(KeptError::Create { kind, name, namespace: namespace.to_owned(), source });
        }
    }
    Ok(())
}

impl KeptPlugin {
    fn of(plugin: Plugin) -> Self {
        let Plugin { metadata, spec, status } = plugin;
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.remove(OF_KUBECTL);
        Self {
            name: metadata.name.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations,
            spec,
            revision: status.and_then(|status| status.revision),
        }
    }

    fn into_object(self) -> Plugin {
        let Self { name, labels, annotations, mut spec, revision } = self;
        // The newest commit may be another by now, or gone.
        if spec.source.git.is_some() {
            spec.revision = spec.revision.or(revision);
        }
        let mut plugin = Plugin::new(&name, spec);
        plugin.metadata.labels = Some(labels).filter(|labels| !labels.is_empty());
        plugin.metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
        plugin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plugin(source: &serde_json::Value) -> Plugin {
        let object = json!({
            "apiVersion": "famulus.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {
                "name": "weather", "namespace": "old", "uid": "1", "resourceVersion": "7",
                "labels": {"mine": "yes"},
                "annotations": {OF_KUBECTL: "{}", "famulus.dev/refresh": "2"},
            },
            "spec": {"name": "weather", "source": source, "suspend": true},
            "status": {"revision": format!("sha256:{}", "a".repeat(64))},
        });
        serde_json::from_value(object).unwrap()
    }

    fn again(plugin: Plugin) -> Plugin {
        let bytes = serde_json::to_vec(&[KeptPlugin::of(plugin)]).unwrap();
        let mut kept: Vec<KeptPlugin> = serde_json::from_slice(&bytes).unwrap();
        kept.remove(0).into_object()
    }

    #[test]
    fn a_plugin_comes_back_as_its_owner_wrote_it() {
        let before = plugin(&json!({"inline": {"files": []}}));
        let after = again(before.clone());
        assert_eq!(after.spec, before.spec);
        assert_eq!(after.metadata.labels, before.metadata.labels);
        let annotations: Vec<String> = after.metadata.annotations.unwrap().into_keys().collect();
        assert_eq!(annotations, ["famulus.dev/refresh"]);
        let of_the_cluster = (after.metadata.uid, after.metadata.resource_version, after.status);
        assert_eq!(of_the_cluster, (None, None, None));
        assert_eq!(after.metadata.namespace, None);
    }

    #[test]
    fn a_plugin_from_git_serves_the_revision_that_served() {
        let source = json!({"git": {"url": "https://git.home.example/weather"}});
        let before = plugin(&source);
        let served = before.status.as_ref().unwrap().revision.clone();
        assert_eq!(again(before.clone()).spec.revision, served);
        let mut pinned = before;
        pinned.spec.revision = Some(format!("sha256:{}", "b".repeat(64)));
        assert_eq!(again(pinned.clone()).spec.revision, pinned.spec.revision);
    }
}
