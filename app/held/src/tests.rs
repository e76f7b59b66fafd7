//! Both sides, with a daemon that writes all the time.

use crate::{Client, ClientError, Holder, Layout, ONCE, PATH, Pieces, Taken};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use rustix::process::Pid;
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::Read,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot};
use url::Url;

const KEY: &str = "known-to-the-test";
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes the same number first into one file and then into another, each whole, without end. Between the two
/// lies much else that takes a copy its time.
const WRITES: &str = r#"
cd "$0" && mkdir -p 1.d && head -c 1000000 /dev/zero > 1.d/between && n=0
while :; do
  n=$((n+1))
  echo $n > new && mv new 1.d/a 2>/dev/null
  echo $n > new && mv new 1.d/z 2>/dev/null
done
"#;

struct Bench {
    root: TempDir,
    daemon: Child,
    client: Client,
    url: Url,
    end: Option<oneshot::Sender<()>>,
}

impl Bench {
    /// A daemon that runs this in its folder, and who holds the folder.
    async fn with(script: &str) -> Self {
        let layout = Layout::of("signal").unwrap();
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(layout.folder);
        fs::create_dir_all(&folder).unwrap();
        let daemon = Command::new("bash").args(["-c", script]).arg(&folder).spawn().unwrap();
        let pid = Pid::from_child(&daemon);
        let key_file = root.path().join("key");
        fs::write(&key_file, format!("{KEY}\n")).unwrap();
        let others = Arc::new(move || Ok(vec![pid]));
        let holder = Holder::new(layout, root.path(), &key_file, others).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let (end, ended) = oneshot::channel();
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(holder.serve(listener, async {
            let _end = ended.await;
        }));
        let client = Client::new(&url, &key_file, PATIENCE).unwrap();
        Self { root, daemon, client, url, end: Some(end) }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("signal-cli/data")
    }

    /// What a backup has of it.
    async fn kept(&self) -> Vec<u8> {
        let pieces = self.client.give().await.unwrap();
        pieces.try_fold(Vec::new(), joined).await.unwrap()
    }

    async fn take_back(&self, kept: &[u8]) -> Result<Taken, ClientError> {
        self.client.take_back(async || Ok::<_, ClientError>(pieces(kept))).await
    }

    fn number(&self, of: &str) -> u64 {
        fs::read_to_string(self.folder().join(of)).unwrap().trim().parse().unwrap()
    }

