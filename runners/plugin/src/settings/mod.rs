//! What a runner is told by its environment.

mod packages;
mod steps;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use famulus_runner_harness::probe::Targets;
use famulus_runner_harness::supervisor::{OutputLimits, ResourceLimits};
use famulus_runner_harness::{ENDPOINT, Endpoint, Environment, Limits, RetryPolicy};
use famulus_settings::{Error, Given, Program};

use crate::listen::EVERYWHERE;

pub use packages::Packages;
pub use steps::{BuildSettings, BundleSettings, CopySettings, ProbeSettings};

/// Folders of the system that a tool reads and executes from.
pub(crate) const SYSTEM: [&str; 13] = [
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix",
    "/opt",
    "/proc",
    "/run/systemd/resolve",
    "/sbin",
    "/sys",
    "/usr",
];

const RUNNER: Program =
    Program { prefix: "FAMULUS_RUNNER_", manual: "docs/ARCHITECTURE.md, the runner" };

const NUMBER: &str = "a number";
const FOLDER: &str = "a folder";
const FOLDERS: &str = "folders with `:` between";
const SWITCH: &str = "true or false";

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Given(#[from] Error),
    #[error("{what} {path} lies in {folder}, which tools can reach; put it elsewhere")]
    Reachable { what: &'static str, path: PathBuf, folder: PathBuf },
}

/// The whole of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the app finds the runner.
    pub listen: Endpoint,
    /// A file with the bearer of the app.
    pub bearer: PathBuf,
    /// Where calls and their results are kept.
    pub kept: PathBuf,
    /// How long running calls are waited for at the end.
    pub drain: Duration,
    /// A log filter, and whether lines are JSON.
    pub log: String,
    pub json: bool,
    pub limits: Limits,
    pub retry: RetryPolicy,
    pub sandbox: Sandbox,
    /// Where the operator decides what serves. Without it, it is the tree at its path.
    pub cluster: Option<Cluster>,
}

/// What a runner in a cluster has beside the rest.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What the operator gives: bearer, configuration, the revision to serve.
    pub mounted: PathBuf,
    /// The plugin's own volume: trees, and caches.
    pub volume: PathBuf,
    pub probe: Targets,
    /// The owner lets plugins run although their network is not closed.
    pub accept_open_network: bool,
    /// Where it says why it ended.
    pub termination: PathBuf,
    /// The volume ends with the Pod: the app from which the runner takes its revision.
    pub bundles: Option<String>,
    /// Others copy from the volume, too: calls hold a lock on it, so that no copy is half of a call.
    pub shared_volume: bool,
}

/// What a tool gets.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The plugin's tree, or a link to the active one.
    pub plugin: PathBuf,
    /// The folder in which `NAME` is the folder of serial calls of the plugin `NAME`; plugins expect
    /// `/tmp`.
    pub scratch: PathBuf,
    /// The folder of folders for concurrent calls, and for what else is temporary.
    pub temporary: PathBuf,
    pub environment: Environment,
    /// Folders that a tool may read, beside the system's.
    pub readable: Vec<PathBuf>,
    /// Folders that a tool may write, beside scratch and cache. The plugin's tree, unless said
    /// otherwise: plugins keep files beside their code.
    pub state: Vec<PathBuf>,
    /// Where the container's memory is counted.
    pub cgroups: PathBuf,
    pub deadlines: Deadlines,
    pub output: OutputLimits,
    /// Processes of a call at a time.
    pub processes: u32,
    pub resources: ResourceLimits,
    pub budget: Budget,
    /// Where a build has packages from; a call is told nothing of it.
    pub packages: Packages,
}

/// What the plugin's tree and its caches may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub bytes: u64,
    pub files: u64,
}

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    pub sync: Duration,
    pub r#async: Duration,
    /// From the request to end until the kill.
    pub grace: Duration,
}

impl Deadlines {
    /// In words for people: whole seconds, or as many places as it takes.
    pub(crate) fn seconds(millis: u64) -> f64 {
        millis as f64 / 1000.0
    }
}

