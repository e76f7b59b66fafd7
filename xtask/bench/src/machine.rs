//! What the figures were measured on.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use xtask_postgres::scratch::Scratch;
use xtask_shell::output_of;

use super::peer::Peer;

/// How the line of the peer begins.
pub(super) const PEER: &str = "peer: ";

/// Lines of a list.
pub(super) fn facts(scratch: &Scratch, peer: &Peer) -> Result<Vec<String>> {
    let cores = std::thread::available_parallelism()?;
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "of an unknown kind".into());
    let memory = field("/proc/meminfo", "MemTotal").context("the memory is unknown")?;
    let memory: u64 = memory.trim_end_matches(" kB").parse()?;
    let read = |path| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let load = read("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let mut facts = vec![
        format!("{cores} cores ({cpu}), {} MiB of memory", memory / 1024),
        format!("Linux {}, load {load} before the first run", read("/proc/sys/kernel/osrelease")?),
        format!(
            "PostgreSQL {} on the same cores, with the settings of the private server: fsync, \
             synchronous_commit and full_page_writes on, shared_buffers 32 MB",
            scratch.postgres.version()
        ),
    ];
    facts.extend(peer.described.as_ref().map(|peer| format!("{PEER}{peer}")));
    Ok(facts)
}

/// The day, in UTC.
pub(super) fn today() -> Result<String> {
    let day = output_of(Command::new("date").args(["--utc", "+%Y-%m-%d"]))?;
    Ok(String::from_utf8(day)?.trim().to_owned())
}

/// The value behind `name :` in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix(':'));
    value.map(|value| value.trim().to_owned())
}
