//! F3: the size of the program as it is released, and of its sections.

use crate::request::Request;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, process::Command};

pub(crate) fn measure(request: &Request) -> Result<Value> {
    let path = &request.famulus;
    let found = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut size = Command::new("size");
    let listed = size.args(["-A", "-d"]).arg(path).output();
    let listed = listed.context("cannot run `size`; it comes with the C compiler's binutils")?;
    ensure!(listed.status.success(), "`size` failed: {}", listed.status);
    let sections: BTreeMap<String, f64> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let name = fields.next().filter(|name| name.starts_with('.'))?;
            let bytes: u32 = fields.next()?.parse().ok()?;
            Some((name.to_owned(), f64::from(bytes) / 1024.0))
        })
        .collect();
    Ok(json!({
        "mib": found.len() as f64 / f64::from(1 << 20),
        "bytes": found.len(),
        "sections_kib": sections,
    }))
}
