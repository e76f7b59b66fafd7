//! What the owner configured for a plugin: a file that nobody else reads.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use famulus_core::crash;
use serde_json::{Map, Value};

use crate::error::MachineError;
use crate::folders::{PluginFolders, make, remove};

/// Keeps an object in place of what was there.
pub(crate) fn write(folders: &PluginFolders, values: &Value) -> Result<(), MachineError> {
    let (path, aside) = (folders.config(), folders.next_config());
    if let Some(above) = path.parent() {
        make(above, 0o700)?;
    }
    remove(&aside)?;
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside);
    let written = written.and_then(|mut file| {
        file.write_all(values.to_string().as_bytes())?;
        file.sync_all()
    });
    written.map_err(MachineError::folder(&aside))?;
    crash::before("plugin.configure");
    fs::rename(&aside, &path).map_err(MachineError::folder(&path))?;
    crash::after("plugin.configure");
    Ok(())
}

/// What was kept; nothing, if nothing was.
pub(crate) fn read(folders: &PluginFolders) -> Result<Map<String, Value>, MachineError> {
    let path = folders.config();
    match fs::read(&path) {
        Ok(bytes) => {
            let read = serde_json::from_slice(&bytes).map_err(io::Error::from);
            read.map_err(MachineError::folder(&path))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(MachineError::folder(&path)(error)),
    }
}
