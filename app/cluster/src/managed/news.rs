//! How builds of a cluster ended.

use std::time::Duration;

use async_trait::async_trait;
use famulus_core::plugin::news::{Ended, News, PluginNews, is_failure, unseen};
use famulus_core::plugin::{ManageError, PluginEvent, Trouble};
use famulus_sandbox::{Home as _, KnownPlugin as _};
use tokio::time::sleep;

use super::Managed;
use super::history::Facts;
use crate::plugin::CachedPlugin;

/// Until what changed is looked at.
const TOGETHER: Duration = Duration::from_secs(1);

#[async_trait]
impl PluginNews for Managed {
    /// Any change of the cluster may be one.
    async fn ended(&self) {
        // The sender lives as long as the cluster.
        let _changed = self.changes.lock().await.changed().await;
        // Changes come in crowds.
        sleep(TOGETHER).await;
    }

    /// From what the watch has seen: nothing is asked of the API server.
    async fn news(&self) -> Result<Vec<News>, ManageError> {
        let now = self.clock.now();
        let mut news = Vec::new();
        for known in self.cluster.plugins().into_values() {
            let history = Facts::of_cached(&known).history();
            if let Some(end) = unseen(&history, self.opened, now) {
                news.push(self.news_of(&known, end).await?);
            }
        }
        Ok(news)
    }
}

impl Managed {
    async fn news_of(&self, known: &CachedPlugin, end: &PluginEvent) -> Result<News, ManageError> {
        let facts = Facts::of_cached(known);
        let ended = if let Some(why) = facts.failure().filter(|_| is_failure(end)) {
            Ended::Failed {
                why: Trouble { reason: why.reason.clone(), message: why.message.clone() },
                serves: facts.serving().is_some(),
            }
        } else {
            let description = self.described(facts.serving()).await?;
            let instructions = description.and_then(|description| description.instructions);
            Ended::Serves { tools: known.state().tools, instructions }
        };
        let key = format!("plugin {} {}", known.uid(), end.at);
        Ok(News { key, plugin: known.name().to_owned(), ended })
    }
}
