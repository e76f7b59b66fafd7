//! How builds of this machine ended.

use async_trait::async_trait;
use famulus_core::plugin::news::{Ended, News, PluginNews, is_failure, unseen};
use famulus_core::plugin::{ManageError, PluginEvent, PluginRow};

use crate::reconciler::Reconciler;
use crate::record::record;

#[async_trait]
impl PluginNews for Reconciler {
    async fn ended(&self) {
        self.ended.notified().await;
    }

    async fn news(&self) -> Result<Vec<News>, ManageError> {
        let now = self.needs.clock.now();
        let mut news = Vec::new();
        for row in self.needs.rows.plugin_rows().await? {
            let history = self.needs.rows.plugin_history(&row.uid).await?;
            if let Some(end) = unseen(&history, self.opened, now) {
                news.extend(self.news_of(&row, end).await?);
            }
        }
        Ok(news)
    }
}

impl Reconciler {
    /// What is to be told of an end, if that is still how the plugin is.
    async fn news_of(
        &self,
        row: &PluginRow,
        end: &PluginEvent,
    ) -> Result<Option<News>, ManageError> {
        let of_end = |revision: &String| end.revision.as_ref() == Some(revision);
        let ended = if is_failure(end) {
            let is_wanted = row.wanted.as_ref().is_some_and(|wanted| of_end(&wanted.revision));
            let why = row.trouble.clone().filter(|_| is_wanted);
            why.map(|why| Ended::Failed { why, serves: row.serving.is_some() })
        } else {
            let serving = row.serving.as_ref().map(|serving| &serving.revision);
            match serving.filter(|serving| of_end(serving)) {
                Some(revision) => {
                    let description = self.described(Some(revision)).await?;
                    let record = record(row, description.as_ref(), Vec::new());
                    let tools = record.tools.iter().filter(|tool| record.permits(tool));
                    let instructions = description.and_then(|description| description.instructions);
                    Some(Ended::Serves { tools: tools.cloned().collect(), instructions })
                }
                None => None,
            }
        };
        Ok(ended.map(|ended| News {
            key: format!("plugin {} {}", row.uid, end.at),
            plugin: row.name.clone(),
            ended,
        }))
    }
}
