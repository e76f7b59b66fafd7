//! What of a cluster a backup keeps, and how a restore makes it again: the Plugins as their owner wrote
//! them, what they are configured by, and the Secrets of a release. What Plugins keep on volumes is read and
//! given back by a [`Keeper`](crate::keeper::Keeper).
//!
//! Nothing that is there is changed: a Plugin or a Secret of the same name stays as it is.

use famulus_crds::{
    labels::{CONFIG_FOR, RESTORED_FROM},
    names::stem,
    plugin::{Plugin, State},
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

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
    #[error(
        "the Plugin {name} cannot be changed in {namespace}; may this ServiceAccount patch it there?"
    )]
    Change { name: String, namespace: String, source: kube::Error },
    #[error("what the backup holds of Plugins cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

/// What of a Plugin only its runner has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeps {
    /// The name of the Plugin.
    pub plugin: String,
    pub files: bool,
    pub configuration: bool,
    /// Nothing of it runs, so that nothing can be asked.
    pub suspended: bool,
}

/// What else a backup has of Plugins that are made again.
#[derive(Debug, Default)]
pub struct Rest {
    /// The name of the backup.
    pub backup: String,
    /// Plugins whose files it has.
    pub files: BTreeSet<String>,
    /// What Plugins are configured by, as the JSON of an object.
    pub configurations: BTreeMap<String, Vec<u8>>,
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

pub(crate) async fn client() -> Result<Client, KeptError> {
    Client::try_default().await.map_err(KeptError::NoCluster)
}

/// The Plugins of a namespace, as [`make_plugins`] reads them, and what each of them keeps besides.
///
/// # Errors
/// The API server refuses, or cannot be reached.
pub async fn plugins(namespace: &str) -> Result<(Vec<u8>, Vec<Keeps>), KeptError> {
    let api: Api<Plugin> = Api::namespaced(client().await?, namespace);
    let (mut kept, mut keeps) = (Vec::new(), Vec::new());
    list(&api, namespace, |plugin| {
        keeps.push(Keeps::of(&plugin));
        kept.push(KeptPlugin::of(plugin));
    })
    .await?;
    Ok((serde_json::to_vec_pretty(&kept).map_err(KeptError::Unreadable)?, keeps))
}

/// Makes the Plugins that are missing, with what they are configured by. Each serves the revision that
/// served then, where the database has it, and waits for its files, where the backup has them.
///
/// # Errors
/// The API server refuses one; those before it are there.
pub async fn make_plugins(namespace: &str, kept: &[u8], rest: &Rest) -> Result<Made, KeptError> {
    let kept: Vec<KeptPlugin> = serde_json::from_slice(kept).map_err(KeptError::Unreadable)?;
    let client = client().await?;
    let plugins: Api<Plugin> = Api::namespaced(client.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let (mut done, mut configured) = (Made::default(), Made::default());
    for one in kept {
        let name = one.name.clone();
        // First what it is configured by: without it the plugin would run as if it had nothing.
        if let Some(secret) = one.configured_by(rest).map_err(KeptError::Unreadable)? {
            let of = secret.name_any();
            create(&secrets, &secret, "Secret", of, namespace, &mut configured).await?;
        }
        create(&plugins, &one.into_object(rest), "Plugin", name, namespace, &mut done).await?;
    }
    Ok(done)
}

/// The Plugins that wait for their files from this backup.
///
/// # Errors
/// The API server refuses, or cannot be reached.
pub async fn waiting(namespace: &str, backup: &str) -> Result<Vec<String>, KeptError> {
    let api: Api<Plugin> = Api::namespaced(client().await?, namespace);
    let mut waiting = Vec::new();
    list(&api, namespace, |plugin| {
        if plugin.annotations().get(RESTORED_FROM).is_some_and(|from| from == backup) {
            waiting.push(plugin.name_any());
        }
    })
    .await?;
    Ok(waiting)
}

/// Says that a Plugin waits no more.
///
/// # Errors
/// The API server refuses, or cannot be reached.
pub async fn has_its_files(namespace: &str, name: &str) -> Result<(), KeptError> {
    let api: Api<Plugin> = Api::namespaced(client().await?, namespace);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {RESTORED_FROM: Value::Null}}}));
    let patched = api.patch(name, &PatchParams::default(), &patch).await;
    let (name, namespace) = (name.to_owned(), namespace.to_owned());
    patched.map(drop).map_err(|source| KeptError::Change { name, namespace, source })
}

