//! The processes of this machine, as `/proc` shows them.

use std::{collections::BTreeMap, fs};

/// Of a process: whose child it is, and when it began.
pub(crate) struct Stat {
    pub(crate) parent: u32,
    pub(crate) begun: String,
}

pub(crate) fn all() -> BTreeMap<u32, Stat> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
    numbers.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

/// `None`: there is none.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(Stat { parent: fields.get(1)?.parse().ok()?, begun: (*fields.get(19)?).to_owned() })
}

pub(crate) fn descendants(all: &BTreeMap<u32, Stat>, of: u32) -> Vec<u32> {
    let (mut found, mut parents) = (Vec::new(), vec![of]);
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid);
        let children: Vec<u32> = children.collect();
        parents.extend(&children);
        found.extend(children);
    }
    found
}

/// The words of a process, with a zero byte behind each; none of one that has ended.
pub(crate) fn line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).into_owned()
}
