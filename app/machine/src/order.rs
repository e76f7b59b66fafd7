//! What the launcher is asked for: the sandbox of a runner, and those of the steps before it.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use famulus_core::plugin::Egress;
use famulus_protocol::launch::{Launch, LaunchLimits, LaunchNetwork, Place};

use crate::cgroups::{LIMITS, Limited, limited};
use crate::folders::PluginFolders;
use crate::lent::{Lent, PACKAGES, REPOSITORIES};
use crate::machine::Settings;

/// Where things are in a sandbox.
const RUNNER: &str = "/famulus/runner";
const PROGRAMS: &str = "/famulus/programs";
const UV: &str = "/famulus/uv";
const MOUNTED: &str = "/famulus/mounted";
const ORDER: &str = "/famulus/order";
const FILES: &str = "/famulus/files.tar";
const DOORS: &str = "/famulus/doors";
const KEPT: &str = "/famulus/kept";
const WORK: &str = "/famulus/work";
const STATE: &str = "/state";
const PLUGINS: &str = "/plugins";
const TEMPORARY: &str = "/tmp";

/// Where every sandbox finds the app.
pub(crate) const APP: &str = "unix:/famulus/doors/app";

/// The file of a step by which it says how it ended.
pub(crate) const REPORT: &str = "report";

pub(crate) const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Bytes and files that a plugin may keep.
const STATE_BYTES: u64 = 900 << 20;
const STATE_FILES: u64 = 100_000;

/// What a sandbox is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Serve,
    /// Nothing of the plugin is executed in it.
    Bundle,
    /// The same, of what comes from a repository.
    Fetch,
    Build,
    /// To see what holds a call, before there is any plugin.
    Check,
    /// What the plugin keeps is copied out of it, maybe beside a runner that serves.
    Give,
    /// What a backup has of it is put back, before a runner serves.
    Take,
}

impl Purpose {
    /// The step that is taken in it; none where a runner serves.
    pub(crate) fn step(self) -> Option<&'static str> {
        match self {
            Self::Serve => None,
            Self::Bundle | Self::Fetch => Some("bundle"),
            Self::Build => Some("build"),
            Self::Check => Some("check"),
            Self::Give => Some("give"),
            Self::Take => Some("take"),
        }
    }
}

/// A sandbox, and what all of it together may take.
pub(crate) struct SandboxOrder {
    pub(crate) launch: Launch,
    pub(crate) limits: LaunchLimits,
}

/// For whom a sandbox is made.
pub(crate) struct Of<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) folders: &'a PluginFolders,
    pub(crate) root: PathBuf,
    pub(crate) user: Option<u32>,
}

/// `also`: private addresses that are reached with the internet.
pub(crate) fn network(egress: Egress, also: Vec<SocketAddr>) -> LaunchNetwork {
    match egress {
        Egress::None => LaunchNetwork::None,
        Egress::Internet => LaunchNetwork::Internet { also },
    }
}

