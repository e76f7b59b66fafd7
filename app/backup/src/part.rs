//! One file of a backup: hashed as it is written, flushed, and read back.

use crate::{
    error::BackupError,
    manifest::{Holds, Part},
    seal::{Identities, Recipient, Sealer, open},
};
use rustix::fs::{Advice, fadvise};
use sha2::{Digest, Sha256};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// What is read and written at once.
pub(crate) const BUFFER: usize = 128 * 1024;

/// A part that is being written.
pub(crate) struct PartWriter {
    sealer: Sealer<Hashing<File>>,
    name: String,
    path: PathBuf,
    holds: Holds,
    encrypted: bool,
}

impl PartWriter {
    /// Makes the file `name`, or `name.age` where there is a recipient.
    pub(crate) fn create(
        folder: &Path,
        name: &str,
        holds: Holds,
        recipient: Option<&Recipient>,
    ) -> Result<Self, BackupError> {
        let name = if recipient.is_some() { format!("{name}.age") } else { name.to_owned() };
        let path = folder.join(&name);
        let file = Hashing::new(create(&path)?);
        let sealer = Sealer::new(recipient, file).map_err(BackupError::io("written", &path))?;
        Ok(Self { sealer, name, path, holds, encrypted: recipient.is_some() })
    }

    /// Takes everything that a reader has.
    pub(crate) fn take(&mut self, input: &mut impl Read) -> Result<(), BackupError> {
        copy(input, &mut self.sealer, &self.path)
    }

    /// Brings it to the disk, and compares what is there with what was written.
    pub(crate) fn finish(self) -> Result<Part, BackupError> {
        let Self { sealer, name, path, holds, encrypted } = self;
        let Hashing { output: file, hash, bytes } =
            sealer.finish().map_err(BackupError::io("written", &path))?;
        let sha256 = hex::encode(hash.finalize());
        flush(&file, &path)?;
        let stored = digest(&path)?;
        if (stored.bytes, &stored.sha256) != (bytes, &sha256) {
            return Err(BackupError::ReadBack { path });
        }
        Ok(Part { name, holds, bytes, sha256, encrypted })
    }
}

/// A new file that only its owner may read.
pub(crate) fn create(path: &Path) -> Result<File, BackupError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(BackupError::io("made", path))
}

/// Brings a file to the disk, and out of the memory that it would else be read back from.
pub(crate) fn flush(file: &File, path: &Path) -> Result<(), BackupError> {
    file.sync_all().map_err(BackupError::io("brought to the disk", path))?;
    if let Err(error) = fadvise(file, 0, None, Advice::DontNeed) {
        tracing::debug!(path = %path.display(), %error, "the file is read back from memory");
    }
    Ok(())
}

/// What a file is.
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

pub(crate) fn digest(path: &Path) -> Result<Stored, BackupError> {
    let mut file = File::open(path).map_err(BackupError::io("read", path))?;
    let mut hash = Hashing::new(io::sink());
    copy(&mut file, &mut hash, path)?;
    Ok(Stored { bytes: hash.bytes, sha256: hex::encode(hash.hash.finalize()) })
}

/// What a part holds, as it was before it was stored.
pub(crate) fn read(
    path: &Path,
    part: &Part,
    backup: &str,
    identities: Option<&Identities>,
) -> Result<Box<dyn Read + Send>, BackupError> {
    let file = File::open(path).map_err(BackupError::io("read", path))?;
    if !part.encrypted {
        return Ok(Box::new(file));
    }
    open(file, identities).map_err(|source| BackupError::Seal { name: backup.to_owned(), source })
}

fn copy(input: &mut impl Read, output: &mut impl Write, path: &Path) -> Result<(), BackupError> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(BackupError::io("read", path)(error)),
        };
        output.write_all(&buffer[..read]).map_err(BackupError::io("written", path))?;
    }
}

/// A writer, and the digest of what went into it.
struct Hashing<W> {
    output: W,
    hash: Sha256,
    bytes: u64,
}

impl<W> Hashing<W> {
    fn new(output: W) -> Self {
        Self { output, hash: Sha256::new(), bytes: 0 }
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
