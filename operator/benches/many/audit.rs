//! What the operator asked of the API server, by the server's own log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::place::{ACCOUNT, SYSTEM};

pub(crate) struct Audit {
    path: PathBuf,
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    /// Bytes of whole lines.
    offset: u64,
    /// Of the operator, its Lease aside.
    writes: usize,
    /// When the creation of a Plugin was answered.
    created: BTreeMap<String, Timestamp>,
    /// When the operator's first request for a child of a Plugin came.
    children: BTreeMap<String, Timestamp>,
}

impl Audit {
    pub(crate) fn of(path: PathBuf) -> Self {
        Self { path, read: Mutex::default() }
    }

    /// Requests of the operator so far that change something, its Lease aside.
    pub(crate) fn writes(&self) -> usize {
        self.read(|read| read.writes)
    }

    /// Waits until the operator has changed nothing for a while.
    pub(crate) async fn until_quiet(&self, quiet: Duration) {
        let (mut before, mut since) = (self.writes(), Instant::now());
        while since.elapsed() < quiet {
            sleep(Duration::from_millis(250)).await;
            let now = self.writes();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
    }

    /// For each of these Plugins, from the answer to its creation to its first child's request.
    pub(crate) fn first_children(&self, plugins: &BTreeSet<String>) -> Vec<Duration> {
        self.read(|read| {
            let delay = |plugin: &String| {
                let delay = read.children.get(plugin)?.duration_since(*read.created.get(plugin)?);
                Duration::try_from(delay).ok()
            };
            plugins.iter().filter_map(delay).collect()
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Read) -> T) -> T {
        let mut read = self.read.lock();
        let mut file = File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(read.offset)).unwrap();
        let mut lines = BufReader::new(file);
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            read.offset += u64::try_from(line.len()).unwrap();
            read.take_in(&serde_json::from_str(&line).unwrap());
            line.clear();
        }
        look(&read)
    }
}

impl Read {
    fn take_in(&mut self, entry: &Value) {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let (verb, of) = (text(&entry["verb"]), &entry["objectRef"]);
        let (resource, name) = (text(&of["resource"]), text(&of["name"]));
        let is_write = ["create", "update", "patch", "delete"].contains(&verb.as_str());
        if !is_write {
            return;
        }
        if text(&entry["user"]["username"]) != format!("system:serviceaccount:{SYSTEM}:{ACCOUNT}") {
            if resource == "plugins" && verb == "create" {
                let at = text(&entry["stageTimestamp"]);
                self.created.insert(name, at.parse().unwrap());
            }
            return;
        }
        if resource == "leases" {
            return;
        }
        self.writes += 1;
        if resource != "plugins" && resource != "events" {
            let plugin = name.split('-').next().unwrap_or_default().to_owned();
            let at = text(&entry["requestReceivedTimestamp"]).parse().unwrap();
            self.children.entry(plugin).or_insert(at);
        }
    }
}
