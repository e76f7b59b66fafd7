//! What a source is, fetched and offered. Nothing of it runs.

use famulus_core::plugin::{
    Description, ManageError, Offer, PluginRow, PluginSource, rules::invalid,
};
use famulus_protocol::revision::Bundled;
use uuid::Uuid;

use crate::builds::trouble;
use crate::reconciler::{Reconciler, refused};
use crate::record::build_source;

impl Reconciler {
    /// Fetches the source of a plugin that the machine knows, and keeps what it is as an offer.
    pub(crate) async fn fetch(
        &self,
        row: &PluginRow,
        source: &PluginSource,
        who: &str,
    ) -> Result<Offer, ManageError> {
        let (machine, hosts) = (&self.needs.machine, self.needs.allow_hosts.clone());
        let bundled = machine.bundle(&row.uid, build_source(source.clone()), hosts).await;
        let bundled = bundled.map_err(|error| {
            let why = trouble(&error);
            ManageError::Failed { reason: why.reason, message: why.message }
        })?;
        let revision = match bundled {
            Bundled::Done { revision, .. } => revision,
            // It is an error of the step.
            Bundled::Failed(failure) => {
                let (reason, message) = (failure.reason, failure.message);
                return Err(ManageError::Failed { reason, message });
            }
        };
        self.needs.rows.offer(&row.uid, source, &revision, who).await?;
        let description = self.described(Some(&revision)).await?;
        let description =
            description.ok_or_else(|| invalid("what was fetched was not kept; fetch it again"))?;
        self.offer(row, revision, source.to_string(), description).await
    }

    pub(crate) async fn offer(
        &self,
        row: &PluginRow,
        revision: String,
        source: String,
        description: Description,
    ) -> Result<Offer, ManageError> {
        let serving = row.serving.as_ref();
        Ok(Offer {
            plugin: row.name.clone(),
            changed: serving.is_none_or(|serving| serving.revision != revision),
            before: self.described(serving.map(|serving| serving.revision.as_str())).await?,
            permitted: serving.map(|serving| serving.tools.clone()).unwrap_or_default(),
            egress: serving.map(|serving| serving.egress).unwrap_or_default(),
            commit: description.commit.clone(),
            source,
            revision,
            description,
        })
    }

    /// Fetches a plugin of which nothing is known.
    async fn begin(&self, row: &PluginRow, who: &str) -> Result<Offer, ManageError> {
        self.tell(&row.name).await?;
        let offer = self.fetch(row, &row.source, who).await?;
        self.tell(&row.name).await?;
        Ok(offer)
    }

    /// Begins a plugin, and fetches it. Nothing is left of what was not offered.
    pub(crate) async fn fetch_anew(
        &self,
        name: String,
        source: PluginSource,
        who: &str,
    ) -> Result<Offer, ManageError> {
        let row = PluginRow {
            uid: Uuid::now_v7().to_string(),
            name: name.clone(),
            source,
            offered: None,
            wanted: None,
            serving: None,
            rendered: 1,
            trouble: None,
        };
        let lock = self.fetching(&name);
        let _one = lock.lock().await;
        if !self.needs.rows.begin_plugin(&row).await? {
            let there = self.row(&name).await?;
            let is_fresh = there.wanted.is_none() && there.serving.is_none();
            if !is_fresh || there.source != row.source {
                return Err(ManageError::Taken(name));
            }
            // Asked again, as after a death: the same is offered again.
            return self.fetch(&there, &row.source, who).await;
        }
        let begun = self.begin(&row, who).await;
        if begun.is_err() {
            // Nothing is left of what was not offered.
            self.needs.rows.remove_plugin(&row.uid).await?;
            self.needs.machine.remove(&row.uid).await.map_err(|error| refused(&error))?;
        }
        begun
    }
}
