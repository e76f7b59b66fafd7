//! The private Postgres, for real: the server from the tree, on data in a temporary folder.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test helper fails by panicking")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use famulus_lifecycle::Tasks;
use famulus_local::postgres::{PostgresError, PrivatePostgres, Settings, Stopped};
use tempfile::TempDir;

/// Long enough for a loaded machine; nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_mins(1);

/// The tree in the cache. A missing one is a failure, not a reason to skip.
fn tree() -> PathBuf {
    let cache = famulus_local::cache::folder(|name| std::env::var_os(name));
    let entries = fs::read_dir(&cache).into_iter().flatten();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let tree = paths.find(|path| path.join("bin/postgres").is_file());
    tree.unwrap_or_else(|| {
        panic!("no Postgres in {}: run `cargo xtask postgres` first", cache.display())
    })
}

/// A folder that the server's unprivileged user can reach.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir();
    folder.unwrap()
}

fn settings(data_dir: &Path) -> Settings {
    Settings { bin_dir: Some(tree().join("bin")), ..Settings::new(data_dir) }
}

async fn start(data_dir: &Path, tasks: &Tasks) -> PrivatePostgres {
    PrivatePostgres::start(settings(data_dir), tasks).await.unwrap()
}

async fn refusal(settings: Settings) -> String {
    PrivatePostgres::start(settings, &Tasks::new()).await.unwrap_err().to_string()
}

/// Processes that work in this data directory.
fn processes(data_dir: &Path) -> Vec<i32> {
    let pgdata = data_dir.join("postgres").canonicalize().unwrap();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|process| {
        let process = process.unwrap();
        let pid = process.file_name().to_str()?.parse().ok()?;
        (fs::read_link(process.path().join("cwd")).ok()? == pgdata).then_some(pid)
    });
    pids.collect()
}

fn postmaster_pid(data_dir: &Path) -> i32 {
    let file = fs::read_to_string(data_dir.join("postgres/postmaster.pid")).unwrap();
    file.lines().next().unwrap().parse().unwrap()
}

fn kill(pid: i32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn data_survive_a_stop_and_nothing_stays_running() {
    let folder = folder();
    let data_dir = folder.path().join("data");
    let tasks = Tasks::new();
    let postgres = start(&data_dir, &tasks).await;
    assert!(postgres.version().starts_with("18."), "{}", postgres.version());
    assert!(postgres.url().ends_with("%2Frun"), "{}", postgres.url());
    postgres
        .run("famulus", "CREATE EXTENSION vector; CREATE TABLE kept (v vector(3))")
        .await
        .unwrap();
    postgres.run("famulus", "INSERT INTO kept VALUES ('[1,2,3]')").await.unwrap();
    let mode = |path: &str| fs::metadata(data_dir.join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode("postgres"), mode("run"), mode("postgres.log")), (0o700, 0o700, 0o600));
    assert_eq!(postgres.stop().await, Stopped::Orderly);
    assert_eq!(processes(&data_dir), Vec::<i32>::new());
    assert!(tasks.drain(PATIENCE).await.stragglers.is_empty());

    let postgres = start(&data_dir, &Tasks::new()).await;
    // Fails unless the row is there.
    let one_row = "DO $$ BEGIN ASSERT (SELECT count(*) = 1 FROM kept), 'lost'; END $$";
    postgres.run("famulus", one_row).await.unwrap();
    let error = postgres.run("famulus", "SELECT 1/0").await.unwrap_err().to_string();
    assert_eq!(
        error,
        "Postgres refused in database \"famulus\": division by zero (SQLSTATE 22012)"
    );
    postgres.stop().await;
}

#[tokio::test]
async fn letters_of_all_alphabets_have_a_lower_case() {
    let folder = folder();
    let postgres = start(folder.path(), &Tasks::new()).await;
    let folded = "DO $$ BEGIN
        ASSERT lower('ÄÑЖ') = 'äñж', 'lower';
        ASSERT to_tsvector('simple', 'ÄPFEL') @@ to_tsquery('simple', 'äpfel'), 'search';
        ASSERT current_setting('fsync') = 'on', 'fsync';
    END $$";
    postgres.run("famulus", folded).await.unwrap();
    postgres.stop().await;
}

/// What stands in the kernel's tables of open ports: of TCP and of UDP, by the socket's number.
fn ports() -> Vec<String> {
    let tables = ["tcp", "tcp6", "udp", "udp6"].map(|table| format!("/proc/net/{table}"));
    let lines = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    let lines: Vec<String> = lines.collect();
    let numbers = lines.iter().flat_map(|table| table.lines().skip(1));
    numbers.map(|line| line.split_whitespace().nth(9).unwrap().to_owned()).collect()
}

/// The sockets that a process holds, by their numbers.
fn sockets(pid: i32) -> Vec<String> {
    let held = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let leads = held.filter_map(|held| fs::read_link(held.unwrap().path()).ok());
    let number = |lead: PathBuf| {
        let number = lead.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(number.to_owned())
    };
    leads.filter_map(number).collect()
}

