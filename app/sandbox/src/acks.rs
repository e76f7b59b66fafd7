//! Acknowledgements of results that no runner has confirmed yet.
//!
//! A runner keeps a bounded number of results and then takes no calls. So an acknowledgement that
//! failed is repeated, as long as the runner may still be there.

use std::time::Duration;

use famulus_protocol::{CallId, Kind};
use futures::future::join_all;
use tokio::time::timeout;

use crate::calls::Calls;
use crate::home::{Home, KnownPlugin};
use crate::wire::WireError;

/// One acknowledgement.
const ACKNOWLEDGE: Duration = Duration::from_secs(1);

/// A call that was stopped, or of an async tool, may have to end first.
const RETRY_FOR: Duration = Duration::from_mins(10);

impl<H: Home> Calls<H> {
    /// Has the runner delete a result, now or later.
    pub(crate) async fn acknowledge_result(&self, known: &H::Plugin, id: CallId) {
        if !self.try_acknowledge(known, &id).await {
            tracing::debug!(
                plugin.name = known.name(),
                call.id = %id,
                "a result could not be acknowledged; it is tried again"
            );
            self.acks.add(id, known.uid());
        }
    }

    /// Repeats what was not confirmed.
    pub(crate) async fn retry_acks(&self) {
        let acks = self.acks.all();
        let settled = acks.iter().map(|(id, plugin, since)| async move {
            let Some(known) = self.home.plugin_by_uid(plugin) else { return true };
            since.elapsed() >= RETRY_FOR || self.try_acknowledge(&known, id).await
        });
        let settled = join_all(settled).await;
        for ((id, ..), settled) in acks.iter().zip(settled) {
            if settled {
                self.acks.remove(id);
            }
        }
    }

    /// Whether no runner of the plugin keeps the result any more.
    async fn try_acknowledge(&self, known: &H::Plugin, id: &CallId) -> bool {
        let credentials = self.credentials(known);
        let runners = self.home.runners(known);
        let told = runners.iter().map(|runner| self.client(runner, &credentials).acknowledge(id));
        let told = timeout(ACKNOWLEDGE, join_all(told)).await.unwrap_or_default();
        let is_unknown = |told: &Result<(), WireError>| match told {
            Err(WireError::Refused(problem)) => problem.kind == Kind::NoCall,
            Ok(()) | Err(WireError::Unreached(_) | WireError::Broken(_) | WireError::TooLarge) => {
                false
            }
        };
        let heard = told.len() == runners.len();
        told.iter().any(Result::is_ok) || (heard && told.iter().all(is_unknown))
    }
}
