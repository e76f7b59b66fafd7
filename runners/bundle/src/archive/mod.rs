//! Bundles: a plugin's files as one tar whose bytes follow from the files alone.
//!
//! Sorted by path, without times and owners, two modes, no folders of their own, links last in no
//! way special: the same files give the same digest on every machine. What is read is trusted as
//! little as if somebody else had written it.

mod pack;
mod path;
mod unpack;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use famulus_protocol::revision::{BUNDLE_BYTES, BUNDLE_FILES};
use sha2::{Digest, Sha256};

pub use pack::pack;
pub use path::{Names, link_stays};
pub use unpack::unpack;

/// Why files cannot be a bundle, or a bundle cannot be files.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the path `{path}` {what}")]
    Path { path: String, what: &'static str },
    #[error(
        "`{path}` is a link to `{target}`, which leaves the plugin or hides where it leads; make it \
         relative, with `..` only at its beginning, to something in the plugin"
    )]
    Link { path: String, target: String },
    #[error("`{path}` is neither a file nor a link; remove it")]
    Kind { path: String },
    #[error("the plugin has more than {BUNDLE_FILES} files; leave out what it can fetch or make")]
    Files,
    #[error(
        "the plugin has more than {} MiB; leave out what it can fetch or make",
        BUNDLE_BYTES >> 20
    )]
    Bytes,
    #[error("{path} cannot be read or written: {source}")]
    Disk { path: String, source: io::Error },
}

impl ArchiveError {
    pub fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Disk { path, source }
    }
}

/// The digest of a file as it names a revision.
pub fn digest(path: &Path) -> io::Result<String> {
    Ok(format!("sha256:{}", hex(File::open(path)?)?))
}

/// The digits of what can be read.
pub fn hex(mut from: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(hex::encode(hasher.finalize())),
            Ok(read) => hasher.update(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