#[tokio::test]
async fn it_is_reached_by_its_socket_and_not_over_the_network() {
    let folder = folder();
    let postgres = start(folder.path(), &Tasks::new()).await;
    let set = "DO $$ BEGIN
        ASSERT current_setting('listen_addresses') = '', 'listen_addresses';
    END $$";
    postgres.run("famulus", set).await.unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = sockets(i32::try_from(std::process::id()).unwrap());
    assert!(own.iter().any(|socket| ports().contains(socket)), "a port is found: {listener:?}");
    let all = processes(folder.path());
    let held: Vec<String> = all.iter().flat_map(|pid| sockets(*pid)).collect();
    assert!(all.len() > 1 && !held.is_empty(), "{all:?} hold {held:?}");
    let open: Vec<&String> = held.iter().filter(|socket| ports().contains(socket)).collect();
    assert!(open.is_empty(), "{all:?}: {open:?}");
    postgres.stop().await;
}

#[tokio::test]
async fn a_second_start_is_refused_while_the_first_lives() {
    let folder = folder();
    let first = start(folder.path(), &Tasks::new()).await;
    let error = refusal(settings(folder.path())).await;
    let pid = std::process::id();
    assert!(error.starts_with(&format!("another famulus (process {pid}) is using")), "{error}");
    first.run("famulus", "SELECT 1").await.unwrap();
    first.stop().await;
    start(folder.path(), &Tasks::new()).await.stop().await;
}

#[tokio::test]
async fn a_killed_postmaster_comes_back_with_what_was_committed() {
    let folder = folder();
    let tasks = Tasks::new();
    let postgres = start(folder.path(), &tasks).await;
    postgres.run("famulus", "CREATE TABLE kept AS SELECT 1 AS n").await.unwrap();
    let killed = postmaster_pid(folder.path());
    kill(killed, "-KILL");
    until("the restart", async || {
        postgres.run("famulus", "SELECT n FROM kept").await.is_ok()
            && postmaster_pid(folder.path()) != killed
    })
    .await;
    // Once the shutdown has begun a server that dies stays down, and stopping it is no error.
    assert!(tasks.drain(PATIENCE).await.stragglers.is_empty());
    postgres.run("famulus", "SELECT n FROM kept").await.unwrap();
    kill(postmaster_pid(folder.path()), "-KILL");
    postgres.stop().await;
    until("the end of all backends", async || processes(folder.path()).is_empty()).await;
    start(folder.path(), &Tasks::new()).await.stop().await;
}

#[tokio::test]
async fn the_server_of_a_crashed_app_is_stopped_and_its_data_are_used() {
    let folder = folder();
    let postgres = start(folder.path(), &Tasks::new()).await;
    postgres.run("famulus", "CREATE TABLE kept AS SELECT 1 AS n").await.unwrap();
    postgres.stop().await;
    let orphan = start_by_hand(folder.path());
    until("the orphan's start", async || {
        fs::read_to_string(folder.path().join("postgres/postmaster.pid"))
            .is_ok_and(|text| text.contains("ready"))
    })
    .await;
    let postgres = start(folder.path(), &Tasks::new()).await;
    assert_ne!(postmaster_pid(folder.path()), orphan);
    postgres.run("famulus", "SELECT n FROM kept").await.unwrap();
    postgres.stop().await;
}

/// A server on the data that no [`PrivatePostgres`] knows of, as after the death of its app.
fn start_by_hand(data_dir: &Path) -> i32 {
    let pgdata = data_dir.join("postgres");
    let owner = fs::metadata(&pgdata).unwrap();
    let mut command = Command::new(tree().join("bin/postgres"));
    command.arg("-D").arg(&pgdata).args(["-c", "listen_addresses="]);
    command.arg("-c").arg(format!("unix_socket_directories={}", pgdata.display()));
    command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    if owner.uid() != fs::metadata("/proc/self").unwrap().uid() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let mut child = command.spawn().unwrap();
    let pid = child.id() as i32;
    std::thread::spawn(move || child.wait()); // reaped as init would do it
    pid
}

#[tokio::test]
async fn a_pid_file_that_names_a_stranger_does_not_stop_the_start() {
    let folder = folder();
    start(folder.path(), &Tasks::new()).await.stop().await;
    let pgdata = folder.path().join("postgres");
    for stranger in [std::process::id(), 999_999_999] {
        let text = format!("{stranger}\n{}\n1\n5432\n\n\n  1 1\nready   \n", pgdata.display());
        fs::write(pgdata.join("postmaster.pid"), text).unwrap();
        let owner = fs::metadata(&pgdata).unwrap();
        let (uid, gid) = (Some(owner.uid()), Some(owner.gid()));
        std::os::unix::fs::chown(pgdata.join("postmaster.pid"), uid, gid).unwrap();
        start(folder.path(), &Tasks::new()).await.stop().await;
    }
}

