//! Tells the owner how builds of plugins ended, where nobody waited for the end.

use crate::notices::Notices;
use famulus_core::plugin::news::PluginNews;
use futures::FutureExt;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Tells for as long as the process runs, first of all what ended before.
pub(crate) async fn tell(
    plugins: Arc<dyn PluginNews>,
    notices: Notices,
    shutdown: CancellationToken,
) {
    let mut told = BTreeSet::new();
    while !shutdown.is_cancelled() {
        let done = once(&*plugins, &notices, &mut told).boxed().await;
        let next = async {
            match done {
                Ok(()) => plugins.ended().await,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "the owner was not told how the build of a plugin ended");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        };
        let _next_or_end = shutdown.run_until_cancelled(next).await;
    }
}

/// What was told before is not told again by its key; `told` spares asking the database for it.
async fn once(
    plugins: &dyn PluginNews,
    notices: &Notices,
    told: &mut BTreeSet<String>,
) -> anyhow::Result<()> {
    for news in plugins.news().await? {
        if !told.contains(&news.key) {
            notices.tell(&news.key, &news.words()).await?;
            told.insert(news.key);
        }
    }
    Ok(())
}
