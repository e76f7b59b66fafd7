//! The plugin's volume: a tree for each revision, and which of them serves.
//!
//! ```text
//! VOLUME/revisions/HEX/         the tree of a revision, at this path from its first file on
//! VOLUME/revisions/HEX.json     it was built; written last, beside and renamed
//! VOLUME/active                 a link to the tree that serves
//! VOLUME/cache/{uv,home}        what outlives revisions
//! VOLUME/incoming.tar           the bundle of a revision that the runner takes itself
//! VOLUME/restored               the backup that its files came from
//! VOLUME/calls.lock             held by each call, and alone by who copies the files
//! ```
//!
//! A tree without its record is one that was not finished. What a tool may write is the active tree
//! alone, so that it reaches neither records nor other trees where the kernel has Landlock.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use famulus_protocol::revision::digest;
use rustix::fs::{FlockOperation, flock, syncfs};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::beneath::Stamp;
use famulus_runner_harness::scratch::remove;

/// The volume of one plugin.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    root: PathBuf,
}

/// What is known of a tree that was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    pub(crate) tools: Vec<String>,
    #[serde(default)]
    pub(crate) init_output: String,
    /// What the bundle put there, as it was when the build had ended: digits, or a link's target.
    pub(crate) bundled: BTreeMap<String, Bundled>,
    /// What was carried over from the tree that served then, as it was there.
    #[serde(default)]
    pub(crate) carried: BTreeMap<String, Stamp>,
}

/// One path of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bundled {
    File {
        digits: String,
        executable: bool,
    },
    Link {
        target: String,
    },
    /// The init script took it away.
    Gone,
}

