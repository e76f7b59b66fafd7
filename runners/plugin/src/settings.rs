//! What a runner is told by its environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use famulus_runner_harness::supervisor::{OutputLimits, ResourceLimits};
use famulus_runner_harness::{Limits, Patience};

/// Every variable begins with it.
const PREFIX: &str = "FAMULUS_RUNNER_";

/// Folders of the system that a tool reads and executes from.
const SYSTEM: [&str; 13] = [
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

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{PREFIX}{0} is not set; see docs/ARCHITECTURE.md, the runner")]
    Missing(&'static str),
    #[error("{PREFIX}{name} is `{value}`; write {wanted}")]
    Wrong { name: &'static str, value: String, wanted: &'static str },
    #[error("{PREFIX}{0} is no setting; remove it, or correct its name")]
    Unknown(String),
    #[error("{what} {path} lies in {folder}, which tools can reach; put it elsewhere")]
    Reachable { what: &'static str, path: PathBuf, folder: PathBuf },
}

/// The whole of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the app finds the runner.
    pub listen: SocketAddr,
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
    pub patience: Patience,
    pub sandbox: Sandbox,
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
    /// `uv` and `home` of the plugin.
    pub cache: PathBuf,
    pub path: String,
    pub python: PathBuf,
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
        let mut given = Given::of(variables);
        let plugin: PathBuf = given.needed("PLUGIN", "the folder of a plugin")?;
        let temporary: PathBuf = given.or("TEMPORARY", "/tmp".into(), "a folder")?;
        let millis =
            |seconds: f64| Duration::from_millis((seconds.clamp(0.0, 1e6) * 1000.0) as u64);
        let settings = Self {
            listen: given.or(
                "LISTEN",
                SocketAddr::from(([0, 0, 0, 0], 8090)),
                "an address with a port",
            )?,
            bearer: given.needed("BEARER_FILE", "a file")?,
            kept: given.needed("KEPT", "a folder")?,
            drain: millis(given.or("DRAIN_SECONDS", 320.0, SECONDS)?),
            log: given.or("LOG", "info".to_owned(), "a log filter")?,
            json: given.or("LOG_JSON", true, "true or false")?,
            limits: Limits {
                concurrent: given.or("CONCURRENT", 16, NUMBER)?,
                waiting: given.or("WAITING", 64, NUMBER)?,
                kept: given.or("KEPT_RESULTS", 256, NUMBER)?,
                ..Limits::default()
            },
            patience: Patience {
                first_pause: millis(given.or("CALLBACK_PAUSE_SECONDS", 0.5, SECONDS)?),
                ..Patience::default()
            },
            sandbox: Sandbox {
                scratch: given.or("SCRATCH", "/tmp".into(), "a folder")?,
                temporary,
                cache: given.or("CACHE", "/cache".into(), "a folder")?,
                path: given.or("PATH", DEFAULT_PATH.to_owned(), "folders with `:` between")?,
                python: given.or("PYTHON", "/opt/python".into(), "a folder")?,
                readable: given.folders("READABLE")?.unwrap_or_default(),
                state: given.folders("STATE")?.unwrap_or_else(|| vec![plugin.clone()]),
                plugin,
                cgroups: given.or("CGROUPS", "/sys/fs/cgroup".into(), "a folder")?,
                deadlines: Deadlines {
                    sync: millis(given.or("SYNC_SECONDS", 30.0, SECONDS)?),
                    r#async: millis(given.or("ASYNC_SECONDS", 300.0, SECONDS)?),
                    grace: millis(given.or("GRACE_SECONDS", 2.0, SECONDS)?),
                },
                output: OutputLimits {
                    stdout_bytes: given.or("STDOUT_BYTES", 1 << 20, NUMBER)?,
                    stderr_bytes: given.or("STDERR_BYTES", 64 << 10, NUMBER)?,
                },
                processes: given.or("PROCESSES", 128, NUMBER)?,
                resources: ResourceLimits {
                    user_threads: given.or("OWN_USER", true, "true or false")?.then_some(1024),
                    descriptors: given.or("DESCRIPTORS", 1024, NUMBER)?,
                    file_bytes: given.or("FILE_BYTES", 1 << 30, NUMBER)?,
                },
            },
        };
        given.nothing_left()?;
        settings.hide()
    }

    /// Neither the bearer nor kept results may lie where a tool reads or writes.
    fn hide(self) -> Result<Self, SettingsError> {
        let reachable = self.sandbox.read_from().into_iter().chain(self.sandbox.write_to());
        let reachable: Vec<PathBuf> = reachable.map(|folder| real(&folder)).collect();
        let hidden =
            [("the bearer file", &self.bearer), ("the folder of kept results", &self.kept)];
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
    /// What every tool may read and execute.
    pub(crate) fn read_from(&self) -> Vec<PathBuf> {
        let own = [self.plugin.clone(), self.python.clone()];
        SYSTEM.iter().map(PathBuf::from).chain(own).chain(self.readable.iter().cloned()).collect()
    }

    /// What every tool may write, beside the folders of its call.
    pub(crate) fn write_to(&self) -> Vec<PathBuf> {
        self.state.iter().chain([&self.cache]).cloned().collect()
    }
}

const SECONDS: &str = "a number of seconds";
const NUMBER: &str = "a number";
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

/// Variables that were not read yet, without their prefix.
struct Given(BTreeMap<String, String>);

impl Given {
    fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let ours = |(name, value): (OsString, OsString)| {
            let name = name.to_str()?.strip_prefix(PREFIX)?.to_owned();
            Some((name, value.to_string_lossy().into_owned()))
        };
        Self(variables.into_iter().filter_map(ours).collect())
    }

    fn read<T: FromStr>(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Option<T>, SettingsError> {
        let Some(value) = self.0.remove(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| SettingsError::Wrong { name, value, wanted })
    }

    fn or<T: FromStr>(
        &mut self,
        name: &'static str,
        otherwise: T,
        wanted: &'static str,
    ) -> Result<T, SettingsError> {
        Ok(self.read(name, wanted)?.unwrap_or(otherwise))
    }

    fn needed<T: FromStr>(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<T, SettingsError> {
        self.read(name, wanted)?.ok_or(SettingsError::Missing(name))
    }

    fn folders(&mut self, name: &'static str) -> Result<Option<Vec<PathBuf>>, SettingsError> {
        let value: Option<String> = self.read(name, "folders with `:` between")?;
        let split = |value: String| {
            value.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect()
        };
        Ok(value.map(split))
    }

    fn nothing_left(self) -> Result<(), SettingsError> {
        match self.0.into_keys().next() {
            Some(name) => Err(SettingsError::Unknown(name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let needed = [("PLUGIN", "/plugins/p"), ("BEARER_FILE", "/run/b"), ("KEPT", "/kept")];
        let all = needed.iter().chain(variables).map(|(name, value)| {
            (OsString::from(format!("{PREFIX}{name}")), OsString::from(value))
        });
        Settings::read(all.chain([("HOME".into(), "/root".into())])).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_not_said_is_the_guides() {
        let settings = read(&[]).unwrap();
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
