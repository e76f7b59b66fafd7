//! What was permitted and does not serve yet is built.

use famulus_core::plugin::{ManageError, PluginRow, Trouble};
use famulus_errors::chain;
use famulus_lifecycle::OnExit;
use famulus_machine::StepError;
use famulus_protocol::revision::BuildSource;

use crate::reconciler::Reconciler;

impl Reconciler {
    /// Builds what is to serve of a plugin, if that does not serve yet. Returns at once.
    pub(crate) fn build_soon(&self, row: &PluginRow) {
        if self.to_build(row).is_none() {
            return;
        }
        let Some(reconciler) = self.own.upgrade() else { return };
        let name = row.name.clone();
        self.needs.tasks.spawn("plugins.build", OnExit::Log, async move {
            if let Err(error) = reconciler.build(&name).await {
                // What is wanted is kept: the next start builds it.
                tracing::error!(error = %chain(&error), plugin.name = name, "a plugin was not built");
            }
        });
    }

    /// What is wanted and does not serve yet, or what serves where its tree is gone, as after a restore.
    fn to_build(&self, row: &PluginRow) -> Option<String> {
        let wanted = row.unbuilt().filter(|_| row.trouble.is_none());
        let serving = row.serving.as_ref();
        let lost = serving.filter(|it| !self.needs.machine.is_built(&row.uid, &it.revision));
        wanted.or(lost).map(|granted| granted.revision.clone())
    }

    /// Builds what is wanted now, until that serves or does not; and what served, if that is lost.
    async fn build(&self, name: &str) -> Result<(), ManageError> {
        let lock = self.fetching(name);
        let _one = lock.lock().await;
        let mut tried = None;
        while let Some(row) = self.needs.rows.plugin_row(name).await? {
            let next = self.to_build(&row).filter(|next| tried.as_ref() != Some(next));
            let Some(revision) = next else { return Ok(()) };
            self.build_one(&row, &revision).await?;
            let told = self.tell(name).await;
            self.ended.notify_one();
            match told {
                Ok(_) | Err(ManageError::NoPlugin(_)) => tried = Some(revision),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn build_one(&self, row: &PluginRow, revision: &str) -> Result<(), ManageError> {
        match self.make(&row.uid, revision).await {
            Ok(()) => self.needs.rows.serves(&row.uid, revision).await?,
            Err(error) => {
                let why = trouble(&error);
                tracing::warn!(
                    plugin.name = row.name,
                    reason = why.reason,
                    why = why.message,
                    "a plugin does not serve"
                );
                self.needs.rows.failed(&row.uid, revision, &why).await?;
            }
        }
        Ok(())
    }

    async fn make(&self, uid: &str, revision: &str) -> Result<(), StepError> {
        let source = BuildSource::Revision(revision.to_owned());
        let machine = &self.needs.machine;
        machine.bundle(uid, source, Vec::new()).await?;
        machine.build(uid).await?;
        Ok(())
    }
}

/// For a person.
pub(crate) fn trouble(error: &StepError) -> Trouble {
    match error {
        StepError::Failed(failure) => {
            Trouble { reason: failure.reason.clone(), message: failure.message.clone() }
        }
        StepError::Machine(_) | StepError::Silent { .. } => {
            Trouble { reason: "BuildFailed".to_owned(), message: chain(error) }
        }
    }
}
