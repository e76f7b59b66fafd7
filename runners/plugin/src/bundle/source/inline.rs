//! Files that are written into the order.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use famulus_protocol::revision::BuildFile;

use crate::bundle::Failure;
use famulus_bundle::archive::Names;

/// Writes them. One that begins with `#!` is executable.
pub(super) fn write(files: &[BuildFile], tree: &Path) -> Result<(), Failure> {
    let mut names = Names::default();
    for BuildFile { path, content } in files {
        names.take(path).map_err(|error| Failure::build(error.to_string()))?;
        let mode = if content.starts_with("#!") { 0o755 } else { 0o644 };
        put(&tree.join(path), content.as_bytes(), mode)?;
    }
    Ok(())
}

/// Writes a new file of the tree. Its path was checked.
pub(super) fn put(place: &Path, content: &[u8], mode: u32) -> Result<(), Failure> {
    let written = (|| {
        if let Some(folder) = place.parent() {
            DirBuilder::new().recursive(true).create(folder)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(place)?;
        file.write_all(content)?;
        fs::set_permissions(place, fs::Permissions::from_mode(mode))
    })();
    written.map_err(Failure::disk("the plugin's tree"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_and_paths_that_lead_out_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let file =
            |path: &str, content: &str| BuildFile { path: path.into(), content: content.into() };
        let files = [file("manifest.json", "{}"), file("t/run", "#!/bin/sh\n")];
        write(&files, base.path()).unwrap();
        let mode = fs::metadata(base.path().join("t/run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        for path in ["../x", "/x", "a/../../x", ".git/config", "manifest.json", "t"] {
            let base = tempfile::tempdir().unwrap();
            let files =
                [file("manifest.json", "{}"), file("t/run", "x"), file(path, "#!/bin/sh\n")];
            assert!(write(&files, base.path()).is_err(), "{path}");
        }
    }
}
