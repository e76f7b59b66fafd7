//! The turns that this process runs, and how somebody ends them.
//!
//! Ending a turn is a row first. This registry finds out: on a hint, and by looking every quarter of
//! a second while anything runs.

use famulus_core::{ids::TurnId, turn::TurnLog};
use famulus_lifecycle::boxed;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How often cancelled turns are looked for when no hint comes.
const LOOK: Duration = Duration::from_millis(250);

/// The registry. Cheap to clone.
#[derive(Clone, Default)]
pub struct LiveTurns {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    turns: Mutex<HashMap<TurnId, CancellationToken>>,
    added: Notify,
}

/// A turn's place in the registry; leaving it takes it out.
pub struct Entry {
    inner: Arc<Inner>,
    turn: TurnId,
    pub stop: CancellationToken,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.inner.turns.lock().remove(&self.turn);
    }
}

impl LiveTurns {
    /// Registers a turn; its token ends when somebody stops it.
    pub fn enter(&self, turn: TurnId) -> Entry {
        let stop = CancellationToken::new();
        self.inner.turns.lock().insert(turn, stop.clone());
        self.inner.added.notify_one();
        Entry { inner: Arc::clone(&self.inner), turn, stop }
    }

    pub fn len(&self) -> usize {
        self.inner.turns.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Watches until the token ends. Asks nothing of the database while nothing runs.
    #[boxed]
    pub async fn watch(
        self,
        log: Arc<dyn TurnLog>,
        mut hint: watch::Receiver<u64>,
        shutdown: CancellationToken,
    ) {
        loop {
            if self.is_empty() {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = self.inner.added.notified() => continue,
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                _changed = hint.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            hint.mark_unchanged();
            // Those that began during the wait too: the hint may have been for one of them.
            let turns: Vec<TurnId> = self.inner.turns.lock().keys().copied().collect();
            match log.cancelled(&turns).await {
                Ok(cancelled) => {
                    let live = self.inner.turns.lock();
                    for turn in cancelled {
                        if let Some(stop) = live.get(&turn) {
                            stop.cancel();
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %error, "looking for cancelled turns failed");
                }
            }
        }
    }
}