#[tokio::test]
async fn an_interrupted_creation_is_begun_anew() {
    let folder = folder();
    let unfinished = folder.path().join("postgres.unfinished-1");
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("PG_VERSION"), "18\n").unwrap();
    start(folder.path(), &Tasks::new()).await.stop().await;
    assert!(!unfinished.exists());
}

#[tokio::test]
async fn a_dropped_server_stops_by_itself() {
    let folder = folder();
    let postgres = start(folder.path(), &Tasks::new()).await;
    drop(postgres);
    until("the stop", async || processes(folder.path()).is_empty()).await;
    start(folder.path(), &Tasks::new()).await.stop().await;
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_no_server() {
    let folder = folder();
    start(folder.path(), &Tasks::new()).await.stop().await;
    let tasks = Tasks::new();
    let starting = PrivatePostgres::start(settings(folder.path()), &tasks);
    let running = until("the process", async || !processes(folder.path()).is_empty());
    tokio::select! {
        biased;
        () = running => {}
        started = starting => drop(started.unwrap()),
    }
    until("the stop", async || processes(folder.path()).is_empty()).await;
    start(folder.path(), &Tasks::new()).await.stop().await;
}

#[tokio::test]
async fn a_long_path_gets_its_socket_elsewhere() {
    let folder = folder();
    let data_dir = folder.path().join("long".repeat(30));
    let postgres = start(&data_dir, &Tasks::new()).await;
    assert!(!postgres.url().contains("longlong"), "{}", postgres.url());
    postgres.run("famulus", "SELECT 1").await.unwrap();
    let elsewhere = postgres.url().split_once("?host=").unwrap().1.replace("%2F", "/");
    assert!(Path::new(&elsewhere).exists(), "{elsewhere}");
    postgres.stop().await;
    assert!(!Path::new(&elsewhere).exists(), "{elsewhere}");
}

#[tokio::test]
async fn wrong_data_are_refused_with_the_remedy_and_left_alone() {
    let folder = folder();
    let pgdata = folder.path().join("postgres");
    fs::create_dir(&pgdata).unwrap();
    fs::write(pgdata.join("PG_VERSION"), "9\n").unwrap();
    let error = refusal(settings(folder.path())).await;
    assert!(error.contains("were written by Postgres 9, but only Postgres 18."), "{error}");
    fs::write(pgdata.join("diary.txt"), "dear").unwrap();
    fs::remove_file(pgdata.join("PG_VERSION")).unwrap();
    let error = refusal(settings(folder.path())).await;
    assert!(error.contains("holds no Postgres data"), "{error}");
    assert_eq!(fs::read_to_string(pgdata.join("diary.txt")).unwrap(), "dear");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let folder = folder();
    start(folder.path(), &Tasks::new()).await.stop().await;
    fs::write(folder.path().join("postgres/postgresql.conf"), "no_such_setting = 1\n").unwrap();
    let error = refusal(settings(folder.path())).await;
    assert!(error.contains("unrecognized configuration parameter \"no_such_setting\""), "{error}");
    let nowhere = Settings { bin_dir: Some("/nowhere/bin".into()), ..settings(folder.path()) };
    let error = refusal(nowhere).await;
    assert!(error.contains("/nowhere/bin (no postgres and initdb there)"), "{error}");
}

#[tokio::test]
async fn a_full_disk_is_named_as_such() {
    let folder = folder();
    // Fails as the real one does on a full disk: by what it says.
    let bin = folder.path().join("tree/bin");
    fs::create_dir_all(folder.path().join("tree/share/extension")).unwrap();
    fs::write(folder.path().join("tree/share/extension/vector.control"), "").unwrap();
    fs::create_dir(&bin).unwrap();
    let script = |name: &str, text: &str| {
        let written = folder.path().join(name);
        fs::write(&written, format!("#!/bin/sh\n{text}\n")).unwrap();
        // A program that this process wrote itself may be busy: what it starts meanwhile has it open.
        let mut install = Command::new("install");
        install.args(["-m", "755"]).args([&written, &bin.join(name)]);
        assert!(install.status().unwrap().success());
    };
    let full = "echo 'could not write: No space left on device' >&2; exit 1";
    script("initdb", full);
    script(
        "postgres",
        &format!("[ \"$1\" = --version ] && echo 'postgres (PostgreSQL) 18.4' && exit\n{full}"),
    );
    let data_dir = folder.path().join("data");
    let with = || Settings { bin_dir: Some(bin.clone()), ..Settings::new(&data_dir) };
    let error = PrivatePostgres::start(with(), &Tasks::new()).await.unwrap_err();
    assert!(matches!(error, PostgresError::DiskFull { .. }), "{error}");
    let left: Vec<_> = fs::read_dir(&data_dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"], "an attempt that failed leaves nothing behind");

    start(&data_dir, &Tasks::new()).await.stop().await;
    let error = PrivatePostgres::start(with(), &Tasks::new()).await.unwrap_err();
    assert!(matches!(error, PostgresError::DiskFull { .. }), "{error}");
    start(&data_dir, &Tasks::new()).await.stop().await;
}
