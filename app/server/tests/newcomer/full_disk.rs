//! A disk that is really full: data and write-ahead log have no other.

use crate::up::{Place, Up, client, famulus};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// MiB. An empty database takes about 70, the first two files of the write-ahead log included.
const DISK: u64 = 200;
/// Bytes of a message.
const LONG: usize = 600_000;
/// What is left at first: some room for data, and none for another file of the write-ahead log.
const REST: u64 = 15 * 1024 * 1024;
/// What is left of the write-ahead log's files then, at most: they are full before the disk is.
const LOG_REST: usize = 8 * 1024 * 1024;
/// More than there is room for.
const TRIES: usize = 40;
const PATIENCE: Duration = Duration::from_mins(1);

/// `famulus up` with its data directory on a file system of its own, which goes with the process.
fn on_a_small_disk(place: &Place) -> Command {
    let image = place.0.join("disk");
    File::create(&image).unwrap().set_len(DISK * 1024 * 1024).unwrap();
    fs::create_dir_all(place.data()).unwrap();
    let inner = famulus(&place.data());
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--map-current-user", "--keep-caps"]);
    }
    // Where there are no loop devices, or they are root's, one in memory is as full as any. Which it
    // is, and what speaks against a loop, is said with what the program prints.
    command.args(["--mount", "sh", "-c"]).arg(
        r#"if { mkfs.ext4 -q -m 0 "$1" && mount -o loop "$1" "$2"; } 2>&1
           then echo "disk: loop"
           else mount -t tmpfs -o "size=$3m,mode=755" none "$2" && echo "disk: memory" || exit
           fi
           chmod 755 "$2" && exec "$4" up"#,
    );
    command.arg("sh").arg(&image).arg(place.data()).arg(DISK.to_string()).arg(inner.get_program());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null());
    command
}

/// Whether a loop device may be had here.
fn has_loops() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists()
}

/// The checkpointer of the private Postgres. A server that breaks off, as one does that cannot write
/// its log ahead, goes on with another one; a statement that fails leaves it.
fn checkpointer(disk: &Path) -> Option<u32> {
    let server = fs::read_to_string(disk.join("postgres/postmaster.pid")).ok()?;
    let server = server.lines().next()?;
    let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children")).ok()?;
    children.split_whitespace().filter_map(|child| child.parse().ok()).find(|child: &u32| {
        let line = fs::read_to_string(format!("/proc/{child}/cmdline"));
        line.is_ok_and(|line| line.contains("checkpointer"))
    })
}

/// Bytes of the write-ahead log's files that were never written.
fn log_left(disk: &Path) -> usize {
    const PAGE: [u8; 8192] = [0; 8192];
    let files =
        fs::read_dir(disk.join("postgres/pg_wal")).unwrap().map(|file| file.unwrap().path());
    let written = files.filter(|file| file.is_file()).map(|file| fs::read(file).unwrap());
    let left = |file: Vec<u8>| file.rchunks(PAGE.len()).take_while(|page| *page == PAGE).count();
    written.map(left).sum::<usize>() * PAGE.len()
}

/// A file that takes all the room that is left on a disk.
struct Ballast(PathBuf);

impl Ballast {
    /// Leaves so many bytes.
    fn fill(disk: &Path, rest: u64) -> Self {
        let (path, kept) = (disk.join("ballast"), disk.join("kept"));
        let piece = vec![1; rest as usize];
        fs::write(&kept, &piece).unwrap();
        let mut file = File::create(&path).unwrap();
        for size in [1024 * 1024, 4096] {
            let piece = vec![1; size];
            while file.write_all(&piece).is_ok() {}
        }
        // What Postgres has not written yet has its room already, and no more.
        let _full = file.sync_all();
        fs::remove_file(kept).unwrap();
        Self(path)
    }