    async fn writes_on(&self) {
        let (before, begun) = (self.number("1.d/z"), Instant::now());
        while self.number("1.d/z") <= before {
            assert!(begun.elapsed() < PATIENCE, "it stands at {before}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.end.take());
        let _gone = self.daemon.kill();
        let _gone = self.daemon.wait();
    }
}

async fn joined(mut all: Vec<u8>, piece: Bytes) -> std::io::Result<Vec<u8>> {
    all.extend_from_slice(&piece);
    Ok(all)
}

fn pieces(bytes: &[u8]) -> Pieces {
    let pieces: Vec<_> =
        bytes.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces).boxed()
}

fn of_tar(bytes: &[u8], name: &str) -> String {
    let mut tar = tar::Archive::new(bytes);
    let mut found = tar.entries().unwrap().map(Result::unwrap);
    let mut entry = found.find(|entry| entry.path().unwrap() == Path::new(name)).unwrap();
    let mut text = String::new();
    entry.read_to_string(&mut text).unwrap();
    text.trim().to_owned()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_is_given_was_there_at_one_moment_and_the_daemon_goes_on() {
    let bench = Bench::with(WRITES).await;
    let both = [bench.folder().join("1.d/a"), bench.folder().join("1.d/z")];
    until("it writes", || both.iter().all(|file| file.exists())).await;
    for _ in 0..10 {
        let kept = bench.kept().await;
        let number = |of: &str| of_tar(&kept, of).parse::<u64>().unwrap();
        let (first, last) = (number("1.d/a"), number("1.d/z"));
        assert!(first == last || first == last + 1, "{first}, and later {last}");
        bench.writes_on().await;
    }
}

#[tokio::test]
async fn what_was_kept_comes_back_where_nobody_is_and_the_daemon_begins_anew() {
    let there = Bench::with(r#"cd "$0" && mkdir -p 7.d/sub && printf secret > 7.d/sub/account.db
        printf '[7]' > accounts.json && chmod 600 accounts.json 7.d/sub/account.db && ln -s /etc/passwd 7.d/link
        touch 7.d/done && exec sleep 600"#)
    .await;
    until("it wrote", || there.folder().join("7.d/done").exists()).await;
    let kept = there.kept().await;

    let mut bench =
        Bench::with(r#"cd "$0" && printf '[]' > accounts.json && exec sleep 600"#).await;
    until("it began", || bench.folder().join("accounts.json").exists()).await;
    assert_eq!(bench.take_back(&kept).await.unwrap(), Taken::Back);
    let ended = bench.daemon.wait().unwrap();
    assert_eq!(ended.signal(), Some(9), "it is to read what is there now");
    let read = |path: &str| fs::read_to_string(bench.folder().join(path)).unwrap();
    assert_eq!(
        (read("7.d/sub/account.db"), read("accounts.json")),
        ("secret".into(), "[7]".into())
    );
    assert!(!bench.folder().join("7.d/link").exists(), "a link is no file");
    assert_eq!(bench.kept().await.len(), kept.len());
    assert_eq!(bench.take_back(&kept).await.unwrap(), Taken::There, "a second time it stays");

    let around = fs::read_dir(bench.folder().parent().unwrap()).unwrap();
    let around: BTreeSet<_> = around.map(|entry| entry.unwrap().file_name()).collect();
    let expected = ["data", "data.restored"].map(OsString::from);
    assert_eq!(around, expected.into(), "nothing is left of the way");
}

/// A Pod may end before it says what it did.
#[tokio::test]
async fn who_asks_again_is_told_what_was_done() {
    let there =
        Bench::with(r#"cd "$0" && mkdir 7.d && printf s > 7.d/key && exec sleep 600"#).await;
    until("it wrote", || there.folder().join("7.d/key").exists()).await;
    let kept = there.kept().await;

    let mut bench = Bench::with("exec sleep 600").await;
    let address = bench.url.join(PATH).unwrap();
    let put = |once: &'static str| {
        let request = reqwest::Client::new().put(address.clone()).bearer_auth(KEY);
        let request = request.header(ONCE, once).body(kept.clone());
        async { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(put("first").await, 204);
    bench.daemon.wait().unwrap();
    for (once, status) in [("first", 204), ("second", 409), ("", 409)] {
        assert_eq!(put(once).await, status, "{once:?}");
    }
}

#[tokio::test]
async fn an_account_that_is_there_stays_and_its_daemon_goes_on() {
    let bench = Bench::with(WRITES).await;
    until("it writes", || bench.folder().join("1.d/z").exists()).await;
    assert_eq!(bench.take_back(&bench.kept().await).await.unwrap(), Taken::There);
    bench.writes_on().await;
}

#[tokio::test]
async fn what_no_backup_holds_changes_nothing() {
    let bench = Bench::with(r#"cd "$0" && printf '[]' > accounts.json && exec sleep 600"#).await;
    until("it began", || bench.folder().join("accounts.json").exists()).await;
    let of = |name: &str, kind: tar::EntryType| {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o600);
        header.set_cksum();
        let mut tar = tar::Builder::new(Vec::new());
        tar.append(&header, std::io::empty()).unwrap();
        tar.into_inner().unwrap()
    };
    let mut cut = of("7.d/account.db", tar::EntryType::Regular);
    cut.truncate(300);
    let strange = [
        of("../out", tar::EntryType::Regular),
        of("/out", tar::EntryType::Regular),
        of("7.d", tar::EntryType::Symlink),
        of("7.d/pipe", tar::EntryType::Fifo),
        cut,
    ];
    for kept in strange {
        let error = bench.take_back(&kept).await.unwrap_err();
        assert!(matches!(error, ClientError::Refused { .. }), "{error:?}");
        assert_eq!(fs::read_to_string(bench.folder().join("accounts.json")).unwrap(), "[]");
        assert_eq!(fs::read_dir(bench.folder()).unwrap().count(), 1);
        assert!(!bench.root.path().join("signal-cli/out").exists());
    }
    // It was neither ended nor stopped, which it would not wake from by itself.
    let running = format!("/proc/{}/stat", bench.daemon.id());
    until("it sleeps", || fs::read_to_string(&running).unwrap().contains(") S ")).await;
}

#[tokio::test]
async fn who_does_not_know_the_key_gets_and_gives_nothing() {
    let bench = Bench::with(WRITES).await;
    let wrong = bench.root.path().join("wrong");
    fs::write(&wrong, "something else").unwrap();
    let stranger = Client::new(&bench.url, &wrong, PATIENCE).unwrap();
    let error = stranger.give().await.map(drop).unwrap_err();
    assert!(error.to_string().contains("the bearer is not the one"), "{error}");
    let kept = async || Ok::<_, ClientError>(pieces(b""));
    stranger.take_back(kept).await.unwrap_err();

    let empty = bench.root.path().join("empty");
    fs::write(&empty, "\n").unwrap();
    let others = Arc::new(|| Ok(Vec::new()));
    let layout = Layout::of("signal").unwrap();
    assert!(Holder::new(layout, bench.root.path(), &empty, others).is_err(), "no key is no key");
}

#[tokio::test]
async fn who_is_not_there_yet_is_waited_for_and_named() {
    let root = tempfile::tempdir().unwrap();
    let key_file = root.path().join("key");
    fs::write(&key_file, KEY).unwrap();
    let url = Url::parse("http://127.0.0.1:9").unwrap();
    let client = Client::new(&url, &key_file, Duration::from_millis(1500)).unwrap();
    let begun = Instant::now();
    let error = client.give().await.map(drop).unwrap_err();
    assert!(begun.elapsed() > Duration::from_secs(1));
    let said = error.to_string();
    assert!(said.starts_with("http://127.0.0.1:9/v1/files did not answer within 1 s: "), "{said}");
}
