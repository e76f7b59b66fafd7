//! F3: the size of the program as it is released.

use crate::request::Request;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;

pub(crate) fn measure(request: &Request) -> Result<Value> {
    let path = &request.famulus;
    let found = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(json!({ "mib": found.len() as f64 / f64::from(1 << 20), "bytes": found.len() }))
}
