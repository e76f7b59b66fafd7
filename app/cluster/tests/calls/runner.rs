//! Real runners on loopback addresses of their own, as Pods have them, and a door before one that
//! can be shut.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Held while a program is written and while one is started: what is forked meanwhile would keep the
/// file open for writing, and nobody could run it.
static PROGRAMS: Mutex<()> = Mutex::new(());

/// A plugin named `test` on disk.
pub(crate) struct Plugin {
    folder: TempDir,
    user: u32,
}

/// An address that nobody else has: loopback has sixteen million.
pub(crate) fn address() -> IpAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let number = 20 + NEXT.fetch_add(1, Ordering::Relaxed) % 200;
    IpAddr::V4(Ipv4Addr::new(127, number as u8, high, low.max(1)))
}

impl Plugin {
    pub(crate) fn new(bearer: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let plugin = Self {
            folder: tempfile::tempdir().unwrap(),
            user: 3_000_000
                + std::process::id() % 100_000 * 100
                + NEXT.fetch_add(1, Ordering::Relaxed),
        };
        for folder in ["plugins/test", "tmp", "cache", "state"] {
            fs::create_dir_all(plugin.path(folder)).unwrap();
        }
        plugin.write("bearer", bearer);
        plugin.write("plugins/test/manifest.json", r#"{"name":"test","description":"A test."}"#);
        plugin
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What tools left in the folder `STATE`.
    pub(crate) fn state(&self, name: &str) -> String {
        fs::read_to_string(self.path("state").join(name)).unwrap_or_default()
    }

    /// Adds a tool; `more` are keys of its manifest.
    pub(crate) fn tool(&self, name: &str, more: Value, script: &str) {
        let mut manifest = json!({
            "name": name, "description": "A tool.", "entrypoint": "run", "parameters": {},
        });
        for (key, value) in more.as_object().unwrap() {
            manifest[key] = value.clone();
        }
        self.write(&format!("plugins/test/{name}/manifest.json"), &manifest.to_string());
        let entrypoint = format!("plugins/test/{name}/run");
        let _alone = PROGRAMS.lock();
        self.write(&entrypoint, &script.replace("STATE", self.path("state").to_str().unwrap()));
        fs::set_permissions(self.path(&entrypoint), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts a runner for it, and waits until it listens.
    pub(crate) fn start(&self, address: IpAddr) -> Runner {
        self.start_with(address, "kept")
    }

    /// With another folder of kept results, as a Pod of its own has.
    pub(crate) fn start_with(&self, address: IpAddr, kept: &str) -> Runner {
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let own_user = rustix::process::geteuid().is_root();
        let mut command = Command::new(program());
        command.env_clear().current_dir("/").stdin(Stdio::null()).stderr(Stdio::piped());
        let settings = [
            ("LISTEN", format!("{address}:8090")),
            ("PLUGIN", path("plugins/test")),
            ("BEARER_FILE", path("bearer")),
            ("KEPT", path(kept)),
            ("SCRATCH", path("tmp")),
            ("TEMPORARY", path("tmp")),
            ("CACHE", path("cache")),
            ("STATE", format!("{}:{}", path("plugins/test"), path("state"))),
            ("PYTHON", path("python")),
            ("CGROUPS", path("cgroups")),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("OWN_USER", own_user.to_string()),
            ("DRAIN_SECONDS", "20".to_owned()),
        ];
        for (name, value) in settings {
            command.env(format!("FAMULUS_RUNNER_{name}"), value);
        }
        if own_user {
            give(self.folder.path(), self.user);
            command.uid(self.user).gid(self.user);
        }
        let spawned = {
            let _alone = PROGRAMS.lock();
            command.spawn()
        };
        let mut child = spawned.unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        loop {
            let Some(Ok(line)) = log.next() else { panic!("the runner did not start: {said:?}") };
            if line.contains("the runner listens") {
                break;
            }
            said.push(line);
        }
        thread::spawn(move || log.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Runner { child }
    }
}

/// The program, where any user finds it; built if it is not.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = PROGRAM.get_or_init(|| {
        let cargo = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "famulus-runner", "--bin", "famulus-runner"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(cargo.unwrap().success(), "famulus-runner does not build");
        // target/PROFILE/deps/THIS
        let this = std::env::current_exe().unwrap();
        let built = this.ancestors().nth(3).unwrap().join("debug/famulus-runner");
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = folder.path().join("famulus-runner");
        fs::copy(built, &copy).unwrap();
        (folder, copy)
    });
    program
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            if !entry.file_type().unwrap().is_symlink() {
                give(&entry.path(), user);
            }
        }
    }
}

/// A runner, killed at the end of the test.
pub(crate) struct Runner {
    child: Child,
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Runner {
    /// Ends it without a word, as a crash does.
    pub(crate) fn kill(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// Asks it to end: it drains.
    pub(crate) fn drain(&self) {
        self.signal(Signal::TERM);
    }

    /// Its connections stay, and nothing comes of them any more.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

/// Passes connections on to a runner, and cuts them when it is told to.
pub(crate) struct Door {
    /// Bytes of answers that still pass on each connection; then it is cut.
    passes: Arc<AtomicUsize>,
    cuts: watch::Sender<u64>,
    connections: Arc<AtomicUsize>,
    refuses: Arc<AtomicBool>,
}

impl Door {
    pub(crate) async fn open(outside: IpAddr, inside: IpAddr) -> Self {
        let listener = TcpListener::bind((outside, 8090)).await.unwrap();
        let door = Self {
            passes: Arc::new(AtomicUsize::new(usize::MAX)),
            cuts: watch::Sender::new(0),
            connections: Arc::default(),
            refuses: Arc::default(),
        };
        let (connections, refuses) = (Arc::clone(&door.connections), Arc::clone(&door.refuses));
        let (passes, cuts, tasks) = (Arc::clone(&door.passes), door.cuts.clone(), Tasks::new());
        tasks.clone().spawn("door", OnExit::Log, async move {
            while let Ok((from, _)) = listener.accept().await {
                if refuses.load(Ordering::SeqCst) {
                    continue;
                }
                connections.fetch_add(1, Ordering::SeqCst);
                let (passes, mut cut) = (Arc::clone(&passes), cuts.subscribe());
                tasks.spawn("connection", OnExit::Log, async move {
                    let Ok(to) = TcpStream::connect((inside, 8090)).await else { return };
                    tokio::select! {
                        () = forward(from, to, &passes) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        door
    }

    /// Connections that there were.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Cuts all connections that there are.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Cuts what there is, and what comes, or not any more.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
        self.cut();
    }

    /// From now on a connection is cut after so many bytes of answers.
    pub(crate) fn pass(&self, bytes: usize) {
        self.passes.store(bytes, Ordering::SeqCst);
    }
}

async fn forward(from: TcpStream, to: TcpStream, passes: &AtomicUsize) {
    let (mut from_read, mut from_write) = from.into_split();
    let (mut to_read, mut to_write) = to.into_split();
    let out = async {
        let _ended = tokio::io::copy(&mut from_read, &mut to_write).await;
        std::future::pending::<()>().await;
    };
    let back = async {
        let (mut piece, mut passed) = ([0; 4096], 0);
        while let Ok(read @ 1..) = to_read.read(&mut piece).await {
            passed += read;
            if passed > passes.load(Ordering::SeqCst) {
                return;
            }
            if from_write.write_all(&piece[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = out => {}
        () = back => {}
    }
}