impl Settings {
    /// Reads them from the variables of a process. A name that is not known is an error: a limit
    /// that was mistyped would not be one.
    pub fn read(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut given = Given::of(RUNNER, variables);
        let plugin: PathBuf = given.needed("PLUGIN", "the folder of a plugin")?;
        let mounted: Option<PathBuf> = given.read("MOUNTED", FOLDER)?;
        let volume: Option<PathBuf> = given.read("VOLUME", FOLDER)?;
        let bearer: Option<PathBuf> = given.read("BEARER_FILE", "a file")?;
        let bearer = match (bearer, &mounted) {
            (Some(file), _) => file,
            (None, Some(mounted)) => mounted.join("bearer"),
            (None, None) => return Err(RUNNER.missing("BEARER_FILE").into()),
        };
        let cluster = match (mounted, volume.clone()) {
            (Some(mounted), Some(volume)) => Some(Cluster {
                mounted,
                volume,
                probe: Targets::read(&mut given)?,
                accept_open_network: given.or("ACCEPT_OPEN_NETWORK", false, SWITCH)?,
                termination: steps::termination(&mut given)?,
                bundles: given.read("BUNDLES", "the URL of the app")?,
                shared_volume: given.or("SHARED_VOLUME", false, SWITCH)?,
            }),
            (None, None) => None,
            (Some(_), None) => return Err(RUNNER.missing("VOLUME").into()),
            (None, Some(_)) => return Err(RUNNER.missing("MOUNTED").into()),
        };
        let settings = Self {
            listen: given.or(
                "LISTEN",
                Endpoint::Address(SocketAddr::new(EVERYWHERE, 8090)),
                ENDPOINT,
            )?,
            bearer,
            kept: given.needed("KEPT", FOLDER)?,
            drain: given.seconds("DRAIN_SECONDS", 320.0)?,
            log: given.or("LOG", "info".to_owned(), "a log filter")?,
            json: given.or("LOG_JSON", true, SWITCH)?,
            limits: Limits {
                concurrent: given.or("CONCURRENT", 16, NUMBER)?,
                waiting: given.or("WAITING", 64, NUMBER)?,
                kept: given.or("KEPT_RESULTS", 256, NUMBER)?,
                ..Limits::default()
            },
            retry: RetryPolicy {
                first_pause: given.seconds("CALLBACK_PAUSE_SECONDS", 0.5)?,
                ..RetryPolicy::default()
            },
            sandbox: Sandbox::read(&mut given, plugin, volume.as_deref())?,
            cluster,
        };
        // The steps before it may share its variables.
        given.pass_over(&steps::OWN);
        given.nothing_left()?;
        settings.keep_to_the_tree().hide()
    }

    /// In a cluster tools write to the tree that serves, and not to the others on the volume.
    fn keep_to_the_tree(mut self) -> Self {
        if let Some(cluster) = &self.cluster {
            let volume = real(&cluster.volume);
            self.sandbox.state.retain(|folder| !real(folder).starts_with(&volume));
            self.sandbox.state.push(self.sandbox.plugin.clone());
        }
        self
    }

    /// Neither the bearer nor kept results may lie where a tool reads or writes.
    fn hide(self) -> Result<Self, SettingsError> {
        let reachable = self.sandbox.read_from().into_iter().chain(self.sandbox.write_to());
        let reachable: Vec<PathBuf> = reachable.map(|folder| real(&folder)).collect();
        let mut hidden =
            vec![("the bearer file", &self.bearer), ("the folder of kept results", &self.kept)];
        if let Some(cluster) = &self.cluster {
            hidden.push(("the mounted folder", &cluster.mounted));
        }
        if let Some(folder) = &self.sandbox.packages.credentials {
            hidden.push(("the folder of credentials for packages", folder));
        }
        for (what, path) in hidden {
            if let Some(folder) = reachable.iter().find(|folder| real(path).starts_with(folder)) {
                let (path, folder) = (path.clone(), folder.clone());
                return Err(SettingsError::Reachable { what, path, folder });
            }
        }
        Ok(self)
    }
}

