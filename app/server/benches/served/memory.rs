//! What the kernel says of a process: its share of memory, by what it is for, and processor time.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, time::Duration};

/// Proportional set size in KiB: pages that others map as well count in part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) all: u64,
    /// Written by the process: its heap and stacks, and the pages of files that it has changed.
    pub(crate) anonymous: u64,
    /// Pages of the program and its libraries, which the kernel can drop and read again.
    pub(crate) file: u64,
}

impl Memory {
    pub(crate) fn of(pid: i32) -> Result<Self> {
        let text = read(pid, "smaps_rollup")?;
        let field = |name: &str| {
            let value = text.lines().find_map(|line| kib(line, name));
            value.with_context(|| format!("smaps_rollup has no line {name}"))
        };
        Ok(Self { all: field("Pss:")?, anonymous: field("Pss_Anon:")?, file: field("Pss_File:")? })
    }

    /// In MiB.
    pub(crate) fn report(self) -> Value {
        let mib = |kib: u64| kib as f64 / 1024.0;
        json!({
            "pss_mib": mib(self.all),
            "anonymous_mib": mib(self.anonymous),
            "file_mib": mib(self.file),
        })
    }
}

/// KiB by what is mapped and whether it can be written; what is below 16 KiB is left out.
pub(crate) fn by_mapping(pid: i32) -> Result<Value> {
    let text = read(pid, "smaps")?;
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut mapping = String::new();
    for line in text.lines() {
        if let Some(kib) = kib(line, "Pss:") {
            *sums.entry(mapping.clone()).or_default() += kib;
        } else if let Some((range, rest)) = line.split_once(' ')
            && range.contains('-')
        {
            let mut fields = rest.split_whitespace();
            let rights = fields.next().unwrap_or_default();
            let path = fields.nth(3).unwrap_or("anonymous");
            let name = path.rsplit('/').next().unwrap_or(path);
            mapping = format!("{name} {rights}");
        }
    }
    Ok(json!(sums.into_iter().filter(|(_, kib)| *kib >= 16).collect::<BTreeMap<_, _>>()))
}

/// Processor time that its threads have used so far.
pub(crate) fn processor_time(pid: i32) -> Result<Duration> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let nanoseconds = text.split(' ').next().unwrap_or_default();
        sum += nanoseconds.parse::<u64>().context("schedstat does not begin with a number")?;
    }
    Ok(Duration::from_nanos(sum))
}

fn kib(line: &str, name: &str) -> Option<u64> {
    line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok()
}

fn read(pid: i32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}