impl Volume {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Makes the folder of trees.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.revisions())
    }

    fn revisions(&self) -> PathBuf {
        self.root.join("revisions")
    }

    pub(crate) fn tree(&self, hex: &str) -> PathBuf {
        self.revisions().join(hex)
    }

    fn record_file(&self, hex: &str) -> PathBuf {
        self.revisions().join(format!("{hex}.json"))
    }

    /// The path that leads to whatever tree serves.
    pub(crate) fn active_link(&self) -> PathBuf {
        self.root.join("active")
    }

    /// Where the bundle lies that a tree is being made of.
    pub(crate) fn incoming(&self) -> PathBuf {
        self.root.join("incoming.tar")
    }

    /// The backup that the plugin's files came from.
    pub(crate) fn restored(&self) -> Option<String> {
        fs::read_to_string(self.root.join("restored")).ok()
    }

    /// Notes that the plugin's files came from this backup, once they are on the disk.
    pub(crate) fn note_restored(&self, backup: &str) -> io::Result<()> {
        self.synced()?;
        let beside = self.root.join("restored.new");
        fs::write(&beside, backup)?;
        File::open(&beside)?.sync_all()?;
        fs::rename(beside, self.root.join("restored"))
    }

    /// Waits until what was written to it is on the disk.
    pub(crate) fn synced(&self) -> io::Result<()> {
        Ok(syncfs(File::open(&self.root)?)?)
    }

    /// The digits of the revision that serves.
    pub(crate) fn active(&self) -> Option<String> {
        let target = fs::read_link(self.active_link()).ok()?;
        let hex = target.file_name()?.to_str()?.to_owned();
        // A link that leads elsewhere is none of ours.
        let ours = digest(&format!("sha256:{hex}")).is_ok()
            && target == Path::new("revisions").join(&hex)
            && self.tree(&hex).is_dir();
        ours.then_some(hex)
    }

    /// Lets this tree serve, from one moment to the next.
    pub(crate) fn activate(&self, hex: &str) -> io::Result<()> {
        let beside = self.root.join("active.new");
        remove(&beside)?;
        symlink(Path::new("revisions").join(hex), &beside)?;
        fs::rename(beside, self.active_link())
    }

    /// What is known of the tree; nothing when it was not built to its end.
    pub(crate) fn record(&self, hex: &str) -> io::Result<Option<Record>> {
        match fs::read(self.record_file(hex)) {
            Ok(bytes) if self.tree(hex).is_dir() => Ok(Some(serde_json::from_slice(&bytes)?)),
            Ok(_without) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Notes that the tree was built, or what became of it since.
    pub(crate) fn note(&self, hex: &str, record: &Record) -> io::Result<()> {
        let beside = self.revisions().join(format!("{hex}.json.new"));
        fs::write(&beside, serde_json::to_vec(record)?)?;
        File::open(&beside)?.sync_all()?;
        fs::rename(beside, self.record_file(hex))
    }

    /// Removes the tree: first its record, so that what is half gone serves nobody.
    pub(crate) fn forget(&self, hex: &str) -> io::Result<()> {
        remove(&self.record_file(hex))?;
        remove(&self.tree(hex))
    }

    /// Removes what builds that were cut off left. Only who holds the lock may.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let active = self.active();
        for name in self.names()? {
            // The lock, records, trees with records and the tree that serves stay.
            let stays = name.starts_with('.')
                || name.strip_suffix(".json").is_some()
                || self.record_file(&name).exists()
                || active.as_deref() == Some(&name);
            if !stays {
                remove(&self.revisions().join(&name))?;
            }
        }
        Ok(())
    }

    /// Removes the trees that were built, but for the active one and the newest `others`.
    pub(crate) fn thin(&self, others: usize) -> io::Result<()> {
        let active = self.active();
        let mut built = Vec::new();
        for name in self.names()? {
            let Some(hex) = name.strip_suffix(".json") else { continue };
            if active.as_deref() != Some(hex) {
                let noted = fs::metadata(self.record_file(hex))?.modified()?;
                built.push((noted, hex.to_owned()));
            }
        }
        built.sort();
        built.reverse();
        for (_, hex) in built.into_iter().skip(others) {
            self.forget(&hex)?;
        }
        Ok(())
    }

    /// Lets one build at a time work on the volume, until the lock is dropped.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let file = File::create(self.revisions().join(".lock"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// Holds the files for a call, beside other calls, until the lock is dropped. Nothing if they are copied now.
    pub(crate) fn hold_for_call(&self) -> io::Result<Option<File>> {
        self.hold(FlockOperation::NonBlockingLockShared)
    }

    /// Holds the files alone. Nothing while a call runs.
    pub(crate) fn hold_alone(&self) -> io::Result<Option<File>> {
        self.hold(FlockOperation::NonBlockingLockExclusive)
    }

    fn hold(&self, how: FlockOperation) -> io::Result<Option<File>> {
        let path = self.root.join("calls.lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match flock(&file, how) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.revisions())? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
impl Record {
    /// Of a bundle alone.
    pub(crate) fn of(digest: String, bundled: BTreeMap<String, Bundled>) -> Self {
        let (tools, carried) = (Vec::new(), BTreeMap::new());
        Self { digest, commit: None, tools, init_output: String::new(), bundled, carried }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn volume() -> (tempfile::TempDir, Volume) {
        let base = tempfile::tempdir().unwrap();
        let volume = Volume::new(base.path().to_owned());
        volume.prepare().unwrap();
        (base, volume)
    }

    fn build(volume: &Volume, hex: &str) {
        fs::create_dir(volume.tree(hex)).unwrap();
        let record = Record::of(format!("sha256:{hex}"), BTreeMap::new());
        volume.note(hex, &record).unwrap();
    }

    #[test]
    fn a_tree_serves_from_one_moment_to_the_next() {
        let (base, volume) = volume();
        assert_eq!(volume.active(), None);
        for digit in ['a', 'b'] {
            build(&volume, &hex(digit));
            volume.activate(&hex(digit)).unwrap();
            assert_eq!(volume.active(), Some(hex(digit)));
        }
        fs::remove_file(volume.active_link()).unwrap();
        symlink("/etc", volume.active_link()).unwrap();
        assert_eq!(volume.active(), None, "a link that leads elsewhere is none");
        fs::remove_dir_all(base.path().join("revisions").join(hex('a'))).unwrap();
        assert_eq!(volume.record(&hex('a')).unwrap(), None);
    }

    #[test]
    fn what_was_not_finished_and_what_is_old_goes() {
        let (_base, volume) = volume();
        let _lock = volume.lock().unwrap();
        for digit in ['a', 'b', 'c'] {
            build(&volume, &hex(digit));
        }
        fs::create_dir(volume.tree(&hex('d'))).unwrap();
        volume.activate(&hex('a')).unwrap();
        volume.sweep().unwrap();
        assert!(!volume.tree(&hex('d')).exists());
        volume.thin(1).unwrap();
        let left = ['a', 'b', 'c'].map(|digit| volume.record(&hex(digit)).unwrap().is_some());
        assert_eq!(left, [true, false, true]);
    }

    #[test]
    fn calls_run_beside_each_other_and_never_beside_a_copy() {
        let (_base, volume) = volume();
        let one = volume.hold_for_call().unwrap();
        let two = volume.hold_for_call().unwrap();
        assert!(one.is_some() && two.is_some());
        drop(one);
        assert!(volume.hold_alone().unwrap().is_none(), "a call runs");
        drop(two);
        let copy = volume.hold_alone().unwrap();
        assert!(copy.is_some());
        assert!(volume.hold_for_call().unwrap().is_none(), "it is copied");
        drop(copy);
        assert!(volume.hold_for_call().unwrap().is_some());
    }

    /// A volume outlives releases.
    #[test]
    fn a_record_of_an_older_release_is_read() {
        let text = r#"{"digest":"sha256:x","tools":["t"],
            "bundled":{"a":{"file":{"digits":"00","executable":true}},"l":{"link":{"target":"a"}},
                "g":"gone"},
            "carried":{"data":{"kind":"file","bytes":3,"changed":[1,2]}}}"#;
        let record: Record = serde_json::from_str(text).unwrap();
        assert_eq!(record.bundled.len(), 3);
        assert_eq!(record.carried["data"].bytes, 3);
    }
}