/// `uv`: the program of this name, where it is shown.
pub(crate) fn launch(
    purpose: Purpose,
    of: &Of<'_>,
    settings: &Settings,
    uv: Option<&Path>,
    network: LaunchNetwork,
) -> SandboxOrder {
    let folders = of.folders;
    let Limited { limits, seen } = limited(settings.cgroups.as_deref(), &id(folders), purpose);
    // The disk is everybody's. Who copies executes nothing of a plugin, and reports there.
    let temporary = if purpose == Purpose::Give {
        written(folders.given(), TEMPORARY)
    } else {
        in_memory(TEMPORARY)
    };
    let mut places = vec![read(settings.runner.clone(), RUNNER), temporary];
    places.extend(seen);
    // Who copies speaks to nobody.
    if !matches!(purpose, Purpose::Give | Purpose::Take) {
        places.push(written(folders.doors(), DOORS));
    }
    places.extend(settings.programs.clone().map(|programs| read(programs, PROGRAMS)));
    places.extend(uv.map(|uv| read(uv.to_owned(), &format!("{UV}/uv"))));
    let uvx = uv.map(|uv| uv.with_file_name("uvx")).filter(|uvx| uvx.is_file());
    places.extend(uvx.map(|uvx| read(uvx, &format!("{UV}/uvx"))));
    match purpose {
        Purpose::Serve => places.extend([
            read(folders.mounted(), MOUNTED),
            written(folders.kept(), KEPT),
            written(folders.state(), STATE),
            in_memory(PLUGINS),
        ]),
        Purpose::Bundle | Purpose::Fetch => {
            places.extend([read(folders.order(), ORDER), written(folders.work(), WORK)]);
        }
        Purpose::Build | Purpose::Check => places.extend([
            read(folders.mounted(), MOUNTED),
            written(folders.work(), WORK),
            written(folders.state(), STATE),
            in_memory(PLUGINS),
        ]),
        Purpose::Give => places.push(written(folders.state(), STATE)),
        Purpose::Take => places.extend([
            read(folders.files(), FILES),
            written(folders.work(), WORK),
            written(folders.state(), STATE),
        ]),
    }
    places.extend(lent(purpose, settings).map(|lent| read(lent.copy(folders), lent.seen)));
    let launch = Launch {
        root: of.root.clone(),
        user: of.user,
        places,
        network,
        variables: variables(purpose, of, settings, uv.is_some()),
        command: [RUNNER].into_iter().chain(purpose.step()).map(str::to_owned).collect(),
    };
    SandboxOrder { launch, limits }
}

/// What a step is lent of the owner's.
fn lent(purpose: Purpose, settings: &Settings) -> Option<Lent> {
    let (lent, from) = match purpose {
        Purpose::Fetch => (REPOSITORIES, &settings.repositories),
        Purpose::Build => (PACKAGES, &settings.packages.credentials),
        Purpose::Serve | Purpose::Bundle | Purpose::Check | Purpose::Give | Purpose::Take => {
            return None;
        }
    };
    from.as_ref().map(|_| lent)
}

/// Whether the threads of an ordinary user's plugins are counted apart from the user's own: who is no root has a
/// user namespace in each sandbox.
fn is_counted_apart() -> bool {
    // Who does not say what it is, is taken for an older one.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    counts_in_namespaces(&release)
}

/// The first release of the kernel that counts a user's threads in each user namespace.
const COUNTS_IN_NAMESPACES: [u32; 2] = [5, 14];

fn counts_in_namespaces(release: &str) -> bool {
    let numbers = release.split(|letter: char| !letter.is_ascii_digit()).take(2);
    let numbers: Vec<u32> = numbers.map_while(|number| number.parse().ok()).collect();
    numbers.len() == 2 && numbers[..] >= COUNTS_IN_NAMESPACES[..]
}

/// By which the folders of the plugin are named.
fn id(folders: &PluginFolders) -> String {
    let state = folders.state();
    let id = state.parent().and_then(Path::file_name).unwrap_or_default();
    id.to_string_lossy().into_owned()
}

