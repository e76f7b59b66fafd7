//! Archives of the tar format (POSIX ustar), as small as an image needs them: the same content gives
//! the same bytes.

use anyhow::{Result, ensure};

const BLOCK: usize = 512;

/// What an entry is.
pub(super) enum Entry<'a> {
    Folder,
    File(&'a [u8]),
    /// A symbolic link and where it leads.
    Link(&'a str),
}

/// An archive that is being written.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    pub(super) fn add(&mut self, path: &str, mode: u32, entry: Entry<'_>) -> Result<()> {
        let (kind, content, target) = match entry {
            Entry::Folder => (b'5', &[][..], ""),
            Entry::File(content) => (b'0', content, ""),
            Entry::Link(target) => (b'2', &[][..], target),
        };
        ensure!(path.len() < 100 && target.len() < 100, "{path} is too long for this archive");
        let mut header = [0_u8; BLOCK];
        let mut field = |start: usize, text: &str| {
            header[start..start + text.len()].copy_from_slice(text.as_bytes());
        };
        field(0, path);
        field(100, &format!("{mode:07o}"));
        field(108, "0000000"); // owner
        field(116, "0000000"); // group
        field(124, &format!("{:011o}", content.len()));
        field(136, "00000000000"); // time
        field(148, "        "); // the checksum counts itself as blanks
        field(157, target);
        field(257, "ustar\0");
        field(263, "00");
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }

    /// The whole archive, with its two empty blocks at the end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn another_tar_reads_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = Archive::default();
        archive.add("bin", 0o755, Entry::Folder).unwrap();
        archive.add("bin/tool", 0o755, Entry::File(b"content")).unwrap();
        archive.add("bin/alias", 0o777, Entry::Link("tool")).unwrap();
        let file = folder.path().join("archive.tar");
        fs::write(&file, archive.finish()).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(&file).arg("-C").arg(folder.path());
        assert!(tar.status().unwrap().success());
        assert_eq!(fs::read(folder.path().join("bin/alias")).unwrap(), b"content");
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused() {
        let long = "a".repeat(100);
        assert!(Archive::default().add(&long, 0o644, Entry::File(b"")).is_err());
    }
}