async fn list(
    api: &Api<Plugin>,
    namespace: &str,
    mut each: impl FnMut(Plugin),
) -> Result<(), KeptError> {
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list(&page).await;
        let list =
            list.map_err(|source| KeptError::List { namespace: namespace.to_owned(), source })?;
        list.items.into_iter().for_each(&mut each);
        match list.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => page = page.continue_token(&more),
            None => return Ok(()),
        }
    }
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

impl Keeps {
    fn of(plugin: &Plugin) -> Self {
        let spec = &plugin.spec;
        // What was never built has written nothing.
        let serves = plugin.status.as_ref().is_some_and(|status| status.revision.is_some());
        Self {
            plugin: plugin.name_any(),
            files: serves && spec.state == State::Persistent,
            configuration: serves && spec.config_secret_ref.is_some(),
            suspended: spec.suspend,
        }
    }
}

impl KeptPlugin {
    fn of(plugin: Plugin) -> Self {
        let Plugin { metadata, spec, status } = plugin;
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.remove(OF_KUBECTL);
        annotations.remove(RESTORED_FROM);
        Self {
            name: metadata.name.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations,
            spec,
            revision: status.and_then(|status| status.revision),
        }
    }

    /// The Secret that it is configured by.
    fn configured_by(&self, rest: &Rest) -> serde_json::Result<Option<Secret>> {
        let values = rest.configurations.get(&self.name);
        let Some((values, reference)) = values.zip(self.spec.config_secret_ref.as_ref()) else {
            return Ok(None);
        };
        let values: BTreeMap<String, String> = serde_json::from_slice(values)?;
        Ok(Some(Secret {
            metadata: ObjectMeta {
                name: Some(reference.name.clone()),
                labels: Some([(CONFIG_FOR.to_owned(), stem(&self.name))].into()),
                ..ObjectMeta::default()
            },
            string_data: Some(values),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }))
    }

    fn into_object(self, rest: &Rest) -> Plugin {
        let Self { name, labels, mut annotations, mut spec, revision } = self;
        if rest.files.contains(&name) && spec.state == State::Persistent {
            annotations.insert(RESTORED_FROM.to_owned(), rest.backup.clone());
        }
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

    fn plugin(source: &Value) -> Plugin {
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

    fn kept(plugin: Plugin) -> KeptPlugin {
        let bytes = serde_json::to_vec(&[KeptPlugin::of(plugin)]).unwrap();
        let mut kept: Vec<KeptPlugin> = serde_json::from_slice(&bytes).unwrap();
        kept.remove(0)
    }

    fn again(plugin: Plugin) -> Plugin {
        kept(plugin).into_object(&Rest::default())
    }

    #[test]
    fn a_plugin_waits_for_the_files_that_a_backup_has_and_has_its_configuration_before() {
        let mut before = plugin(&json!({"inline": {"files": []}}));
        before.annotations_mut().insert(RESTORED_FROM.to_owned(), "an older one".to_owned());
        assert_eq!(again(before.clone()).annotations().get(RESTORED_FROM), None);
        let rest = Rest {
            backup: "b".to_owned(),
            files: ["weather".to_owned()].into(),
            configurations: [("weather".to_owned(), br#"{"token": "t"}"#.to_vec())].into(),
        };
        assert_eq!(kept(before.clone()).configured_by(&rest).unwrap(), None, "it asks for none");
        before.spec.config_secret_ref =
            Some(serde_json::from_value(json!({"name": "weather-config"})).unwrap());
        let secret = kept(before.clone()).configured_by(&rest).unwrap().unwrap();
        assert_eq!(secret.name_any(), "weather-config");
        assert_eq!(secret.labels().get(CONFIG_FOR), Some(&stem("weather")));
        assert_eq!(secret.string_data.unwrap()["token"], "t");
        let after = kept(before.clone()).into_object(&rest);
        assert_eq!(after.annotations()[RESTORED_FROM], "b");
        let keeps = |plugin: &Plugin| {
            let Keeps { files, configuration, suspended, .. } = Keeps::of(plugin);
            (files, configuration, suspended)
        };
        assert_eq!(keeps(&before), (true, true, true));
        before.spec.state = State::Ephemeral;
        before.spec.suspend = false;
        assert_eq!(keeps(&before), (false, true, false));
        assert_eq!(kept(before.clone()).into_object(&rest).annotations().get(RESTORED_FROM), None);
        before.status = None;
        assert_eq!(keeps(&before), (false, false, false));
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
