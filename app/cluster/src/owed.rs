//! Results that a runner may let go, and was not told yet.
//!
//! A runner keeps so many results and then takes no calls. So what could not be said at once is
//! said again, for as long as somebody may still be there to hear it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use famulus_protocol::{CallId, Kind};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::cluster::Cluster;
use crate::plugin::Known;
use crate::wire::WireError;

/// Nobody waits longer for a result to be let go.
const ACKNOWLEDGE: Duration = Duration::from_secs(1);

/// A call that was stopped, or of an async tool, may have to end first.
const OWED_FOR: Duration = Duration::from_mins(10);

/// More are dropped: the runner that they are with is long gone, or beyond help.
const MOST: usize = 1024;

/// By call: the plugin's UID, and since when.
#[derive(Debug, Default)]
pub(crate) struct Owed(Mutex<BTreeMap<CallId, (String, Instant)>>);

impl Owed {
    pub(crate) fn add(&self, id: CallId, plugin: &str) {
        let mut owed = self.0.lock();
        if owed.len() < MOST {
            owed.entry(id).or_insert_with(|| (plugin.to_owned(), Instant::now()));
        }
    }
}

impl Cluster {
    /// Lets a result go, now or later.
    pub(crate) async fn let_go(&self, known: &Arc<Known>, id: CallId) {
        if !self.is_let_go(known, &id).await {
            tracing::debug!(plugin.name = known.name, call.id = %id, "a result is let go later");
            self.owed.add(id, &known.uid);
        }
    }

    /// Says again what was not heard.
    pub(crate) async fn settle(&self) {
        let owed: Vec<(CallId, String, Instant)> = {
            let owed = self.owed.0.lock();
            owed.iter().map(|(id, (plugin, since))| (id.clone(), plugin.clone(), *since)).collect()
        };
        let settled = owed.iter().map(|(id, plugin, since)| async move {
            let Some(known) = self.table.by_uid(plugin) else { return true };
            since.elapsed() >= OWED_FOR || self.is_let_go(&known, id).await
        });
        let settled = join_all(settled).await;
        let mut still = self.owed.0.lock();
        for ((id, ..), settled) in owed.iter().zip(settled) {
            if settled {
                still.remove(id);
            }
        }
    }

    /// Whether no runner of the plugin keeps it any more.
    async fn is_let_go(&self, known: &Known, id: &CallId) -> bool {
        let voice = self.voice(known);
        let runners = self.table.runners(&known.stem);
        let told = runners.iter().map(|runner| self.caller(runner, &voice).acknowledge(id));
        let told = timeout(ACKNOWLEDGE, join_all(told)).await.unwrap_or_default();
        let is_unknown = |told: &Result<(), WireError>| match told {
            Err(WireError::Refused(problem)) => problem.kind == Kind::NoCall,
            Ok(()) | Err(WireError::Unreached(_) | WireError::Broken(_)) => false,
        };
        let heard = told.len() == runners.len();
        told.iter().any(Result::is_ok) || (heard && told.iter().all(is_unknown))
    }
}
