//! Works while it holds the lease, and waits for it otherwise.
//!
//! Whoever lost the lease drops what it was doing where it stands and begins anew, with nothing of
//! what it knew, when it has the lease again. A process that ended instead would be started ever
//! later by the kubelet, just where the API server is slow and leases are lost.

use std::time::Duration;

use famulus_lifecycle::Tasks;
use tokio_util::sync::CancellationToken;

use crate::health::{Health, Stage};
use crate::lease::{Candidate, LeaseLost};

/// How long work that was begun gets to end. The Pod's grace period is 30 s.
const DRAIN: Duration = Duration::from_secs(15);

/// How long tasks get to end after that.
const LAST: Duration = Duration::from_secs(5);

/// Works each time it holds the lease, until `asked` says for the first time that it is to end: what
/// was begun is ended, and the lease given back. The second time means *now*.
///
/// `begin` makes the work of one time: its tasks, and what is cancelled when it is to begin nothing
/// more. What it makes may be dropped at any time.
///
/// # Errors
/// What `begin` says.
pub async fn lead<W, E>(
    candidate: &Candidate,
    health: &Health,
    mut asked: impl AsyncFnMut(),
    mut begin: impl FnMut(Tasks, CancellationToken) -> Result<W, E>,
) -> Result<(), E>
where
    W: Future<Output = ()>,
{
    loop {
        health.set(Stage::Waiting);
        tokio::select! {
            () = candidate.acquire() => {}
            () = asked() => return Ok(()),
        }
        let (tasks, stop) = (Tasks::new(), CancellationToken::new());
        let mut work = Box::pin(begin(tasks.clone(), stop.clone())?);
        // One and the same to the end: it knows when the lease was renewed last.
        let mut hold = Box::pin(candidate.hold());
        health.set(Stage::Working);
        let why = tokio::select! {
            () = &mut work => Why::Done,
            lost = &mut hold => Why::Lost(lost),
            () = asked() => Why::Asked,
        };
        if let Why::Lost(lost) = why {
            // Another one may work already: nothing more is written.
            drop(work);
            tracing::error!("{lost}");
            // Whoever is left is named in the log.
            let _left = tasks.drain(Duration::ZERO).await;
            continue;
        }
        health.set(Stage::Ending);
        if matches!(why, Why::Asked) {
            stop.cancel();
            tokio::select! {
                () = &mut work => {}
                lost = &mut hold => tracing::warn!("{lost}"),
                () = tokio::time::sleep(DRAIN) => tracing::warn!("some Plugins were left half-way"),
                () = asked() => {}
            }
        }
        drop((work, hold));
        candidate.release().await;
        let _left = tasks.drain(LAST).await;
        return Ok(());
    }
}

/// Why it works no longer.
enum Why {
    Done,
    Lost(LeaseLost),
    Asked,
}
