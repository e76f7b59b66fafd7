//! Ends a call before the kernel ends the runner: at 90 % of the memory limit.
//!
//! What counts is what cannot be given back: use without the part of the page cache that nobody
//! used lately, and without what is on its way to a disk, which the kernel takes for used while it waits there;
//! where nobody counts use, what the processes of the call hold. Where several calls run beside each other, the one
//! that holds a quarter of the limit or more goes first; near the limit, whoever looks first.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A limit beyond this is none: the kernel writes "no limit" as a very large number.
const NO_LIMIT: u64 = 1 << 50;

/// Where the kernel counts the memory of this container, and its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryWatch {
    usage: PathBuf,
    statistics: PathBuf,
    cache: CacheLines,
    limit: u64,
    /// Where the kernel counts whom it killed for the lack of memory.
    events: PathBuf,
}

/// The lines of the statistics that name page cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CacheLines {
    idle: String,
    used: String,
    /// What waits for a disk, and what is written to it.
    unwritten: [String; 2],
}

impl CacheLines {
    fn of([idle, used, waits, written]: [&str; 4]) -> Self {
        let unwritten = [waits.to_owned(), written.to_owned()];
        Self { idle: idle.to_owned(), used: used.to_owned(), unwritten }
    }

    /// Bytes that can be given back.
    fn free(&self, statistics: &str) -> u64 {
        let value = |name: &str| {
            let mut values =
                statistics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            values.next().and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let unwritten = self.unwritten.iter().map(|name| value(name)).fold(0, u64::saturating_add);
        value(&self.idle).saturating_add(value(&self.used).min(unwritten))
    }
}

impl MemoryWatch {
    /// Finds the limit beneath `/sys/fs/cgroup` or what stands for it. `None`: there is no limit.
    pub fn find(cgroups: &Path) -> Option<Self> {
        let of = |folder: PathBuf, [limit, usage, events]: [&str; 3], cache: [&str; 4]| {
            let limit = number(&folder.join(limit))?;
            let watch = Self {
                usage: folder.join(usage),
                statistics: folder.join("memory.stat"),
                cache: CacheLines::of(cache),
                limit,
                events: folder.join(events),
            };
            (limit < NO_LIMIT).then_some(watch)
        };
        let unified = ["memory.max", "memory.current", "memory.events"];
        let cache = ["inactive_file", "active_file", "file_dirty", "file_writeback"];
        of(cgroups.to_owned(), unified, cache).or_else(|| {
            let separate = ["memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"];
            let cache =
                ["total_inactive_file", "total_active_file", "total_dirty", "total_writeback"];
            of(cgroups.join("memory"), separate, cache)
        })
    }

    /// Whether the call whose processes hold `own` bytes is to end.
    pub(super) fn is_reached(&self, own: u64) -> bool {
        let used = match fs::read_to_string(&self.usage).map(|text| text.trim().parse::<u64>()) {
            Ok(Ok(usage)) => usage.saturating_sub(self.free_cache()),
            // A limit without a count is one of each call.
            Err(error) if error.kind() == io::ErrorKind::NotFound => own,
            Ok(Err(_)) | Err(_) => return false,
        };
        let percent = used.saturating_mul(100) / self.limit.max(1);
        percent >= 95 || (percent >= 90 && own >= self.limit / 4)
    }

    /// Whether the kernel killed somebody for the lack of memory since `before` were, and most likely for what the
    /// call holds that has `own` bytes.
    pub(super) fn has_killed_for(&self, own: u64, before: u64) -> bool {
        own >= self.limit / 4 && self.killed() > before
    }

    /// How many processes the kernel killed here for the lack of memory.
    pub(super) fn killed(&self) -> u64 {
        let events = fs::read_to_string(&self.events).unwrap_or_default();
        let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
        events.lines().find_map(count).unwrap_or(0)
    }

    /// In bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    fn free_cache(&self) -> u64 {
        let statistics = fs::read_to_string(&self.statistics).unwrap_or_default();
        self.cache.free(&statistics)
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_limit_is_reached_by_what_cannot_be_given_back() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "memory.max", "1000\n");
        write(folder.path(), "memory.stat", "anon 5\ninactive_file 100\n");
        let watch = MemoryWatch::find(folder.path()).unwrap();
        let check = |usage: &str, own, reached| {
            write(folder.path(), "memory.current", usage);
            assert_eq!(watch.is_reached(own), reached, "{usage} {own}");
        };
        check("990\n", 900, false);
        check("1000\n", 900, true);
        check("1000\n", 100, false);
        check("1050\n", 0, true);
        check("nonsense", 900, false);
    }

    /// As it was found beside a tool that holds 4 MiB and writes files.
    #[test]
    fn who_writes_files_faster_than_the_disk_takes_them_is_not_short_of_memory() {
        let check = |limit: &str, usage: &str, statistics: (&str, &str), reached| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in [(limit, "256"), (usage, "255"), statistics] {
                write(folder.path(), name, text);
            }
            let watch = MemoryWatch::find(folder.path()).unwrap();
            assert_eq!(watch.is_reached(4), reached, "{statistics:?}");
        };
        let one = |text| ("memory/memory.stat", text);
        let of_one = ["memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"];
        let written =
            "total_inactive_file 3\ntotal_active_file 240\ntotal_dirty 0\ntotal_writeback 244\n";
        check(of_one[0], of_one[1], one(written), false);
        let used =
            "total_inactive_file 3\ntotal_active_file 240\ntotal_dirty 0\ntotal_writeback 0\n";
        check(of_one[0], of_one[1], one(used), true);
        let held =
            "total_inactive_file 3\ntotal_active_file 4\ntotal_dirty 0\ntotal_writeback 244\n";
        check(of_one[0], of_one[1], one(held), true);
        let written = "file_dirty 200\nfile_writeback 44\ninactive_file 3\nactive_file 240\n";
        check("memory.max", "memory.current", ("memory.stat", written), false);
        let used = "file_dirty 1\nfile_writeback 0\ninactive_file 3\nactive_file 240\n";
        check("memory.max", "memory.current", ("memory.stat", used), true);
    }

    #[test]
    fn where_nobody_counts_a_call_is_held_to_what_its_processes_hold() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "memory.max", "1000\n");
        let watch = MemoryWatch::find(folder.path()).unwrap();
        assert!(!watch.is_reached(0) && !watch.is_reached(899));
        assert!(watch.is_reached(900));
        assert_eq!(watch.killed(), 0);
    }

    #[test]
    fn who_was_killed_by_the_kernel_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "memory.max", "1000\n");
        let watch = MemoryWatch::find(folder.path()).unwrap();
        assert_eq!(watch.killed(), 0);
        write(folder.path(), "memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
        assert_eq!(watch.killed(), 2);
        assert!(watch.has_killed_for(250, 1));
        assert!(!watch.has_killed_for(250, 2), "nobody since");
        assert!(!watch.has_killed_for(249, 1), "somebody else holds more");
    }

    #[test]
    fn both_hierarchies_are_read_and_no_limit_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(MemoryWatch::find(folder.path()), None);
        write(folder.path(), "memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(MemoryWatch::find(folder.path()), None);
        write(folder.path(), "memory/memory.limit_in_bytes", "4096\n");
        assert_eq!(MemoryWatch::find(folder.path()).unwrap().limit(), 4096);
        write(folder.path(), "memory.max", "max\n");
        assert_eq!(MemoryWatch::find(folder.path()).unwrap().limit(), 4096);
    }
}
