//! Who sees to the plugins of this machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use famulus_core::Clock;
use famulus_core::plugin::{
    Change, Description, Granted, InstalledPlugin, InstalledPlugins, ManageError, ManagedPlugins,
    Offer, PluginEvent, PluginRow, PluginRows, PluginSource, Revisions, SandboxLevel,
    rules::{self, invalid, named},
};
use famulus_core::sandbox::SandboxError;
use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Tasks, boxed};
use famulus_machine::{Machine, MachineError};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::record::record;

/// What it works with.
pub struct Needs {
    pub machine: Arc<Machine>,
    pub rows: Arc<dyn PluginRows>,
    pub revisions: Arc<dyn Revisions>,
    /// Hosts with port that sources may be fetched from although their addresses are private.
    pub allow_hosts: Vec<String>,
    pub clock: Arc<dyn Clock>,
    pub tasks: Tasks,
}

/// Sees to it that plugins are as the owner wants them.
pub struct Reconciler {
    pub(crate) needs: Needs,
    /// Itself, for what goes on after a call.
    pub(crate) own: Weak<Self>,
    /// By name: one source is fetched or built at a time. Held for single operations, never across an await.
    fetching: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// What is wanted, and what the machine was told of it, change together: nobody is told of one that is gone.
    telling: tokio::sync::Mutex<()>,
    /// A build ended.
    pub(crate) ended: Notify,
    /// Since when this process answers.
    pub(crate) opened: Timestamp,
}

impl Reconciler {
    /// Tells the machine what there is, and goes on with what was begun. What did not come as far as an offer
    /// is gone.
    ///
    /// # Errors
    /// What is wanted cannot be read.
    #[boxed]
    pub async fn open(needs: Needs) -> Result<Arc<Self>, ManageError> {
        let opened = needs.clock.now();
        let reconciler = Arc::new_cyclic(|own| Self {
            needs,
            own: Weak::clone(own),
            fetching: Mutex::default(),
            telling: tokio::sync::Mutex::default(),
            ended: Notify::new(),
            opened,
        });
        let mut kept = Vec::new();
        for row in reconciler.needs.rows.plugin_rows().await? {
            if row.offered.is_none() && row.wanted.is_none() && row.serving.is_none() {
                reconciler.needs.rows.remove_plugin(&row.uid).await?;
                continue;
            }
            match reconciler.tell(&row.name).await {
                Ok(row) => reconciler.build_soon(&row),
                Err(error @ ManageError::Store(_)) => return Err(error),
                // One plugin is not the assistant.
                Err(error) => tracing::error!(
                    error = %chain(&error), plugin.name = row.name, "a plugin is not as it is to be"
                ),
            }
            kept.push(row.uid);
        }
        if let Err(error) = reconciler.needs.machine.keep_only(&kept).await {
            tracing::warn!(error = %chain(&error), "what is left of a plugin that is gone stays");
        }
        Ok(reconciler)
    }

    pub(crate) fn fetching(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.fetching.lock().entry(name.to_owned()).or_default())
    }

    /// Tells the machine how a plugin is to be: as its row says now.
    pub(crate) async fn tell(&self, name: &str) -> Result<PluginRow, ManageError> {
        let _one = self.telling.lock().await;
        let (row, machine) = (self.row(name).await?, &self.needs.machine);
        let serving = row.serving.as_ref().map(|serving| serving.revision.as_str());
        let description = self.described(serving).await?;
        let configured = machine.configured(&row.uid).map_err(|error| refused(&error))?;
        let keys = configured.into_iter().map(|(key, _)| key).collect();
        let mut record = record(&row, description.as_ref(), keys);
        // What is gone is built again before it is called.
        record.revision = record.revision.filter(|it| machine.is_built(&row.uid, it));
        machine.put(record).map_err(|error| refused(&error))?;
        Ok(row)
    }

    pub(crate) async fn described(
        &self,
        revision: Option<&str>,
    ) -> Result<Option<Description>, ManageError> {
        match revision {
            Some(revision) => Ok(self.needs.revisions.described(revision).await?),
            None => Ok(None),
        }
    }

    pub(crate) async fn row(&self, name: &str) -> Result<PluginRow, ManageError> {
        let row = self.needs.rows.plugin_row(name).await?;
        row.ok_or_else(|| ManageError::NoPlugin(name.chars().take(64).collect()))
    }

    /// Tells the machine, and builds what is to be built.
    async fn follow(&self, name: &str) -> Result<(), ManageError> {
        let row = self.tell(name).await?;
        self.build_soon(&row);
        Ok(())
    }
}

#[async_trait]
impl ManagedPlugins for Reconciler {
    /// It goes on when nobody waits for it any more: what was begun is offered, or leaves nothing.
    async fn install(
        &self,
        name: Option<&str>,
        source: PluginSource,
        who: &str,
    ) -> Result<Offer, ManageError> {
        if let Some(why) = self.needs.machine.refused() {
            return Err(ManageError::Unsupported(why.message.clone()));
        }
        let ending = || invalid("the assistant is about to end; ask again when it has started");
        let (name, who) = (named(name, &source)?, who.to_owned());
        let own = self.own.upgrade().ok_or_else(ending)?;
        let (told, done) = oneshot::channel();
        self.needs.tasks.spawn("plugins.install", OnExit::Log, async move {
            // Whoever asked may be gone.
            let _gone = told.send(own.fetch_anew(name, source, &who).await);
        });
        done.await.map_err(|_ended| ending())?
    }