    fn remove(self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// What was sent, and what came back.
#[derive(Default)]
struct Sent {
    accepted: Vec<(u32, String, Value)>,
    refused: Vec<(u32, String, u16, Value)>,
}

impl Sent {
    /// Sends on and on, also when nothing is taken any more.
    async fn send(&mut self, up: &Up, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            let text = format!("{number} {}", noise(number));
            match say(up, number, &text).await {
                (202, answer) => self.accepted.push((number, text, answer)),
                (status, answer) => self.refused.push((number, text, status, answer)),
            }
        }
    }
}

fn says_full(answer: &Value) -> bool {
    answer["type"] == "/problems/disk-full"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_really_full_is_named_and_loses_nothing() {
    let place = Place::new("full-disk");
    let mut up = Up::from(&place, on_a_small_disk(&place));
    assert!(up.said.contains("disk: loop") || !has_loops(), "{}", up.said);
    assert!(!up.chat("Remember that my cat is called Miso").await.is_empty());
    let disk = format!("/proc/{}/root{}", up.child.id(), place.data().display());
    let disk = Path::new(&disk);

    let mut sent = Sent::default();
    let mut numbers = 0..;
    while log_left(disk) > LOG_REST {
        sent.send(&up, numbers.by_ref().take(1)).await;
        assert!(sent.refused.is_empty(), "there is room: {:?}", sent.refused);
    }
    // A disk that fills up, and one that is full to the last byte.
    for (rest, tries) in [(REST, TRIES), (0, 10)] {
        let ballast = Ballast::fill(disk, rest);
        let before = sent.refused.len();
        let server = checkpointer(disk);
        assert!(server.is_some(), "the server runs");
        sent.send(&up, numbers.by_ref().take(tries)).await;
        // For want of room in its log the server itself breaks off, and no statement alone.
        assert!(rest == 0 || checkpointer(disk) != server, "with {rest} bytes only data failed");
        let refused = &sent.refused[before..];
        assert!(!refused.is_empty(), "a disk with {rest} bytes takes everything");
        for (number, _, status, answer) in refused {
            let remedy = answer["remedy"].as_str().unwrap_or_default();
            assert!([503, 507].contains(status) && !remedy.is_empty(), "{number}: {answer}");
            assert_eq!(*status == 507, says_full(answer), "{answer}");
            assert!(!says_full(answer) || remedy.contains("free some space"), "{answer}");
        }
        let named = refused.iter().any(|(.., answer)| says_full(answer));
        assert!(named, "with {rest} bytes nobody says why");
        assert!(up.child.try_wait().unwrap().is_none(), "the assistant outlives a full disk");

        ballast.remove();
        let began = Instant::now();
        let (number, text, ..) = sent.refused.pop().unwrap();
        let taken = loop {
            let (status, answer) = say(&up, number, &text).await;
            if status == 202 {
                break answer;
            }
            assert!(began.elapsed() < PATIENCE, "there is room again: {status}: {answer}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        sent.accepted.push((number, text, taken));
    }

    for (number, text, answer) in &sent.accepted {
        let (status, again) = say(&up, *number, text).await;
        assert_eq!((status, &again["disposition"]), (202, &json!("duplicate")), "{again}");
        assert_eq!(again["message_id"], answer["message_id"], "{number} was accepted");
        ended(&up, again["turn_id"].as_str().unwrap()).await;
    }
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Miso"), "{reply}");
    let log = up.stop();
    assert!(log.contains("the database's disk is full"), "{log}");
}

/// Waits until a turn has ended well.
async fn ended(up: &Up, turn: &str) {
    let began = Instant::now();
    loop {
        let path = format!("{}/v1/turns/{turn}", up.url);
        let asked = client().get(path).bearer_auth(&up.token).send().await.unwrap();
        let turn: Value = asked.json().await.unwrap();
        match turn["state"].as_str() {
            Some("complete") => return,
            Some("queued" | "running") if began.elapsed() < PATIENCE => {}
            _ => panic!("an accepted message is not answered: {turn}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends a message, each time with the same key; its status, and what came back.
async fn say(up: &Up, number: u32, text: &str) -> (u16, Value) {
    let request = client()
        .post(format!("{}/v1/conversations/main/messages", up.url))
        .bearer_auth(&up.token)
        .header("idempotency-key", format!("key-{number}"))
        .timeout(PATIENCE)
        .json(&json!({ "text": text, "meeting": "queue" }));
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

/// Text that no database makes shorter.
fn noise(seed: u32) -> String {
    let mut state = u64::from(seed) + 1;
    let letter = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"abcdefghijklmnopqrstuvwxyz234567"[(state >> 59) as usize])
    };
    (0..LONG).map(letter).collect()
}
