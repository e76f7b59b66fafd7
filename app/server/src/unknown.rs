//! Tells the owner of replies of which nobody knows whether they arrived: nothing is sent again in
//! silence, and nothing is lost in silence either.

use crate::notices::Notices;
use famulus_core::visible::shortened;
use famulus_store::UnknownOutcome;
use futures::FutureExt;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

/// Told in one go.
const AT_ONCE: i64 = 20;
/// Another process may have died before it told.
const LOOK: Duration = Duration::from_secs(30);
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// Characters of a message by which it is known again.
const BEGINNING: usize = 120;

/// Tells for as long as the process runs; `news` says that there may be one.
pub(crate) async fn tell(notices: Notices, news: Arc<Notify>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let mut pause = LOOK;
        if let Err(error) = once(&notices).boxed().await {
            let error = format!("{error:#}");
            tracing::warn!(error, "the owner was not told what may not have arrived");
            pause = AFTER_FAILURE;
        }
        let news = timeout(pause, news.notified());
        let _news_or_time = shutdown.run_until_cancelled(news).await;
    }
}

async fn once(notices: &Notices) -> anyhow::Result<()> {
    for outcome in notices.store.untold_outcomes(AT_ONCE).await? {
        if !outcome.is_notice {
            let key = format!("unknown {} {}", outcome.id, outcome.attempts);
            notices.tell(&key, &words(&outcome)).await?;
        }
        notices.store.outcome_told(outcome.id).await?;
    }
    Ok(())
}

fn words(outcome: &UnknownOutcome) -> String {
    let UnknownOutcome { id, to, person, markdown, .. } = outcome;
    let beginning = beginning(markdown);
    format!(
        "A reply to {person} on {} may not have arrived: it broke off while it was sent. It begins \
         \"{beginning}\". I do not send it again by myself, since it may be there; \
         `famulus outbox retry {id}` sends it once more.",
        to.channel
    )
}

/// As much of a message as it is known by, on one line.
fn beginning(markdown: &str) -> String {
    let line = markdown.split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&line, BEGINNING)
}
