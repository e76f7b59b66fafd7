//! A launcher, and who starts it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use famulus_protocol::launch::{LAUNCH, Launch, LaunchNetwork, Place};
use rustix::process::getuid;
use tempfile::TempDir;

/// The user of a sandbox that root makes, and an ordinary user who makes one; nobody else has them.
const PLUGIN: u32 = 1_200_001;
const ORDINARY: u32 = 1_200_002;

/// Where the program is inside.
const INSIDE: &str = "/famulus/runner";

/// Who starts the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    Ordinary,
}

impl Who {
    /// All that these tests can be.
    pub(crate) fn all() -> Vec<Self> {
        if getuid().is_root() { vec![Self::Root, Self::Ordinary] } else { vec![Self::Ordinary] }
    }

    /// The user inside.
    pub(crate) fn inside(self) -> u32 {
        match self {
            Self::Root => PLUGIN,
            Self::Ordinary => self.outside(),
        }
    }

    fn outside(self) -> u32 {
        match self {
            Self::Ordinary if getuid().is_root() => ORDINARY,
            Self::Root | Self::Ordinary => getuid().as_raw(),
        }
    }
}

/// The program where everybody may execute it: whoever built it may have it in a folder of its own.
/// It is copied before anything is started, which could hold it open for writing.
fn runner() -> &'static Path {
    static RUNNER: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_folder, runner) = RUNNER.get_or_init(|| {
        let folder = open_folder();
        let runner = folder.path().join("runner");
        fs::copy(env!("CARGO_BIN_EXE_famulus-runner"), &runner).unwrap();
        (folder, runner)
    });
    runner
}

fn open_folder() -> TempDir {
    let all = fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().permissions(all).tempdir().unwrap()
}

/// A folder that everybody may enter, and an order.
pub(crate) struct Bench {
    pub(crate) who: Who,
    pub(crate) folder: TempDir,
    pub(crate) order: Launch,
}

impl Bench {
    /// Its sandbox reads `/given`, writes `/own`, and has `/memory`.
    pub(crate) fn new(who: Who) -> Self {
        let folder = open_folder();
        let path = |name: &str| folder.path().join(name);
        for name in ["root", "given", "own"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("given/file"), "given").unwrap();
        let own = fs::Permissions::from_mode(0o700);
        fs::set_permissions(path("own"), own).unwrap();
        if getuid().is_root() {
            chown(path("own"), Some(who.inside()), Some(who.inside())).unwrap();
        }
        let place = |from: Option<&str>, to: &str, writable| Place {
            from: from.map(path),
            to: to.into(),
            writable,
        };
        let places = vec![
            Place { from: Some(runner().to_owned()), to: INSIDE.into(), writable: false },
            place(Some("given"), "/given", false),
            place(Some("own"), "/own", true),
            place(None, "/memory", true),
        ];
        let order = Launch {
            root: path("root"),
            user: (who == Who::Root).then_some(PLUGIN),
            places,
            network: LaunchNetwork::None,
            variables: BTreeMap::from([(
                "PATH".to_owned(),
                "/usr/bin:/usr/sbin:/bin:/sbin".to_owned(),
            )]),
            command: Vec::new(),
        };
        Self { who, folder, order }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts what these words say, as nobody does it.
    pub(crate) fn start(&self, command: &[&str]) -> Child {
        self.start_by(&[], command)
    }

    /// Starts the launcher by the words of another program before it.
    pub(crate) fn start_by(&self, before: &[&str], command: &[&str]) -> Child {
        let mut launcher = self.launcher(before, command);
        if self.who.outside() != getuid().as_raw() {
            launcher.uid(self.who.outside()).gid(self.who.outside());
        }
        launcher.spawn().unwrap()
    }

    /// The same by a program that is root's, and makes itself who is to start it.
    pub(crate) fn start_as_root(&self, before: &[&str], command: &[&str]) -> Child {
        self.launcher(before, command).spawn().unwrap()
    }

    fn launcher(&self, before: &[&str], command: &[&str]) -> Command {
        let order = Launch {
            command: command.iter().map(|&word| word.into()).collect(),
            ..self.order.clone()
        };
        let order = serde_json::to_string(&order).unwrap();
        let runner = runner();
        let words: Vec<&str> =
            before.iter().copied().chain([runner.to_str().unwrap(), LAUNCH, &order]).collect();
        let mut launcher = Command::new(words[0]);
        launcher.args(&words[1..]).current_dir("/");
        launcher.env("SECRET_OF_THE_HOST", "canary-4711");
        launcher.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        launcher
    }

    /// Runs a script in a shell of the sandbox.
    pub(crate) fn shell(&self, script: &str) -> Output {
        finished(self.start(&["/bin/sh", "-c", script]))
    }

    /// What a script says that must end well.
    pub(crate) fn says(&self, script: &str) -> String {
        let output = self.shell(script);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}, {script}: {}: {told}", self.who, output.status);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs a program of Python in the sandbox; what it says must be `expected`.
    pub(crate) fn python(&self, program: &str) -> String {
        let output = finished(self.start(&["/usr/bin/python3", "-I", "-c", program]));
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}: {}: {told}", self.who, output.status);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// What it said, while its standard input is held.
pub(crate) fn finished(mut child: Child) -> Output {
    let held = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(held);
    output
}

/// Whether a process whose arguments have this word is on the machine.
pub(crate) fn is_there(word: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes.filter(|entry| Path::new(&entry.path()).join("cmdline").exists()).any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
    })
}
