//! One file of a backup: hashed as it is written, stored, and read back.

use crate::{
    error::BackupError,
    manifest::{Holds, Part},
    seal::{Identities, Recipient, Sealer, open},
    store::{Draft, Output},
};
use sha2::{Digest, Sha256};
use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What is read and written at once.
pub(crate) const BUFFER: usize = 128 * 1024;

/// A part that is being written.
pub(crate) struct PartWriter {
    sealer: Sealer<Hashing<Box<dyn Output>>>,
    draft: Arc<dyn Draft>,
    name: String,
    path: PathBuf,
    holds: Holds,
    of: Option<String>,
    encrypted: bool,
}

impl PartWriter {
    /// Makes the file `name`, or `name.age` where there is a recipient.
    pub(crate) fn create(
        draft: Arc<dyn Draft>,
        name: &str,
        holds: Holds,
        recipient: Option<&Recipient>,
    ) -> Result<Self, BackupError> {
        let name = if recipient.is_some() { format!("{name}.age") } else { name.to_owned() };
        let path = draft.path(&name);
        let output = Hashing::new(draft.create(&name)?);
        let sealer = Sealer::new(recipient, output).map_err(BackupError::io("written", &path))?;
        let encrypted = recipient.is_some();
        Ok(Self { sealer, draft, name, path, holds, of: None, encrypted })
    }

    /// Says whose it is.
    pub(crate) fn of(self, whose: &str) -> Self {
        Self { of: Some(whose.to_owned()), ..self }
    }

    /// Gives it up: the backup is taken without it.
    pub(crate) fn abandon(self) {
        let Self { sealer, draft, name, .. } = self;
        drop(sealer);
        draft.forget(&name);
    }

    /// Takes everything that a reader has.
    pub(crate) fn take(&mut self, input: &mut impl Read) -> Result<(), BackupError> {
        copy(input, &mut self.sealer, &self.path)
    }

    /// Stores it, and compares what is there with what was written.
    pub(crate) fn finish(self) -> Result<Part, BackupError> {
        let Self { sealer, draft, name, path, holds, of, encrypted } = self;
        let Hashing { output, hash, bytes } =
            sealer.finish().map_err(BackupError::io("written", &path))?;
        let sha256 = hex::encode(hash.finalize());
        output.finish()?;
        let stored = digest(&mut draft.open(&name)?, &path)?;
        if (stored.bytes, &stored.sha256) != (bytes, &sha256) {
            return Err(BackupError::ReadBack { path });
        }
        Ok(Part { name, holds, bytes, sha256, encrypted, of })
    }
}

/// What a file is.
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

pub(crate) fn digest(input: &mut impl Read, path: &Path) -> Result<Stored, BackupError> {
    let mut hash = Hashing::new(io::sink());
    copy(input, &mut hash, path)?;
    Ok(Stored { bytes: hash.bytes, sha256: hex::encode(hash.hash.finalize()) })
}

/// What a part holds, as it was before it was stored.
pub(crate) fn read(
    stored: Box<dyn Read + Send>,
    part: &Part,
    backup: &str,
    identities: Option<&Identities>,
) -> Result<Box<dyn Read + Send>, BackupError> {
    if !part.encrypted {
        return Ok(stored);
    }
    open(stored, identities).map_err(|source| BackupError::Seal { name: backup.to_owned(), source })
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
