//! Files that people sent, and the paths at which a bot gets them.

use crate::server::Shared;
use bytes::Bytes;
use serde_json::{Value, json};

/// Bytes that a bot is given.
pub(crate) const LARGEST: usize = 20 * 1024 * 1024;

/// Where a file can be fetched.
pub(crate) fn path_of(shared: &Shared, handle: &str) -> Result<Value, String> {
    let world = shared.world();
    let Some(bytes) = world.files.get(handle) else {
        return Err("Bad Request: wrong file_id or the file is temporarily unavailable".to_owned());
    };
    if bytes.len() > LARGEST {
        return Err("Bad Request: file is too big".to_owned());
    }
    Ok(json!({
        "file_id": handle, "file_unique_id": format!("unique-{handle}"), "file_size": bytes.len(),
        "file_path": format!("documents/{handle}.dat"),
    }))
}

pub(crate) fn bytes(shared: &Shared, path: &str) -> Option<Bytes> {
    let handle = path.strip_prefix("documents/")?.strip_suffix(".dat")?;
    shared.world().files.get(handle).cloned()
}