/// Nothing of it is secret.
fn variables(
    purpose: Purpose,
    of: &Of<'_>,
    settings: &Settings,
    has_uv: bool,
) -> BTreeMap<String, String> {
    let programs = settings.programs.as_ref().map(|_| PROGRAMS);
    let path: Vec<&str> =
        programs.into_iter().chain(has_uv.then_some(UV)).chain([SYSTEM_PATH]).collect();
    let denied: Vec<String> = settings.denied.iter().map(ToString::to_string).collect();
    let report = match purpose {
        Purpose::Serve => KEPT,
        // A build may be under way beside it, which has the other folder.
        Purpose::Give => TEMPORARY,
        Purpose::Bundle | Purpose::Fetch | Purpose::Build | Purpose::Check | Purpose::Take => WORK,
    };
    let of_all = [
        ("PLUGIN", format!("{PLUGINS}/{}", of.plugin)),
        ("PLUGINS", PLUGINS.to_owned()),
        ("LISTEN", format!("unix:{DOORS}/run")),
        ("MOUNTED", if purpose == Purpose::Build { whole(MOUNTED) } else { MOUNTED.to_owned() }),
        ("BUILD", whole(ORDER)),
        ("WORK", WORK.to_owned()),
        ("VOLUME", STATE.to_owned()),
        ("KEPT", format!("{KEPT}/calls")),
        ("FILES", FILES.to_owned()),
        ("SHARED_VOLUME", "true".to_owned()),
        ("STATE", format!("{PLUGINS}/{}:{STATE}/revisions", of.plugin)),
        ("CGROUPS", LIMITS.to_owned()),
        ("STATE_BYTES", STATE_BYTES.to_string()),
        ("STATE_FILES", STATE_FILES.to_string()),
        ("SCRATCH", TEMPORARY.to_owned()),
        ("TEMPORARY", TEMPORARY.to_owned()),
        ("TERMINATION_LOG", format!("{report}/{REPORT}")),
        ("PATH", path.join(":")),
        ("READABLE", format!("{PROGRAMS}:{UV}")),
        ("OWN_USER", (of.user.is_some() || is_counted_apart()).to_string()),
        ("PROBE_CONTROL", APP.to_owned()),
        ("PROBE_DENIED", denied.join(",")),
        ("LOG_JSON", "false".to_owned()),
    ];
    let of_builds = settings.packages.variables();
    let of_builds = of_builds.into_iter().filter(|_| purpose == Purpose::Build);
    let of_bundles = settings.repositories.as_ref().filter(|_| purpose == Purpose::Fetch);
    let of_bundles = of_bundles.map(|_| ("REPOSITORIES_CREDENTIALS", REPOSITORIES.seen.to_owned()));
    let all = of_all.into_iter().chain(of_builds).chain(of_bundles);
    all.map(|(name, value)| (format!("FAMULUS_RUNNER_{name}"), value)).collect()
}

/// What was exchanged as a whole, for who reads it once.
fn whole(folder: &str) -> String {
    format!("{folder}/{}", crate::mounted::LINK)
}

fn read(from: PathBuf, to: &str) -> Place {
    place(Some(from), to, false)
}

fn written(from: PathBuf, to: &str) -> Place {
    place(Some(from), to, true)
}

fn in_memory(to: &str) -> Place {
    place(None, to, true)
}

