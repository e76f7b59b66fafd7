//! The work queue: the names of the Plugins to reconcile, each once however often it was added.
//!
//! Adding never waits. A watch that had to wait for the controller could not finish the list that
//! the controller waits for.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Clones share it.
#[derive(Clone, Default)]
pub struct WorkQueue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Held for single steps only.
    names: Mutex<BTreeSet<String>>,
    more: Notify,
}

impl WorkQueue {
    pub fn push(&self, name: String) {
        self.shared.names.lock().insert(name);
        self.shared.more.notify_one();
    }

    /// The next one, when there is one. Only one task may wait.
    pub async fn next(&self) -> String {
        loop {
            if let Some(name) = self.shared.names.lock().pop_first() {
                return name;
            }
            // A push in between left a permit.
            self.shared.more.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn asking_never_waits_and_each_is_told_once() {
        let queue = WorkQueue::default();
        for number in 0..50_000 {
            queue.push(format!("p{}", number % 20_000));
        }
        let mut told = BTreeSet::new();
        for _ in 0..20_000 {
            assert!(told.insert(queue.next().await));
        }
        assert!(timeout(Duration::from_secs(1), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_hears_of_the_next() {
        let queue = WorkQueue::default();
        let late = async {
            tokio::task::yield_now().await;
            queue.push("late".to_owned());
        };
        let (told, ()) = tokio::join!(queue.next(), late);
        assert_eq!(told, "late");
    }
}
