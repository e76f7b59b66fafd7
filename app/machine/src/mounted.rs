//! What a sandbox is given to read, exchanged as a whole.
//!
//! As the kubelet does it: a folder that is complete takes the place of the one before by the renaming of
//! a link, so that what is read of one moment belongs together.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

use famulus_protocol::revision::Wanted;
use famulus_sandbox::KnownPlugin as _;

use crate::error::MachineError;
use crate::folders::{PluginFolders, own, remove};
use crate::plugin::LocalPlugin;

/// Leads to the folder that is whole.
pub(crate) const LINK: &str = "..data";
const NEXT: &str = "..next";

/// Writes what a runner of the plugin is to read.
pub(crate) fn give(
    plugin: &LocalPlugin,
    folders: &PluginFolders,
    user: Option<u32>,
) -> Result<(), MachineError> {
    let wanted = Wanted {
        plugin: plugin.name().to_owned(),
        uid: plugin.uid().to_owned(),
        rendered: plugin.rendered(),
        revision: plugin.record.revision.clone(),
        awaits: None,
    };
    let path = folders.config();
    let config = match fs::read(&path) {
        Ok(config) => Some(config),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(MachineError::folder(&path)(error)),
    };
    let wanted = serde_json::to_vec(&wanted).map_err(io::Error::from);
    let wanted = wanted.map_err(MachineError::folder(&folders.mounted()))?;
    let mut files = vec![("bearer", plugin.bearer.as_bytes()), ("wanted.json", &wanted[..])];
    files.extend(config.as_deref().map(|config| ("config.json", config)));
    exchange(&folders.mounted(), &files, user)
}

/// Puts these files into a folder in place of those that it holds, for the user to read alone.
pub(crate) fn exchange(
    folder: &Path,
    files: &[(&str, &[u8])],
    user: Option<u32>,
) -> Result<(), MachineError> {
    let failed = || MachineError::folder(folder);
    let before = match fs::read_link(folder.join(LINK)) {
        Ok(name) => Some(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed()(error)),
    };
    // Two names are enough: what was not finished is nobody's.
    let name = if before.as_deref() == Some(Path::new("..one")) { "..two" } else { "..one" };
    let whole = folder.join(name);
    remove(&whole)?;
    DirBuilder::new().mode(0o700).create(&whole).map_err(failed())?;
    for (name, bytes) in files {
        let path = whole.join(name);
        let written = OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path);
        written.and_then(|mut file| file.write_all(bytes)).map_err(MachineError::folder(&path))?;
        own(&path, user)?;
    }
    own(&whole, user)?;
    let next = folder.join(NEXT);
    remove(&next)?;
    let exchanged = symlink(name, &next).and_then(|()| fs::rename(&next, folder.join(LINK)));
    exchanged.map_err(failed())?;
    before.map_or(Ok(()), |before| remove(&folder.join(before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_changes_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(LINK).join(name)).ok();
        exchange(folder.path(), &[("bearer", b"one"), ("config.json", b"{}")], None).unwrap();
        let held = fs::File::open(folder.path().join(LINK).join("bearer")).unwrap();
        for bearer in ["two", "three"] {
            exchange(folder.path(), &[("bearer", bearer.as_bytes())], None).unwrap();
            assert_eq!(read("bearer").as_deref(), Some(bearer));
            assert_eq!(read("config.json"), None, "nothing of before is left");
        }
        // Whoever has it open reads what it was.
        assert_eq!(io::read_to_string(held).unwrap(), "one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