fn place(from: Option<PathBuf>, to: &str, writable: bool) -> Place {
    Place { from, to: Path::new(to).to_owned(), writable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folders::Folders;

    #[test]
    fn no_sandbox_sees_more_than_it_is_for() {
        let settings = Settings::new("/opt/famulus-runner".into(), "/data".into());
        let folders = Folders::new(Path::new("/data"));
        let own = folders.of("0b0e2a0c-1d7a-4a55-9c43-6d1d3c1f4a10");
        let of = Of { plugin: "p", folders: &own, root: folders.root(), user: Some(1_310_000) };
        let seen = |purpose| {
            let order = launch(purpose, &of, &settings, None, LaunchNetwork::None).launch;
            let from = order.places.iter().filter_map(|place| place.from.clone());
            let below =
                from.filter_map(|path| path.strip_prefix("/data/plugins").ok().map(Path::to_owned));
            let mut below: Vec<String> = below.map(|path| path.display().to_string()).collect();
            below.sort();
            below
        };
        let id = "6d1d3c1f4a10";
        let all =
            |names: &[&str]| names.iter().map(|name| format!("{id}/{name}")).collect::<Vec<_>>();
        let uv = Path::new("/home/ada/.local/bin/uv");
        let order = launch(Purpose::Build, &of, &settings, Some(uv), LaunchNetwork::None).launch;
        let home = |place: &&Place| place.from.as_ref().is_some_and(|it| it.starts_with("/home"));
        let shown: Vec<&Place> = order.places.iter().filter(home).collect();
        assert_eq!(shown, [&read(uv.to_owned(), "/famulus/uv/uv")], "and nothing beside it");
        assert!(order.variables["FAMULUS_RUNNER_PATH"].starts_with("/famulus/uv:/usr/local"));
        assert_eq!(seen(Purpose::Serve), all(&["doors", "kept", "mounted", "state"]));
        assert_eq!(seen(Purpose::Bundle), all(&["doors", "order", "work"]));
        assert_eq!(seen(Purpose::Fetch), all(&["doors", "order", "work"]));
        assert_eq!(seen(Purpose::Build), all(&["doors", "mounted", "state", "work"]));
        assert_eq!(seen(Purpose::Give), all(&["given", "state"]));
        assert_eq!(seen(Purpose::Take), all(&["files.tar", "state", "work"]));
    }

    #[test]
    fn threads_of_a_shared_user_are_limited_where_the_kernel_counts_them_apart() {
        for (release, counts) in [
            ("6.18.44-fc-v782\n", true),
            ("5.14.0-427.el9.x86_64\n", true),
            ("5.10.0-28-amd64\n", false),
            ("4.19\n", false),
            ("", false),
            ("next-20260101", false),
        ] {
            assert_eq!(counts_in_namespaces(release), counts, "{release}");
        }
    }

    #[test]
    fn what_a_sandbox_sees_of_its_limits_is_where_its_runner_looks() {
        let folders = Folders::new(Path::new("/data"));
        let own = folders.of("6d1d3c1f4a10");
        let of = Of { plugin: "p", folders: &own, root: folders.root(), user: None };
        let settings = Settings::new("/opt/famulus-runner".into(), "/data".into());
        let order = launch(Purpose::Serve, &of, &settings, None, LaunchNetwork::None);
        let looks = Path::new(&order.launch.variables["FAMULUS_RUNNER_CGROUPS"]);
        let told: Vec<_> = order.limits.files.iter().map(|file| &*file.path).collect();
        assert_eq!(told, [looks.join("memory.max")]);
        let temporary = order.launch.places.iter().find(|place| place.to == Path::new(TEMPORARY));
        assert_eq!(temporary, Some(&in_memory(TEMPORARY)), "and the disk is not filled by it");
    }

    #[test]
    fn a_step_alone_is_told_of_what_it_is_lent() {
        let folders = Folders::new(Path::new("/data"));
        let own = folders.of("6d1d3c1f4a10");
        let of = Of { plugin: "p", folders: &own, root: folders.root(), user: None };
        let mut settings = Settings::new("/opt/famulus-runner".into(), "/data".into());
        settings.packages.npm = Some("https://npm.home.example/".to_owned());
        settings.packages.credentials = Some("/home/ada/packages".into());
        settings.repositories = Some("/home/ada/repositories".into());
        for (purpose, of_packages, of_repositories) in [
            (Purpose::Serve, false, false),
            (Purpose::Bundle, false, false),
            (Purpose::Fetch, false, true),
            (Purpose::Build, true, false),
            (Purpose::Check, false, false),
            (Purpose::Give, false, false),
            (Purpose::Take, false, false),
        ] {
            let order = launch(purpose, &of, &settings, None, LaunchNetwork::None).launch;
            let told = |word| order.variables.keys().filter(|name| name.contains(word)).count();
            let sees = |lent: &Lent| order.places.iter().any(|it| it.to == Path::new(lent.seen));
            let packages = (told("PACKAGES"), sees(&PACKAGES));
            let repositories = (told("REPOSITORIES"), sees(&REPOSITORIES));
            assert_eq!(packages, (2 * usize::from(of_packages), of_packages), "{purpose:?}");
            let expected = (usize::from(of_repositories), of_repositories);
            assert_eq!(repositories, expected, "{purpose:?}");
        }
    }
}
