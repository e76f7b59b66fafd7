//! The life of plugins in a cluster: what the owner wants stands in Plugin resources, and the operator makes it so.
//!
//! ```text
//! install    a Plugin whose rollout is Manual: the operator fetches it and runs nothing
//! permit     spec.revision, spec.permissions and spec.egress, in one write
//! configure  a Secret that the operator takes
//! ```
//!
//! What holds: a Plugin of which anybody else wrote a part of the spec is neither changed nor deleted.

pub(crate) mod draft;
mod history;
mod news;
pub(crate) mod object;
mod values;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use famulus_core::Clock;
use famulus_core::plugin::rules::{self, invalid};
use famulus_core::plugin::{
    Change, Description, Egress, Granted, ManageError, ManagedPlugins, Offer, PluginEvent,
    PluginSource, Revisions,
};
use famulus_crds::BuildKey;
use famulus_crds::labels::REFRESH;
use famulus_crds::plugin::{EgressMode, Offered, Plugin};
use famulus_sandbox::{Home as _, KnownPlugin as _};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout_at};

use self::draft::Draft;
use self::history::{FETCHED, Facts, PERMITTED};
use crate::cluster::Cluster;

/// Fetching a source, whose Pod may have to wait for a node.
const FETCHING: Duration = Duration::from_mins(5);

/// Who sees to the Plugins of a cluster.
pub struct Managed {
    cluster: Arc<Cluster>,
    revisions: Arc<dyn Revisions>,
    clock: Arc<dyn Clock>,
    /// Since when this process answers.
    opened: Timestamp,
    /// Changes of the cluster, those after the last that news were read of.
    changes: Mutex<watch::Receiver<u64>>,
}

impl Managed {
    pub fn new(
        cluster: Arc<Cluster>,
        revisions: Arc<dyn Revisions>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let opened = clock.now();
        let changes = Mutex::new(cluster.changes());
        Self { cluster, revisions, clock, opened, changes }
    }

    /// Waits until the source was looked at, and tells what it is.
    async fn looked_at(&self, plugin: &Plugin) -> Result<Offer, ManageError> {
        let name = &plugin.spec.name;
        let offered = self.look(name, look_of(plugin).as_str()).await?;
        if let Some(reason) = offered.reason {
            let message = offered.message.unwrap_or_default();
            return Err(ManageError::Failed { reason, message });
        }
        let revision = offered.revision.unwrap_or_default();
        self.offer(plugin, revision).await
    }

    async fn look(&self, name: &str, look: &str) -> Result<Offered, ManageError> {
        let until = Instant::now() + FETCHING;
        let mut changes = self.cluster.changes();
        loop {
            let known = self.cluster.plugin(name);
            let offered = known.as_ref().and_then(|known| known.status.offered.as_ref());
            if let Some(offered) = offered.filter(|offered| offered.look == look)
                && (offered.revision.is_some() || offered.reason.is_some())
            {
                return Ok(offered.clone());
            }
            // The sender lives as long as the cluster.
            if timeout_at(until, changes.changed()).await.is_err() {
                let says = known.map(|known| known.says());
                return Err(ManageError::Failed {
                    reason: says.as_ref().map_or("Pending", |says| &says.reason).to_owned(),
                    message: format!(
                        "the source of `{name}` was not fetched within {} minutes: {}; see to that, and ask again",
                        FETCHING.as_secs() / 60,
                        says.as_ref()
                            .map_or("the operator says nothing of it", |says| &says.message)
                    ),
                });
            }
        }
    }

    async fn offer(&self, plugin: &Plugin, revision: String) -> Result<Offer, ManageError> {
        let described = self.described(Some(&revision)).await?;
        let description =
            described.ok_or_else(|| invalid("what was fetched was not kept; fetch it again"))?;
        let status = plugin.status.as_ref();
        let serving = status.and_then(|status| status.revision.as_deref());
        let granted = status.and_then(|status| status.granted.clone()).unwrap_or_default();
        let spec = &plugin.spec;
        Ok(Offer {
            plugin: spec.name.clone(),
            changed: serving != Some(revision.as_str()),
            before: self.described(serving).await?,
            permitted: granted.tools,
            egress: egress(granted.egress),
            commit: description.commit.clone(),
            source: draft::source(&spec.source)?.to_string(),
            revision,
            description,
        })
    }

