//! Encryption to the owner's key, as the format *age* has it: what is sealed here, `age -d` opens.
//!
//! Only the public key is known while backups are taken. The private one stays with the owner, in an
//! identity file, and is read when a backup is restored or verified.

use age::x25519;
use serde::Deserialize;
use std::{
    fmt, fs,
    io::{self, Read, Write},
    iter,
    path::{Path, PathBuf},
    str::FromStr,
};

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(
        "`backup.recipient` is no key for backups ({reason}); make one with `age-keygen -o FILE`, keep the file elsewhere, and write the line that begins with age1 here"
    )]
    Recipient { reason: &'static str },
    #[error("the identity file {} cannot be read; check the path and its permissions", path.display())]
    IdentityFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the identity file {} holds no line that begins with AGE-SECRET-KEY-1; name the file that `age-keygen` wrote", path.display())]
    NoIdentity { path: PathBuf },
    #[error(
        "it is encrypted, and no key was given; set `backup.identity_file` to the file with its private key"
    )]
    NoKey,
    #[error(
        "it is encrypted to another key; set `backup.identity_file` to the file with the key that was `backup.recipient` when it was taken"
    )]
    WrongKey,
    #[error("its encryption cannot be read; the file is damaged")]
    Unreadable(#[source] age::DecryptError),
}

/// To whom backups are sealed.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Recipient(x25519::Recipient);

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", self.0)
    }
}

impl FromStr for Recipient {
    type Err = SealError;

    fn from_str(text: &str) -> Result<Self, SealError> {
        text.trim().parse().map(Self).map_err(|reason| SealError::Recipient { reason })
    }
}

impl TryFrom<String> for Recipient {
    type Error = SealError;

    fn try_from(text: String) -> Result<Self, SealError> {
        text.parse()
    }
}

/// The private keys of an identity file.
pub struct Identities(Vec<x25519::Identity>);

impl Identities {
    pub fn read(path: &Path) -> Result<Self, SealError> {
        let text = fs::read_to_string(path)
            .map_err(|source| SealError::IdentityFile { path: path.to_owned(), source })?;
        let keys: Vec<_> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        if keys.is_empty() {
            return Err(SealError::NoIdentity { path: path.to_owned() });
        }
        Ok(Self(keys))
    }
}

/// A writer that seals, or passes on.
pub(crate) enum Sealer<W: Write> {
    Plain(W),
    Sealed(Box<age::stream::StreamWriter<W>>),
}

impl<W: Write> Sealer<W> {
    pub(crate) fn new(recipient: Option<&Recipient>, output: W) -> io::Result<Self> {
        let Some(Recipient(recipient)) = recipient else { return Ok(Self::Plain(output)) };
        let recipients = iter::once(recipient as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
        Ok(Self::Sealed(Box::new(encryptor.wrap_output(output)?)))
    }

    /// Writes the end, without which the whole is no sealed file.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(output) => Ok(output),
            Self::Sealed(output) => output.finish(),
        }
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(bytes),
            Self::Sealed(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            Self::Sealed(output) => output.flush(),
        }
    }
}

/// What was sealed, read.
pub(crate) fn open<'a>(
    input: impl Read + Send + 'a,
    identities: Option<&Identities>,
) -> Result<Box<dyn Read + Send + 'a>, SealError> {
    let decryptor =
        age::Decryptor::new_buffered(io::BufReader::new(input)).map_err(SealError::Unreadable)?;
    let keys = identities.ok_or(SealError::NoKey)?;
    let keys = keys.0.iter().map(|key| key as &dyn age::Identity);
    match decryptor.decrypt(keys) {
        Ok(reader) => Ok(Box::new(reader)),
        Err(age::DecryptError::NoMatchingKeys) => Err(SealError::WrongKey),
        Err(error) => Err(SealError::Unreadable(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use age::secrecy::ExposeSecret as _;

    fn identity() -> x25519::Identity {
        x25519::Identity::generate()
    }

    fn sealed(key: &x25519::Identity, text: &[u8]) -> Vec<u8> {
        let mut sealer = Sealer::new(Some(&Recipient(key.to_public())), Vec::new()).unwrap();
        sealer.write_all(text).unwrap();
        sealer.finish().unwrap()
    }

    fn opened(bytes: &[u8], key: &x25519::Identity) -> Result<Vec<u8>, String> {
        let keys = Identities(vec![key.clone()]);
        let mut reader = open(bytes, Some(&keys)).map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        reader.read_to_end(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    #[test]
    fn what_is_sealed_is_opened_by_its_key_alone() {
        let (key, other) = (identity(), identity());
        for length in [0, 1, 65_536, 65_537, 300_000] {
            let text: Vec<u8> = (0..length).map(|n: u32| (n % 251) as u8).collect();
            let bytes = sealed(&key, &text);
            assert_eq!(opened(&bytes, &key).unwrap(), text);
            let refused = opened(&bytes, &other).unwrap_err();
            assert!(refused.contains("another key"), "{refused}");
            let refused = open(bytes.as_slice(), None).map(drop).unwrap_err();
            assert!(matches!(refused, SealError::NoKey));
        }
    }

    #[test]
    fn a_flipped_bit_and_a_torn_end_are_seen() {
        let key = identity();
        let bytes = sealed(&key, &vec![7; 200_000]);
        for place in [0, 40, 150, bytes.len() / 2, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            flipped[place] ^= 0x10;
            assert!(opened(&flipped, &key).is_err(), "a bit of byte {place}");
        }
        for length in [0, 10, 100, 65_536, bytes.len() - 65_552, bytes.len() - 1] {
            assert!(opened(&bytes[..length], &key).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn an_identity_file_is_read_as_age_keygen_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = identity().to_string();
        let text = format!("# created: 2026-11-24\n# public key: age1…\n{}\n", key.expose_secret());
        fs::write(&path, text).unwrap();
        assert_eq!(Identities::read(&path).unwrap().0.len(), 1);
        fs::write(&path, "nothing\n").unwrap();
        let refused = Identities::read(&path).map(drop).unwrap_err().to_string();
        assert!(refused.contains("AGE-SECRET-KEY-1"), "{refused}");
        let refused = "age1nonsense".parse::<Recipient>().unwrap_err().to_string();
        assert!(refused.contains("backup.recipient"), "{refused}");
    }
}
