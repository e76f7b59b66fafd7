//! What there is: everything that a decision about one Plugin looks at, gathered once.
//!
//! Children come from caches that watches keep. Secrets are read one by one, by name: the operator
//! may not list them. The mounted one is read from the API server each time, since the record in it
//! decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use famulus_crds::labels::{CONFIG_FOR, MANAGED_BY, OPERATOR, PART, PLUGIN, Part};
use famulus_crds::names::{Child, child, stem};
use famulus_crds::plugin::Plugin;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::{Resource, ResourceExt};

use super::brought;
use super::build::{self, USER};
use super::error::Error;
use crate::cache::Cache;
use crate::context::Context;

/// What is known about one Plugin.
#[derive(Clone, Debug)]
pub struct Observed {
    pub plugin: Arc<Plugin>,
    /// An older Plugin with the same name of its own.
    pub taken_by: Option<String>,
    pub identity: Option<Arc<ServiceAccount>>,
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    pub runner: Option<Arc<Deployment>>,
    pub jobs: Vec<Arc<Job>>,
    pub pods: Vec<Arc<Pod>>,
    /// What the kubelet said of sandboxes that it could not make, by the UID of the Pod.
    pub sandbox_events: BTreeMap<String, Vec<Arc<Event>>>,
    pub mounted: Option<Secret>,
    pub config: Config,
    /// The user that its Pods run as.
    pub user: i64,
    pub now: Timestamp,
}

/// What the owner gave for the plugin's configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Config {
    /// `spec.configSecretRef` is left out.
    NotAsked,
    /// The Secret of this name does not exist.
    Missing(String),
    /// The Secret of this name is the operator's, or of a kind that Kubernetes itself uses.
    NotTheOwners(String),
    /// The Secret of this name has no label that names the plugin: nothing of it is read.
    NotGranted {
        name: String,
        /// What the plugin was given before, which it keeps.
        values: BTreeMap<String, String>,
    },
    /// What the app brought: `spec.configSecretRef` is left out.
    Brought {
        values: BTreeMap<String, String>,
        /// The Secret that it came in. It is deleted once the values stand in the mounted one.
        secret: Option<Box<Secret>>,
        /// The annotation that told of it, once nothing is left to take.
        taken: Option<String>,
    },
    Values {
        values: BTreeMap<String, String>,
        /// Keys whose values are bytes that are no text, which config.json cannot hold.
        unreadable: Vec<String>,
    },
}

impl Config {
    pub fn values(&self) -> BTreeMap<String, String> {
        match self {
            Self::Values { values, .. }
            | Self::NotGranted { values, .. }
            | Self::Brought { values, .. } => values.clone(),
            Self::NotAsked | Self::Missing(_) | Self::NotTheOwners(_) => BTreeMap::new(),
        }
    }
}

impl Observed {
    /// The Pods that run the plugin's tools, and are not about to end.
    pub fn runners(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.of_part(Part::Runner).filter(|pod| pod.metadata.deletion_timestamp.is_none())
    }

    /// Why the sandbox of this Pod was not made.
    pub fn sandbox_events(&self, pod: &Pod) -> &[Arc<Event>] {
        let uid = pod.metadata.uid.as_ref();
        uid.and_then(|uid| self.sandbox_events.get(uid)).map_or(&[], Vec::as_slice)
    }

    /// The Pods that are there for `part`.
    pub fn of_part(&self, part: Part) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods
            .iter()
            .filter(move |pod| pod.labels().get(PART).is_some_and(|value| value == part.name()))
    }
}