    async fn described(&self, revision: Option<&str>) -> Result<Option<Description>, ManageError> {
        match revision {
            Some(revision) => Ok(self.revisions.described(revision).await?),
            None => Ok(None),
        }
    }

    /// What waits for a yes: what the source gave, or what was permitted and could not be built.
    fn offered(plugin: &Plugin) -> Option<String> {
        let pin = plugin.spec.revision.as_ref();
        let facts = Facts::of(plugin);
        let newest =
            newest(plugin).filter(|newest| Some(newest) != pin && !facts.is_answered(newest));
        newest.or_else(|| pin.filter(|_| facts.failure().is_some()).cloned())
    }
}

#[async_trait]
impl ManagedPlugins for Managed {
    async fn install(
        &self,
        name: Option<&str>,
        source: PluginSource,
        who: &str,
    ) -> Result<Offer, ManageError> {
        let name = rules::named(name, &source)?;
        let wanted = draft::wanted_source(source)?;
        let there = match self.cluster.find(&name).await {
            Ok(there) => Some(there),
            Err(ManageError::NoPlugin(_)) => None,
            Err(error) => return Err(error),
        };
        if let Some(there) = there {
            // Asked again, as after a death: the same is offered again.
            let is_fresh = there.spec.revision.is_none() && object::owned(&there).is_ok();
            if !is_fresh || there.spec.source != wanted {
                return Err(ManageError::Taken(name));
            }
            return self.looked_at(&there).await;
        }
        let made = self.cluster.write(&Draft::new(name, wanted)).await?;
        match self.looked_at(&made).await {
            Ok(offer) => self.fetched(offer, who).await,
            Err(error) => {
                // Nothing is left of what was not offered.
                self.cluster.delete(&made).await?;
                Err(error)
            }
        }
    }

    async fn update(&self, name: &str, change: Change, who: &str) -> Result<Offer, ManageError> {
        let again = self.clock.now().as_microsecond().to_string();
        let changed = self.cluster.change(name, |plugin, draft| {
            let source = draft::source(&plugin.spec.source)?;
            draft.source = draft::wanted_source(rules::changed(name, source, change.clone())?)?;
            draft.annotations.insert(REFRESH.to_owned(), again.clone());
            Ok(plugin.spec.source.clone())
        });
        let (changed, before) = changed.await?;
        match self.looked_at(&changed).await {
            Ok(offer) => self.fetched(offer, who).await,
            Err(error) => {
                // What cannot be had is not what the plugin is from.
                let wanted = &changed.spec.source;
                let back = self.cluster.change(name, |_, draft| {
                    if draft.source == *wanted {
                        draft.source = before.clone();
                    }
                    Ok(())
                });
                back.await?;
                Err(error)
            }
        }
    }

    async fn permit(&self, name: &str, granted: Granted, who: &str) -> Result<(), ManageError> {
        let Granted { revision, tools, egress } = granted;
        let event = self.event(PERMITTED, who, Some(&revision));
        let again = self.clock.now().as_microsecond().to_string();
        let changed = self.cluster.change(name, |plugin, draft| {
            let serving = plugin.status.as_ref().and_then(|status| status.revision.as_ref());
            let newest = newest(plugin);
            let known = [newest.as_ref(), plugin.spec.revision.as_ref(), serving];
            if !known.contains(&Some(&revision)) {
                return Err(invalid(format!(
                    "the revision {revision} of `{name}` is not the one that is offered now; look at the \
                     plugin again, and permit what it shows"
                )));
            }
            if draft.revision.as_ref() == Some(&revision) && Facts::of(plugin).failure().is_some() {
                draft.try_again(&again);
            }
            draft.revision = Some(revision.clone());
            draft.tools.clone_from(&tools);
            draft.egress = mode(egress);
            draft.note(&event);
            Ok(())
        });
        changed.await.map(|_changed| ())
    }

