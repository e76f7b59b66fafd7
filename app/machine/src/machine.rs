//! This machine as a home of plugins.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use famulus_core::crash;
use famulus_core::plugin::Egress;
use famulus_core::runner::Door;
use famulus_lifecycle::{Tasks, boxed};
use famulus_sandbox::{CallPorts, Calls, Liveness, NotReady, Ports, Timeouts};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::cgroups::{Cgroups, find};
use crate::config;
use crate::error::MachineError;
use crate::folders::{Folders, PluginFolders, own, remove};
use crate::mounted::give;
use crate::order::{APP, Of};
use crate::packages::Packages;
use crate::plugin::{LocalPlugin, not_ready};
use crate::programs::Uv;
use crate::record::PluginRecord;
use crate::table::Table;

/// Letters of a bearer.
const BEARER: usize = 43;

/// Steps that are taken beside each other.
const STEPS: usize = 2;

/// What this machine has for plugins.
#[derive(Clone, Debug)]
pub struct Settings {
    /// famulus-runner, of the same release.
    pub runner: PathBuf,
    /// Where folders of plugins are made.
    pub data_dir: PathBuf,
    /// A folder of programs that tools find beside the system's.
    pub programs: Option<PathBuf>,
    /// Who has `uv`, where the system need not have it.
    pub uv: Option<Arc<dyn Uv>>,
    /// Where builds have packages from.
    pub packages: Packages,
    /// A folder with the owner's credentials for private repositories.
    pub repositories: Option<PathBuf>,
    /// Who listens on this machine and must not be reached from a sandbox: the look at its network tries them.
    pub denied: Vec<SocketAddr>,
    /// Where control groups of sandboxes are made; found when the machine is opened.
    pub(crate) cgroups: Option<Arc<Cgroups>>,
}

impl Settings {
    pub fn new(runner: PathBuf, data_dir: PathBuf) -> Self {
        Self {
            runner,
            data_dir,
            programs: None,
            uv: None,
            packages: Packages::default(),
            repositories: None,
            denied: Vec::new(),
            cgroups: None,
        }
    }
}

/// What is done with one plugin at a time.
#[derive(Default)]
pub(crate) struct Upkeep {
    pub(crate) starting: tokio::sync::Mutex<()>,
    pub(crate) stepping: tokio::sync::Mutex<()>,
    opening: tokio::sync::Mutex<()>,
    /// It is being removed: a step that is under way ends.
    pub(crate) removed: CancellationToken,
}

/// Where runners are processes in sandboxes of this machine.
pub struct Machine {
    pub(crate) settings: Settings,
    pub(crate) folders: Folders,
    pub(crate) table: Arc<Table>,
    pub(crate) liveness: Liveness,
    /// Takes the doors that are opened.
    doors: mpsc::Sender<Door>,
    /// By the UID of the plugin. Held for single operations, never across an await.
    open: Mutex<BTreeMap<String, CancellationToken>>,
    /// Why nothing of a plugin runs here.
    pub(crate) refused: Option<NotReady>,
    /// Why nothing runs here that reaches the internet.
    pub(crate) no_internet: Option<NotReady>,
    /// How sandboxes are held here, in words.
    pub(crate) isolation: Option<String>,
    /// By the UID of the plugin. Held for single operations, never across an await.
    upkeep: Mutex<BTreeMap<String, Arc<Upkeep>>>,
    /// Steps of all plugins beside each other.
    pub(crate) steps: Semaphore,
    pub(crate) tasks: Tasks,
}

