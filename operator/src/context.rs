//! What every reconcile shares: the caches of the watches, the client for reads and writes, and what
//! the process remembers.

use std::collections::BTreeMap;

use famulus_crds::labels::PLUGIN;
use famulus_crds::plugin::Plugin;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::clock;
use crate::events::Events;
use crate::plugin::build::USER;
use crate::plugin::error::Error;
use crate::plugin::replace::{self, Places};
use crate::settings::Pods;
use crate::users::Users;

/// What the watches know.
pub struct Stores {
    /// By the plugin's own name.
    pub plugins: Cache<Plugin>,
    /// Those that are being replaced, under [`replace::REPLACED`].
    pub runners: Cache<Deployment>,
    /// The others by the stem of their Plugin.
    pub identities: Cache<ServiceAccount>,
    pub claims: Cache<PersistentVolumeClaim>,
    pub jobs: Cache<Job>,
    pub pods: Cache<Pod>,
    /// Sandboxes of Pods that were not made, by the UID of the Pod.
    pub sandbox_events: Cache<Event>,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            plugins: Cache::new(|plugin| Some(plugin.spec.name.clone())),
            identities: Cache::new(stem),
            claims: Cache::new(stem),
            runners: Cache::new(replace::state),
            jobs: Cache::new(stem),
            pods: Cache::new(stem),
            sandbox_events: Cache::new(|event| event.involved_object.uid.clone()),
        }
    }
}

fn stem<K: ResourceExt>(object: &K) -> Option<String> {
    object.labels().get(PLUGIN).cloned()
}

impl Stores {
    /// Waits until every first list has been read, but for that of events: nothing rests on having
    /// all of them.
    pub async fn ready(&self) {
        self.plugins.ready().await;
        self.identities.ready().await;
        self.claims.ready().await;
        self.runners.ready().await;
        self.jobs.ready().await;
        self.pods.ready().await;
    }
}

pub struct Context {
    pub client: Client,
    pub namespace: String,
    pub pods: Pods,
    pub root_key: Vec<u8>,
    /// Where there are backups.
    pub keeper_key: Option<Vec<u8>>,
    pub stores: Stores,
    pub users: Users,
    pub events: Events,
    pub replacing: Places,
    clock: fn() -> Timestamp,
    /// Failures in a row, by Plugin. Held for single lookups only.
    failures: Mutex<BTreeMap<String, u32>>,
}

impl Context {
    pub fn new(client: Client, namespace: String, pods: Pods, root_key: Vec<u8>) -> Self {
        Self {
            events: Events::new(client.clone()),
            users: Users::new(pods.uids.clone()),
            client,
            namespace,
            pods,
            root_key,
            keeper_key: None,
            replacing: Places::default(),
            stores: Stores::default(),
            clock: clock::now,
            failures: Mutex::default(),
        }
    }

    /// For backups, which ask runners for what their plugins keep.
    #[must_use]
    pub fn with_keeper_key(self, keeper_key: Option<Vec<u8>>) -> Self {
        Self { keeper_key, ..self }
    }

    /// With another clock, for tests.
    #[must_use]
    pub fn with_clock(self, clock: fn() -> Timestamp) -> Self {
        Self { clock, ..self }
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The Secret of this name, if there is one.
    pub async fn secret(&self, name: &str) -> Result<Option<Secret>, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = secrets.get_opt(name).await;
        found.map_err(|source| Error::Get { kind: "Secret", name: name.to_owned(), source })
    }

    /// Takes in the ids that Plugins have. Called when the caches are full.
    pub fn note_users(&self) {
        let identities = self.stores.identities.all().filter_map(|it| noted_user(it.as_ref()));
        let claims = self.stores.claims.all().filter_map(|it| noted_user(it.as_ref()));
        for (user, plugin) in identities.chain(claims) {
            self.users.note(user, &plugin);
        }
    }

    /// One more failure of this Plugin in a row: how many there were before.
    pub fn failed(&self, plugin: &str) -> u32 {
        let mut failures = self.failures.lock();
        let count = failures.entry(plugin.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count - 1
    }

    pub fn succeeded(&self, plugin: &str) {
        self.failures.lock().remove(plugin);
    }

    /// Whatever was remembered of a Plugin that is gone.
    pub fn forget(&self, plugin: &str, uid: &str) {
        self.succeeded(plugin);
        self.users.free(uid);
    }
}

/// The id that is noted on a child, and the UID of the Plugin that owns it.
fn noted_user<K: ResourceExt>(child: &K) -> Option<(i64, String)> {
    let user = child.annotations().get(USER)?.parse().ok()?;
    let owner = child.owner_references().first()?;
    Some((user, owner.uid.clone()))
}