impl Sandbox {
    /// `volume` is where caches are unless it is said otherwise.
    fn read(given: &mut Given, plugin: PathBuf, volume: Option<&Path>) -> Result<Self, Error> {
        let cache = volume.map_or_else(|| "/cache".into(), |volume| volume.join("cache"));
        Ok(Self {
            scratch: given.or("SCRATCH", "/tmp".into(), FOLDER)?,
            temporary: given.or("TEMPORARY", "/tmp".into(), FOLDER)?,
            environment: Environment {
                cache: given.or("CACHE", cache, FOLDER)?,
                path: given.or("PATH", DEFAULT_PATH.to_owned(), FOLDERS)?,
                python: given.or("PYTHON", "/opt/python".into(), FOLDER)?,
            },
            readable: given.list("READABLE", ':', FOLDERS)?.unwrap_or_default(),
            state: given.list("STATE", ':', FOLDERS)?.unwrap_or_else(|| vec![plugin.clone()]),
            plugin,
            cgroups: given.or("CGROUPS", "/sys/fs/cgroup".into(), FOLDER)?,
            deadlines: Deadlines {
                sync: given.seconds("SYNC_SECONDS", 30.0)?,
                r#async: given.seconds("ASYNC_SECONDS", 300.0)?,
                grace: given.seconds("GRACE_SECONDS", 2.0)?,
            },
            output: OutputLimits {
                stdout_bytes: given.or("STDOUT_BYTES", 1 << 20, NUMBER)?,
                stderr_bytes: given.or("STDERR_BYTES", 64 << 10, NUMBER)?,
            },
            processes: given.or("PROCESSES", 128, NUMBER)?,
            resources: ResourceLimits {
                user_threads: given.or("OWN_USER", true, SWITCH)?.then_some(1024),
                descriptors: given.or("DESCRIPTORS", 1024, NUMBER)?,
                file_bytes: given.or("FILE_BYTES", 1 << 30, NUMBER)?,
            },
            budget: Budget {
                bytes: given.or("STATE_BYTES", u64::MAX, NUMBER)?,
                files: given.or("STATE_FILES", u64::MAX, NUMBER)?,
            },
            packages: Packages::read(given)?,
        })
    }

    /// What every tool may read and execute.
    pub(crate) fn read_from(&self) -> Vec<PathBuf> {
        let own = [self.plugin.clone(), self.environment.python.clone()];
        SYSTEM.iter().map(PathBuf::from).chain(own).chain(self.readable.iter().cloned()).collect()
    }

    /// What every tool may write, beside the folders of its call.
    pub(crate) fn write_to(&self) -> Vec<PathBuf> {
        self.state.iter().chain([&self.environment.cache]).cloned().collect()
    }
}

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let needed = [("PLUGIN", "/plugins/p"), ("BEARER_FILE", "/run/b"), ("KEPT", "/kept")];
        let all = needed.iter().chain(variables).map(|(name, value)| {
            (OsString::from(format!("{}{name}", RUNNER.prefix)), OsString::from(value))
        });
        Settings::read(all.chain([("HOME".into(), "/root".into())])).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_not_said_is_the_guides() {
        let settings = read(&[]).unwrap();
        // Over IPv6 and IPv4 alike: the app asks for a Pod by whichever address it has.
        assert_eq!(settings.listen.to_string(), "[::]:8090");
        assert_eq!(settings.sandbox.deadlines.sync, Duration::from_secs(30));
        assert_eq!(settings.sandbox.deadlines.r#async, Duration::from_mins(5));
        assert_eq!(settings.sandbox.scratch, Path::new("/tmp"));
        assert_eq!(settings.sandbox.state, [PathBuf::from("/plugins/p")]);
        assert!(settings.sandbox.resources.user_threads.is_some());
    }

    #[test]
    fn a_mistake_is_named() {
        let check = |name: &str, value: &str, expected: &str| {
            assert_eq!(read(&[(name, value)]).unwrap_err(), expected);
        };
        check(
            "PROCESES",
            "5",
            "FAMULUS_RUNNER_PROCESES is no setting; remove it, or correct its name",
        );
        check("PROCESSES", "many", "FAMULUS_RUNNER_PROCESSES is `many`; write a number");
        check(
            "BEARER_FILE",
            "/etc/bearer",
            "the bearer file /etc/bearer lies in /etc, which tools can reach; put it elsewhere",
        );
        check(
            "STATE",
            "/kept:/x",
            "the folder of kept results /kept lies in /kept, which tools can reach; put it elsewhere",
        );
        assert!(Settings::read([]).is_err());
    }
}
