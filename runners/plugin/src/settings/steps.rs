//! What the steps before the runner are told: the probe, the bundling, the build.
//!
//! The containers of a Pod may share their variables, so that a step passes over what is another's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use famulus_runner_harness::probe::Targets;
use famulus_settings::{Error, Given};

use super::{FOLDER, FOLDERS, RUNNER, SWITCH, Sandbox, SettingsError};

/// Where the kubelet reads how a container ended.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Variables that only a step knows.
pub(super) const OWN: [&str; 5] = ["BUILD", "WORK", "PLUGINS", "FILES", "REPOSITORIES_CREDENTIALS"];

#[derive(Clone, Debug)]
pub struct ProbeSettings {
    pub targets: Targets,
    pub termination: PathBuf,
}

impl ProbeSettings {
    pub fn read(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut given = Given::of(RUNNER, variables);
        Ok(Self { targets: Targets::read(&mut given)?, termination: termination(&mut given)? })
    }
}

/// What the bundling is told.
#[derive(Clone, Debug)]
pub struct BundleSettings {
    /// `build.json` and `bearer`.
    pub order: PathBuf,
    /// Where bundle and report go.
    pub work: PathBuf,
    pub termination: PathBuf,
    /// Where git is looked for.
    pub path: String,
    pub cgroups: PathBuf,
    /// Whether the user is its own, so that the kernel may count its threads.
    pub own_user: bool,
    /// A folder with credentials for private repositories. Nothing but a bundling sees it.
    pub credentials: Option<PathBuf>,
}

impl BundleSettings {
    pub fn read(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut given = Given::of(RUNNER, variables);
        Ok(Self {
            order: given.or("BUILD", "/run/famulus/build".into(), FOLDER)?,
            work: given.or("WORK", "/work".into(), FOLDER)?,
            termination: termination(&mut given)?,
            path: given.or("PATH", super::DEFAULT_PATH.to_owned(), FOLDERS)?,
            cgroups: given.or("CGROUPS", "/sys/fs/cgroup".into(), FOLDER)?,
            own_user: given.or("OWN_USER", true, SWITCH)?,
            credentials: given.read("REPOSITORIES_CREDENTIALS", FOLDER)?,
        })
    }
}

/// What the build is told.
#[derive(Clone, Debug)]
pub struct BuildSettings {
    /// Bundle and report of the step before.
    pub work: PathBuf,
    /// The plugin's volume.
    pub volume: PathBuf,
    /// The folder in which `NAME` is to lead to the tree.
    pub plugins: PathBuf,
    /// Where `config.json` is, if there is any.
    pub mounted: PathBuf,
    pub termination: PathBuf,
    pub targets: Targets,
    /// The owner lets plugins run although their network is not closed.
    pub accept_open_network: bool,
    /// As for a call; the plugin's folder in it is nobody's yet.
    pub sandbox: Sandbox,
}

impl BuildSettings {
    pub fn read(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut given = Given::of(RUNNER, variables);
        let volume: PathBuf = given.or("VOLUME", "/state".into(), FOLDER)?;
        let plugins: PathBuf = given.or("PLUGINS", "/plugins".into(), FOLDER)?;
        let mut sandbox = Sandbox::read(&mut given, plugins.clone(), Some(&volume))?;
        // What a runner may write is not what a build may.
        sandbox.state.clear();
        Ok(Self {
            work: given.or("WORK", "/work".into(), FOLDER)?,
            mounted: given.or("MOUNTED", "/run/famulus/mounted".into(), FOLDER)?,
            termination: termination(&mut given)?,
            targets: Targets::read(&mut given)?,
            accept_open_network: given.or("ACCEPT_OPEN_NETWORK", false, SWITCH)?,
            volume,
            plugins,
            sandbox,
        })
    }
}

/// What is told who copies the files that a plugin keeps.
#[derive(Clone, Debug)]
pub struct CopySettings {
    /// The plugin's volume.
    pub volume: PathBuf,
    /// The plugin's home, which outlives revisions.
    pub home: PathBuf,
    /// Bundle and report of the step before the build.
    pub work: PathBuf,
    /// The tar that is given back.
    pub files: PathBuf,
    pub termination: PathBuf,
    /// How long a moment without calls is waited for.
    pub patience: Duration,
}

impl CopySettings {
    pub fn read(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut given = Given::of(RUNNER, variables);
        let volume: PathBuf = given.or("VOLUME", "/state".into(), FOLDER)?;
        let cache = given.or("CACHE", volume.join("cache"), FOLDER)?;
        Ok(Self {
            home: cache.join("home"),
            volume,
            work: given.or("WORK", "/work".into(), FOLDER)?,
            files: given.or("FILES", "/run/famulus/files.tar".into(), "a tar")?,
            termination: termination(&mut given)?,
            patience: given.seconds("COPY_SECONDS", 420.0)?,
        })
    }
}

pub(super) fn termination(given: &mut Given) -> Result<PathBuf, Error> {
    given.or("TERMINATION_LOG", TERMINATION_LOG.into(), "a file")
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use famulus_runner_harness::Endpoint;

    use super::*;

    #[test]
    fn a_step_takes_what_is_its_own_and_passes_over_the_rest() {
        let variables = |all: &[(&str, &str)]| {
            all.iter()
                .map(|(name, value)| (format!("FAMULUS_RUNNER_{name}").into(), (*value).into()))
                .collect::<Vec<(OsString, OsString)>>()
        };
        let given = [
            ("PROBE_CONTROL", "10.0.0.1:3002"),
            ("PROBE_DENIED", "10.0.0.2:443, [fd00::1]:3003"),
            ("LISTEN", "0.0.0.0:1"),
            ("VOLUME", "/v"),
        ];
        let probe = ProbeSettings::read(variables(&given)).unwrap();
        let app = Endpoint::Address(SocketAddr::from(([10, 0, 0, 1], 3002)));
        assert_eq!(probe.targets.control, Some(app));
        assert_eq!(probe.targets.denied.len(), 2);
        assert_eq!(probe.targets.pause, Duration::from_secs(20), "as docs/SECURITY.md says");
        assert_eq!(probe.termination.to_str(), Some(TERMINATION_LOG));
        let build = BuildSettings::read(variables(&given)).unwrap();
        assert_eq!(build.sandbox.environment.cache.to_str(), Some("/v/cache"));
        let error = ProbeSettings::read(variables(&[("PROBE_DENIED", "api")])).unwrap_err();
        let said =
            "FAMULUS_RUNNER_PROBE_DENIED is `api`; write addresses with ports, with `,` between";
        assert_eq!(error.to_string(), said);
    }
}