impl Machine {
    /// Looks whether sandboxes can be made here. Where they cannot, every plugin says why, and nothing of one
    /// runs.
    ///
    /// # Errors
    /// No client can be made in this process.
    #[boxed]
    pub async fn open(
        settings: Settings,
        doors: mpsc::Sender<Door>,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, MachineError> {
        let liveness = Liveness::new().map_err(|error| MachineError::Client(Box::new(error)))?;
        let mut machine = Self {
            folders: Folders::new(&settings.data_dir),
            settings,
            table: Arc::default(),
            liveness,
            doors,
            open: Mutex::default(),
            refused: None,
            no_internet: None,
            isolation: None,
            upkeep: Mutex::default(),
            steps: Semaphore::new(STEPS),
            tasks: tasks.clone(),
        };
        machine.settings.cgroups = find(&machine.settings.data_dir).await.map(Arc::new);
        match machine.check_limited().await {
            Ok(isolation) => machine.isolation = Some(isolation),
            Err(why) => {
                tracing::warn!(why = why.message, "nothing of a plugin runs on this machine");
                machine.refused = Some(why);
                return Ok(Arc::new(machine));
            }
        }
        if let Err(NotReady { message: why, .. }) = machine.check(Egress::Internet).await {
            tracing::warn!(why, "no plugin reaches the internet on this machine");
            let why = format!("no plugin reaches the internet here: {why}");
            machine.no_internet = Some(not_ready("NoInternet", why));
        }
        Ok(Arc::new(machine))
    }

    /// Tries a sandbox in control groups, and without them, where that is why there is none.
    async fn check_limited(&mut self) -> Result<String, NotReady> {
        let checked = self.check(Egress::None).await;
        let Err(NotReady { message: why, .. }) = &checked else { return checked };
        if self.settings.cgroups.take().is_none() {
            return checked;
        }
        let isolation = self.check(Egress::None).await?;
        tracing::warn!(why, "sandboxes of this machine are in no control group");
        Ok(isolation)
    }

    /// Begins to look after the runners of this machine.
    ///
    /// # Errors
    /// No client can be made in this process.
    pub fn calls(self: Arc<Self>, ports: Ports, tasks: &Tasks) -> Result<CallPorts, MachineError> {
        let calls = Calls::start(self, APP.to_owned(), Timeouts::default(), ports, tasks);
        calls.map(CallPorts::from).map_err(|error| MachineError::Client(error.into()))
    }

    /// Why nothing of a plugin runs here; nothing where sandboxes are as they must be.
    pub fn refused(&self) -> Option<&NotReady> {
        self.refused.as_ref()
    }

    /// Why no plugin reaches the internet here; nothing where it can be had.
    pub fn no_internet(&self) -> Option<&NotReady> {
        self.no_internet.as_ref()
    }

    /// How sandboxes are held here, in words.
    pub fn isolation(&self) -> Option<&str> {
        self.isolation.as_deref()
    }

    /// Has a plugin be as its record says. What its runner was given changes with it.
    ///
    /// # Errors
    /// What is given to its runner cannot be written: the plugin is as the record says, its runner is not.
    pub fn put(&self, record: PluginRecord) -> Result<(), MachineError> {
        let uid = record.uid.clone();
        let after = self.table.put(&uid, |before| {
            let bearer = before.map_or_else(bearer, |before| before.bearer.clone());
            // What a runner reaches cannot be changed: the next call starts another.
            let keeps = |before: &&LocalPlugin| before.record.egress == record.egress;
            let same = before.filter(|before| before.record.rendered == record.rendered);
            Some(LocalPlugin {
                bearer,
                version: 0,
                wants_runner: before.filter(keeps).is_some_and(|before| before.wants_runner),
                runners: 0,
                refused: self.refused.clone(),
                no_internet: self.no_internet.clone(),
                failed: same.and_then(|before| before.failed.clone()),
                isolation: self.isolation.clone(),
                step: before.and_then(|before| before.step),
                record,
            })
        });
        for runner in self.table.runners(&uid) {
            if after.as_ref().is_some_and(|after| after.record.egress != runner.egress) {
                runner.end.cancel();
            }
        }
        match after {
            Some(after) if !self.table.runners(&uid).is_empty() => {
                let folders = self.folders.of(&uid);
                let user = self.folders.user(&folders)?;
                give(&after, &folders, user)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Keeps what the owner configured, an object. A record with a greater number has the runner read it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn configure(&self, uid: &str, values: &Value) -> Result<(), MachineError> {
        config::write(&self.folders.of(uid), values)
    }

    /// What the owner configured; nothing, if nothing was.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn configured(&self, uid: &str) -> Result<Map<String, Value>, MachineError> {
        config::read(&self.folders.of(uid))
    }

    /// Whether a tree of this revision stands in the plugin's folder. After a restore it does not, and none
    /// does before the plugin's files are back.
    pub fn is_built(&self, uid: &str, revision: &str) -> bool {
        let hex = revision.strip_prefix("sha256:").unwrap_or(revision);
        let (built, folders) = (format!("revisions/{hex}.json"), self.folders.of(uid));
        folders.state().join(built).is_file() && !folders.files().exists()
    }

    /// Removes the folders of all plugins but these, and what was not finished of theirs.
    ///
    /// # Errors
    /// A folder cannot be removed.
    #[boxed]
    pub async fn keep_only(&self, uids: &[String]) -> Result<(), MachineError> {
        self.folders.keep_only(uids).await
    }

    /// Removes a plugin, and everything of it. Its runner is killed, and a step that is under way ends.
    ///
    /// # Errors
    /// A folder cannot be removed.
    #[boxed]
    pub async fn remove(&self, uid: &str) -> Result<(), MachineError> {
        let upkeep = self.upkeep(uid);
        upkeep.removed.cancel();
        let _no_step = upkeep.stepping.lock().await;
        let _no_start = upkeep.starting.lock().await;
        self.table.remove(uid);
        // Before a call of it ends: who waits for that to copy its files finds no plugin any more.
        let folders = self.folders.of(uid);
        crash::before("plugin.clear");
        let set_aside = folders.set_aside().await;
        let mut changes = self.table.subscribe();
        loop {
            changes.borrow_and_update();
            let runners = self.table.runners(uid);
            if runners.is_empty() {
                break;
            }
            for runner in runners {
                runner.kill.cancel();
            }
            if changes.changed().await.is_err() {
                break;
            }
        }
        if let Some(door) = self.open.lock().remove(uid) {
            door.cancel();
        }
        set_aside?;
        folders.remove().await?;
        crash::after("plugin.clear");
        self.upkeep.lock().remove(uid);
        Ok(())
    }

    /// Says which step of a build a plugin is at.
    pub(crate) fn note(&self, uid: &str, step: Option<&'static str>) {
        self.table.put(uid, |now| now.map(|now| LocalPlugin { step, ..now.clone() }));
    }

    pub(crate) fn upkeep(&self, uid: &str) -> Arc<Upkeep> {
        Arc::clone(self.upkeep.lock().entry(uid.to_owned()).or_default())
    }

    pub(crate) fn of<'a>(
        &self,
        plugin: &'a str,
        folders: &'a PluginFolders,
        user: Option<u32>,
    ) -> Of<'a> {
        Of { plugin, folders, root: self.folders.root(), user }
    }

    /// Opens the door of a plugin, unless it is open.
    pub(crate) async fn open_door(
        &self,
        uid: &str,
        folders: &PluginFolders,
        user: Option<u32>,
    ) -> Result<(), MachineError> {
        let upkeep = self.upkeep(uid);
        let _one = upkeep.opening.lock().await;
        if self.open.lock().contains_key(uid) {
            return Ok(());
        }
        let path = folders.app_socket();
        remove(&path)?;
        let listener = UnixListener::bind(&path).map_err(MachineError::folder(&path))?;
        own(&path, user)?;
        let closed = CancellationToken::new();
        let door = Door { plugin: uid.into(), listener, closed: closed.clone() };
        self.doors.send(door).await.map_err(|_nobody| MachineError::Ending)?;
        self.open.lock().insert(uid.to_owned(), closed);
        Ok(())
    }
}

/// A bearer of 256 bits, for one plugin and as long as this process lives.
pub(crate) fn bearer() -> String {
    use rand::distr::{Alphanumeric, SampleString as _};
    Alphanumeric.sample_string(&mut rand::rng(), BEARER)
}
