//! What of a cluster a backup keeps, and how a restore makes it again: the Plugins as their owner wrote
//! them, what they are configured by, and the Secrets of a release. What Plugins keep on volumes is read and
//! given back by a [`Keeper`](crate::keeper::Keeper).
//!
//! Nothing that is there is changed: a Plugin or a Secret of the same name stays as it is.

mod plugin;

use famulus_crds::{labels::RESTORED_FROM, plugin::Plugin};
use famulus_lifecycle::boxed;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

use self::plugin::KeptPlugin;
use crate::managed::{draft::Draft, object::APP};

/// Objects of one answer.
const PAGE: u32 = 100;

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
#[boxed]
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
#[boxed]
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
        if one.managed {
            apply(&plugins, &one.into_object(rest), name, namespace, &mut done).await?;
        } else {
            create(&plugins, &one.into_object(rest), "Plugin", name, namespace, &mut done).await?;
        }
    }
    Ok(done)
}

/// The Plugins that wait for their files from this backup.
///
/// # Errors
/// The API server refuses, or cannot be reached.
#[boxed]
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
#[boxed]
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
#[boxed]
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

/// Makes a Plugin as the app makes one, so that the app may go on changing it.
async fn apply(
    api: &Api<Plugin>,
    plugin: &Plugin,
    name: String,
    namespace: &str,
    done: &mut Made,
) -> Result<(), KeptError> {
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let there = api.list(&named).await;
    let there =
        there.map_err(|source| KeptError::List { namespace: namespace.to_owned(), source })?;
    if !there.items.is_empty() {
        done.there.push(name);
        return Ok(());
    }
    let object = Draft::of(plugin).object();
    match api.patch(&name, &PatchParams::apply(APP), &Patch::Apply(&object)).await {
        Ok(_) => done.made.push(name),
        Err(source) => {
            let namespace = namespace.to_owned();
            return Err(KeptError::Create { kind: "Plugin", name, namespace, source });
        }
    }
    Ok(())
}
