//! What the operator gives to a runner: its bearer, its configuration and the revision to serve.
//!
//! A mounted Secret changes as a whole, but some time after the operator wrote it. The app says with
//! each request which state it counts on; who is ahead of the mount waits a little.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use famulus_protocol::revision::Wanted;
use famulus_protocol::{Kind, Problem};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

/// How long a request waits for the mount.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests that wait for it at once. More are told at once that the runner is behind.
const WAITING: usize = 32;

/// Bearers that are accepted: the newest and those before it, so that a call that was on its way
/// when the mount changed passes.
const BEARERS: usize = 4;

/// The folder into which it is mounted. Clones share what was read.
#[derive(Clone, Debug)]
pub struct Mount {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    /// The number of what calls see.
    served: watch::Sender<i64>,
    /// Somebody waits for a newer one.
    asked: Notify,
    waiting: Semaphore,
    /// Held for single operations, never across an await.
    bearers: Mutex<VecDeque<String>>,
}

/// What is mounted, of one moment.
#[derive(Clone, PartialEq, Eq)]
pub struct Mounted {
    pub wanted: Wanted,
    pub bearer: String,
    /// The bearer of backups, where there are any.
    pub keeper: Option<String>,
    /// The JSON of the configuration, if there is any.
    pub config: Option<String>,
}

impl Mount {
    pub fn new(folder: PathBuf) -> Self {
        let shared = Shared {
            folder,
            served: watch::Sender::new(i64::MIN),
            asked: Notify::new(),
            waiting: Semaphore::new(WAITING),
            bearers: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The file of the bearer, which no tool may read.
    pub fn bearer_file(&self) -> PathBuf {
        self.shared.folder.join("..data").join("bearer")
    }

    /// Reads all of it. From then on its bearer is accepted.
    pub fn read(&self) -> io::Result<Mounted> {
        // The kubelet exchanges this link; behind it nothing changes, so that all parts belong
        // together.
        let link = self.shared.folder.join("..data");
        let folder = link.canonicalize().unwrap_or_else(|_plain| self.shared.folder.clone());
        let bearer = fs::read_to_string(folder.join("bearer"))?.trim().to_owned();
        if bearer.is_empty() {
            return Err(io::Error::other("the mounted bearer is empty"));
        }
        let wanted = serde_json::from_slice(&fs::read(folder.join("wanted.json"))?)?;
        let may_lack = |name| match fs::read_to_string(folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        };
        let config = may_lack("config.json")?;
        let keeper = may_lack("keeper")?.map(|keeper| keeper.trim().to_owned());
        let keeper = keeper.filter(|keeper| !keeper.is_empty());
        let mut bearers = self.shared.bearers.lock();
        if !bearers.contains(&bearer) {
            bearers.push_front(bearer.clone());
            bearers.truncate(BEARERS);
        }
        drop(bearers);
        Ok(Mounted { wanted, bearer, keeper, config })
    }

    /// Says that calls see what has this number.
    pub fn serve(&self, rendered: i64) {
        self.shared.served.send_replace(rendered);
    }

    /// The number of what calls see; nothing before the first.
    pub fn served(&self) -> Option<i64> {
        Some(*self.shared.served.borrow()).filter(|served| *served != i64::MIN)
    }

    /// Waits until somebody needs more than is mounted. Cancel safe.
    pub async fn asked(&self) {
        self.shared.asked.notified().await;
    }

    pub(crate) fn bearers(&self) -> Vec<String> {
        self.shared.bearers.lock().iter().cloned().collect()
    }

    /// Waits until calls see what has this number or a later one.
    pub(crate) async fn reach(&self, rendered: i64) -> Result<(), Problem> {
        let mut served = self.shared.served.subscribe();
        if *served.borrow_and_update() >= rendered || rendered <= 0 {
            return Ok(());
        }
        let stale = || {
            Problem::new(
                Kind::Stale,
                format!("the runner was not given configuration {rendered} yet"),
                "send the call again a little later",
            )
        };
        let _place = self.shared.waiting.try_acquire().map_err(|_taken| stale())?;
        let reached = async {
            loop {
                self.shared.asked.notify_one();
                // The sender lives as long as this.
                if served.changed().await.is_err() || *served.borrow_and_update() >= rendered {
                    return;
                }
            }
        };
        timeout(PATIENCE, reached).await.map_err(|_late| stale())
    }

    /// Whether somebody waits for more than is mounted.
    pub fn is_awaited(&self) -> bool {
        self.shared.waiting.available_permits() < WAITING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &std::path::Path, rendered: i64, bearer: &str) {
        let wanted = format!(
            r#"{{"plugin":"p","uid":"u","rendered":{rendered},"revision":null,"permitted":["*"]}}"#
        );
        fs::write(folder.join("wanted.json"), wanted).unwrap();
        fs::write(folder.join("bearer"), bearer).unwrap();
    }

    #[test]
    fn the_last_bearers_are_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let mount = Mount::new(folder.path().to_owned());
        assert!(mount.read().is_err());
        for number in 1..=6 {
            write(folder.path(), number, &format!("b{number}\n"));
            assert_eq!(mount.read().unwrap().wanted.rendered, number);
        }
        assert_eq!(mount.bearers(), ["b6", "b5", "b4", "b3"]);
        let mounted = mount.read().unwrap();
        assert_eq!((mounted.config, mounted.keeper), (None, None));
        // An operator without a key for backups writes nothing into it.
        fs::write(folder.path().join("keeper"), "\n").unwrap();
        assert_eq!(mount.read().unwrap().keeper, None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_ahead_of_the_mount_waits_and_then_hears_so() {
        let folder = tempfile::tempdir().unwrap();
        let mount = Mount::new(folder.path().to_owned());
        mount.serve(3);
        mount.reach(0).await.unwrap();
        mount.reach(3).await.unwrap();
        assert_eq!(mount.reach(4).await.unwrap_err().kind, Kind::Stale);
        let follower = mount.clone();
        let follow = async move {
            follower.asked().await;
            assert!(follower.is_awaited());
            follower.serve(5);
        };
        let (reached, ()) = tokio::join!(mount.reach(5), follow);
        reached.unwrap();
    }
}
