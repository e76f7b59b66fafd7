//! Ends a call before the kernel ends the runner: at 90 % of the memory limit.
//!
//! What counts is what cannot be given back: use without the part of the page cache that nobody
//! used lately. Where several calls run beside each other, the one that holds a quarter of the limit
//! or more goes first; near the limit, whoever looks first.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A limit beyond this is none: the kernel writes "no limit" as a very large number.
const NO_LIMIT: u64 = 1 << 50;

/// Where the kernel counts the memory of this container, and its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryWatch {
    usage: PathBuf,
    statistics: PathBuf,
    /// The line of the statistics that names idle page cache.
    idle: String,
    limit: u64,
    /// Where the kernel counts whom it killed for the lack of memory.
    events: PathBuf,
}

impl MemoryWatch {
    /// Finds the limit beneath `/sys/fs/cgroup` or what stands for it. `None`: there is no limit.
    pub fn find(cgroups: &Path) -> Option<Self> {
        let of = |folder: PathBuf, [limit, usage, idle, events]: [&str; 4]| {
            let limit = number(&folder.join(limit))?;
            let watch = Self {
                usage: folder.join(usage),
                statistics: folder.join("memory.stat"),
                idle: idle.to_owned(),
                limit,
                events: folder.join(events),
            };
            (limit < NO_LIMIT).then_some(watch)
        };
        let unified = ["memory.max", "memory.current", "inactive_file", "memory.events"];
        of(cgroups.to_owned(), unified).or_else(|| {
            let separate = [
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
                "memory.oom_control",
            ];
            of(cgroups.join("memory"), separate)
        })
    }

    /// Whether the call whose processes hold `own` bytes is to end.
    pub(super) fn is_reached(&self, own: u64) -> bool {
        let Some(usage) = number(&self.usage) else { return false };
        let used = usage.saturating_sub(self.idle_cache());
        let percent = used.saturating_mul(100) / self.limit.max(1);
        percent >= 95 || (percent >= 90 && own >= self.limit / 4)
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

    fn idle_cache(&self) -> u64 {
        let statistics = fs::read_to_string(&self.statistics).unwrap_or_default();
        let value = |line: &str| line.strip_prefix(&self.idle)?.trim().parse().ok();
        statistics.lines().find_map(value).unwrap_or(0)
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

    #[test]
    fn who_was_killed_by_the_kernel_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "memory.max", "1000\n");
        let watch = MemoryWatch::find(folder.path()).unwrap();
        assert_eq!(watch.killed(), 0);
        write(folder.path(), "memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
        assert_eq!(watch.killed(), 2);
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