    async fn configure(
        &self,
        name: &str,
        key: &str,
        value: Option<Value>,
        who: &str,
    ) -> Result<(), ManageError> {
        let plugin = self.cluster.find(name).await?;
        object::owned(&plugin)?;
        if let Some(secret) = &plugin.spec.config_secret_ref {
            return Err(invalid(format!(
                "the values of `{name}` are in the Secret {} that its spec.configSecretRef names; change \
                 them there with kubectl",
                secret.name
            )));
        }
        if value.is_some() {
            let revision = newest(&plugin).or_else(|| plugin.spec.revision.clone());
            rules::has_key(name, key, self.described(revision.as_deref()).await?.as_ref())?;
        }
        let event = self.event("configured", who, None);
        self.cluster.bring(&plugin, values::changes(key, value), &event, &*self.clock).await
    }

    async fn roll_back(
        &self,
        name: &str,
        revision: Option<&str>,
        who: &str,
    ) -> Result<String, ManageError> {
        let plugin = self.cluster.find(name).await?;
        object::owned(&plugin)?;
        let Some(serving) = plugin.status.as_ref().and_then(|status| status.revision.as_deref())
        else {
            return Err(invalid(format!("nothing of the plugin `{name}` has served yet")));
        };
        let history = Facts::of(&plugin).done();
        let to = rules::earlier(name, history, PERMITTED, serving, revision)?;
        if self.described(Some(&to)).await?.is_none() {
            return Err(invalid(format!("{to} is not kept any more; update `{name}` instead")));
        }
        let event = self.event("rolled back", who, Some(&to));
        let changed = self.cluster.change(name, |_, draft| {
            draft.revision = Some(to.clone());
            draft.note(&event);
            Ok(())
        });
        changed.await?;
        Ok(to)
    }

    async fn remove(&self, name: &str) -> Result<(), ManageError> {
        let plugin = self.cluster.find(name).await?;
        object::owned(&plugin)?;
        self.cluster.delete(&plugin).await
    }

    async fn history(&self, name: &str) -> Result<Vec<PluginEvent>, ManageError> {
        Ok(Facts::of(&self.cluster.find(name).await?).history())
    }

    async fn offer_of(&self, name: &str) -> Result<Option<Offer>, ManageError> {
        let plugin = self.cluster.find(name).await?;
        match Self::offered(&plugin) {
            Some(revision) if self.described(Some(&revision)).await?.is_some() => {
                Ok(Some(self.offer(&plugin, revision).await?))
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn source(&self, name: &str) -> Result<PluginSource, ManageError> {
        draft::source(&self.cluster.find(name).await?.spec.source)
    }
}

impl Managed {
    async fn fetched(&self, offer: Offer, who: &str) -> Result<Offer, ManageError> {
        let event = self.event(FETCHED, who, Some(&offer.revision));
        let noted = self.cluster.change(&offer.plugin, |_, draft| {
            draft.note(&event);
            Ok(())
        });
        noted.await?;
        Ok(offer)
    }

    fn event(&self, what: &str, who: &str, revision: Option<&str>) -> PluginEvent {
        PluginEvent {
            at: self.clock.now(),
            what: what.to_owned(),
            who: Some(who.to_owned()),
            revision: revision.map(str::to_owned),
        }
    }
}

fn look_of(plugin: &Plugin) -> BuildKey {
    let refresh = plugin.annotations().get(REFRESH).map(String::as_str);
    BuildKey::source(&plugin.spec.source, refresh)
}

/// The revision that its source gave, as it is now.
fn newest(plugin: &Plugin) -> Option<String> {
    let offered = plugin.status.as_ref()?.offered.as_ref()?;
    let revision = offered.revision.as_ref().filter(|_| offered.look == look_of(plugin).as_str());
    revision.cloned()
}

fn egress(mode: EgressMode) -> Egress {
    match mode {
        EgressMode::None => Egress::None,
        EgressMode::Internet => Egress::Internet,
    }
}

fn mode(egress: Egress) -> EgressMode {
    match egress {
        Egress::None => EgressMode::None,
        Egress::Internet => EgressMode::Internet,
    }
}