pub async fn observe(plugin: Arc<Plugin>, context: &Context) -> Result<Observed, Error> {
    let name = plugin.name_any();
    let uid = plugin.uid().unwrap_or_default();
    let stem = stem(&name);
    let stores = &context.stores;
    let mounted = context.secret(&child(&name, Child::Mounted)).await?;
    let mounted = mine(mounted, &uid)?;
    let config = match &plugin.spec.config_secret_ref {
        None => brought::brought(&plugin, mounted.as_ref(), context).await?,
        Some(reference) => {
            let secret = context.secret(&reference.name).await?;
            given(&reference.name, &stem, secret, mounted.as_ref())
        }
    };
    let identity = stores.identities.get(&child(&name, Child::Identity)).filter(owned(&uid));
    let claim = stores.claims.get(&child(&name, Child::State)).filter(owned(&uid));
    let runner = stores.runners.get(&child(&name, Child::Runner)).filter(owned(&uid));
    let noted = [
        identity.as_ref().and_then(|identity| user_of(identity.annotations())),
        claim.as_ref().and_then(|claim| user_of(claim.annotations())),
    ];
    let user = context.users.of(&uid, noted.into_iter().flatten().next());
    let user = user.ok_or_else(|| Error::NoUser { name: name.clone() })?;
    let pods = stores.pods.indexed(&stem);
    Ok(Observed {
        taken_by: taken_by(&plugin, &stores.plugins.indexed(&plugin.spec.name)),
        identity,
        claim,
        runner,
        jobs: stores.jobs.indexed(&stem).into_iter().filter(owned(&uid)).collect(),
        sandbox_events: sandbox_events(&pods, &stores.sandbox_events),
        pods,
        mounted,
        config,
        user,
        now: context.now(),
        plugin,
    })
}

/// Children of a Plugin that was deleted and made anew under the same name are not this one's.
fn owned<K: Resource>(uid: &str) -> impl Fn(&Arc<K>) -> bool {
    move |object| is_owned(object.as_ref(), uid)
}

fn is_owned<K: Resource>(object: &K, uid: &str) -> bool {
    object.meta().owner_references.iter().flatten().any(|owner| owner.uid == uid)
}

fn user_of(annotations: &BTreeMap<String, String>) -> Option<i64> {
    annotations.get(USER)?.parse().ok()
}

/// A Secret of a Plugin that was deleted goes in a moment. Any other is not overwritten.
fn mine(secret: Option<Secret>, uid: &str) -> Result<Option<Secret>, Error> {
    match secret {
        Some(secret) if !is_owned(&secret, uid) => Err(Error::Foreign { name: secret.name_any() }),
        secret => Ok(secret),
    }
}

fn given(name: &str, stem: &str, secret: Option<Secret>, mounted: Option<&Secret>) -> Config {
    let Some(secret) = secret else { return Config::Missing(name.to_owned()) };
    let ours = secret.labels().get(MANAGED_BY).is_some_and(|by| by == OPERATOR)
        || secret.labels().contains_key(PLUGIN);
    let opaque = secret.type_.as_deref().is_none_or(|kind| kind == "Opaque");
    if ours || !opaque {
        return Config::NotTheOwners(name.to_owned());
    }
    if secret.labels().get(CONFIG_FOR).map(String::as_str) != Some(stem) {
        let values = mounted.and_then(build::mounted_values).unwrap_or_default();
        return Config::NotGranted { name: name.to_owned(), values };
    }
    let (mut values, mut unreadable) = (BTreeMap::new(), Vec::new());
    for (key, value) in secret.data.unwrap_or_default() {
        match String::from_utf8(value.0) {
            Ok(text) => {
                values.insert(key, text);
            }
            Err(_bytes) => unreadable.push(key),
        }
    }
    Config::Values { values, unreadable }
}

fn sandbox_events(pods: &[Arc<Pod>], events: &Cache<Event>) -> BTreeMap<String, Vec<Arc<Event>>> {
    let uids = pods.iter().filter_map(|pod| pod.metadata.uid.clone());
    let all = uids.map(|uid| (uid.clone(), events.indexed(&uid)));
    all.filter(|(_, events)| !events.is_empty()).collect()
}

/// Where two have one name, the older one has it.
fn taken_by(plugin: &Plugin, all: &[Arc<Plugin>]) -> Option<String> {
    let age = |plugin: &Plugin| {
        let created = plugin.creation_timestamp().map(|time| time.0);
        (created, plugin.uid())
    };
    let others = all.iter().filter(|other| {
        other.uid() != plugin.uid()
            && other.spec.name == plugin.spec.name
            && other.metadata.deletion_timestamp.is_none()
    });
    let oldest = others.min_by_key(|other| age(other))?;
    (age(oldest) < age(plugin)).then(|| oldest.name_any())
}
