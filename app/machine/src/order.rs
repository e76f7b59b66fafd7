//! What the launcher is asked for: the sandbox of a runner, and those of the steps before it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use famulus_core::plugin::Egress;
use famulus_protocol::launch::{Launch, LaunchNetwork, Place};

use crate::folders::PluginFolders;
use crate::machine::Settings;

/// Where things are in a sandbox.
const RUNNER: &str = "/famulus/runner";
const PROGRAMS: &str = "/famulus/programs";
const UV: &str = "/famulus/uv";
const MOUNTED: &str = "/famulus/mounted";
const ORDER: &str = "/famulus/order";
const DOORS: &str = "/famulus/doors";
const KEPT: &str = "/famulus/kept";
const WORK: &str = "/famulus/work";
const STATE: &str = "/state";
const PLUGINS: &str = "/plugins";
const TEMPORARY: &str = "/tmp";

/// Where every sandbox finds the app.
pub const APP: &str = "unix:/famulus/doors/app";

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
    Build,
    /// To see what holds a call, before there is any plugin.
    Check,
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
) -> Launch {
    let folders = of.folders;
    let mut places = vec![
        read(settings.runner.clone(), RUNNER),
        written(folders.doors(), DOORS),
        written(folders.temporary(purpose), TEMPORARY),
    ];
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
        Purpose::Bundle => {
            places.extend([read(folders.order(), ORDER), written(folders.work(), WORK)]);
        }
        Purpose::Build | Purpose::Check => places.extend([
            read(folders.mounted(), MOUNTED),
            written(folders.work(), WORK),
            written(folders.state(), STATE),
            in_memory(PLUGINS),
        ]),
    }
    let step = match purpose {
        Purpose::Serve => None,
        Purpose::Bundle => Some("bundle".to_owned()),
        Purpose::Build => Some("build".to_owned()),
        Purpose::Check => Some("check".to_owned()),
    };
    Launch {
        root: of.root.clone(),
        user: of.user,
        places,
        network,
        variables: variables(purpose, of, settings, uv.is_some()),
        command: [RUNNER.to_owned()].into_iter().chain(step).collect(),
    }
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
        Purpose::Bundle | Purpose::Build | Purpose::Check => WORK,
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
        ("STATE", format!("{PLUGINS}/{}:{STATE}/revisions", of.plugin)),
        ("STATE_BYTES", STATE_BYTES.to_string()),
        ("STATE_FILES", STATE_FILES.to_string()),
        ("SCRATCH", TEMPORARY.to_owned()),
        ("TEMPORARY", TEMPORARY.to_owned()),
        ("TERMINATION_LOG", format!("{report}/{REPORT}")),
        ("PATH", path.join(":")),
        ("READABLE", format!("{PROGRAMS}:{UV}")),
        // The threads of an ordinary user's plugins are the user's.
        ("OWN_USER", of.user.is_some().to_string()),
        ("PROBE_CONTROL", APP.to_owned()),
        ("PROBE_DENIED", denied.join(",")),
        ("LOG_JSON", "false".to_owned()),
    ];
    of_all.into_iter().map(|(name, value)| (format!("FAMULUS_RUNNER_{name}"), value)).collect()
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
            let order = launch(purpose, &of, &settings, None, LaunchNetwork::None);
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
        let order = launch(Purpose::Build, &of, &settings, Some(uv), LaunchNetwork::None);
        let home = |place: &&Place| place.from.as_ref().is_some_and(|it| it.starts_with("/home"));
        let shown: Vec<&Place> = order.places.iter().filter(home).collect();
        assert_eq!(shown, [&read(uv.to_owned(), "/famulus/uv/uv")], "and nothing beside it");
        assert!(order.variables["FAMULUS_RUNNER_PATH"].starts_with("/famulus/uv:/usr/local"));
        assert_eq!(seen(Purpose::Serve), all(&["doors", "kept", "mounted", "state", "tmp"]));
        assert_eq!(seen(Purpose::Bundle), all(&["doors", "order", "step", "work"]));
        assert_eq!(seen(Purpose::Build), all(&["doors", "mounted", "state", "step", "work"]));
    }
}