    async fn update(&self, name: &str, change: Change, who: &str) -> Result<Offer, ManageError> {
        let lock = self.fetching(name);
        let _one = lock.lock().await;
        let row = self.row(name).await?;
        let source = rules::changed(name, row.source.clone(), change)?;
        let offer = self.fetch(&row, &source, who).await?;
        self.tell(name).await?;
        Ok(offer)
    }

    async fn permit(&self, name: &str, granted: Granted, who: &str) -> Result<(), ManageError> {
        let row = self.row(name).await?;
        if !self.needs.rows.permit(&row.uid, &granted, who).await? {
            return Err(invalid(format!(
                "the revision {} of `{name}` is not the one that is offered now; look at the plugin again, \
                 and permit what it shows",
                granted.revision
            )));
        }
        self.follow(name).await
    }

    async fn configure(
        &self,
        name: &str,
        key: &str,
        value: Option<Value>,
        who: &str,
    ) -> Result<(), ManageError> {
        let one = self.telling.lock().await;
        let row = self.row(name).await?;
        let newest = row.offered.as_deref();
        let newest = newest.or_else(|| row.wanted.as_ref().map(|wanted| wanted.revision.as_str()));
        let described = self.described(newest).await?;
        if value.is_some() {
            rules::has_key(name, key, described.as_ref())?;
        }
        let machine = &self.needs.machine;
        let mut values = machine.configured(&row.uid).map_err(|error| refused(&error))?;
        match value {
            Some(value) => values.insert(key.to_owned(), value),
            None => values.remove(key),
        };
        let kept = machine.configure(&row.uid, &Value::Object(values));
        kept.map_err(|error| refused(&error))?;
        self.needs.rows.configured(&row.uid, who).await?;
        drop(one);
        self.follow(name).await
    }

    async fn roll_back(
        &self,
        name: &str,
        revision: Option<&str>,
        who: &str,
    ) -> Result<String, ManageError> {
        let row = self.row(name).await?;
        let Some(serving) = &row.serving else {
            return Err(invalid(format!("nothing of the plugin `{name}` has served yet")));
        };
        let history = self.needs.rows.plugin_history(&row.uid).await?;
        let to = rules::earlier(name, history, "serves", &serving.revision, revision)?;
        if self.described(Some(&to)).await?.is_none() {
            return Err(invalid(format!("{to} is not kept any more; update `{name}` instead")));
        }
        let again = Granted { revision: to, ..serving.clone() };
        self.needs.rows.want_again(&row.uid, &again, who).await?;
        self.follow(name).await?;
        Ok(again.revision)
    }

    async fn remove(&self, name: &str) -> Result<(), ManageError> {
        let _one = self.telling.lock().await;
        let row = self.row(name).await?;
        self.needs.rows.remove_plugin(&row.uid).await?;
        self.needs.machine.remove(&row.uid).await.map_err(|error| refused(&error))
    }

    async fn history(&self, name: &str) -> Result<Vec<PluginEvent>, ManageError> {
        let row = self.row(name).await?;
        Ok(self.needs.rows.plugin_history(&row.uid).await?)
    }

    async fn source(&self, name: &str) -> Result<PluginSource, ManageError> {
        Ok(self.row(name).await?.source)
    }

    fn level(&self) -> Option<SandboxLevel> {
        let machine = &self.needs.machine;
        let lacks = [machine.refused(), machine.no_internet()].into_iter().flatten();
        Some(SandboxLevel {
            held: machine.isolation().map(str::to_owned),
            lacks: lacks.map(|why| why.message.clone()).collect(),
        })
    }

    async fn offer_of(&self, name: &str) -> Result<Option<Offer>, ManageError> {
        let row = self.row(name).await?;
        let Some(revision) = row.offered.clone() else { return Ok(None) };
        let description = self.described(Some(&revision)).await?;
        match description {
            Some(description) => {
                let source = row.source.to_string();
                Ok(Some(self.offer(&row, revision, source, description).await?))
            }
            None => Ok(None),
        }
    }
}

#[async_trait]
impl InstalledPlugins for Reconciler {
    async fn installed(&self) -> Result<Vec<InstalledPlugin>, SandboxError> {
        let rows = self.needs.rows.plugin_rows().await;
        let rows = rows.map_err(|error| SandboxError::Away(error.to_string()))?;
        let plugin = |row: PluginRow| {
            let granted = [row.wanted, row.serving].into_iter().flatten();
            let in_use = granted.map(|granted| granted.revision).chain(row.offered).collect();
            InstalledPlugin { name: row.name, in_use }
        };
        Ok(rows.into_iter().map(plugin).collect())
    }
}

/// What the machine could not do, in its own words.
pub(crate) fn refused(error: &MachineError) -> ManageError {
    ManageError::Failed { reason: "MachineFailed".to_owned(), message: chain(error) }
}
