//! Why a backup was not taken, or cannot be used.

use crate::{manifest::ManifestError, seal::SealError};
use std::{
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{} cannot be {what}; check that the folder is there, its permissions, and the disk", path.display())]
    Io {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the disk that holds {} is full; nothing that was there is lost: free some space, or set `backup.folder` to another disk", path.display())]
    Full { path: PathBuf },
    #[error("backups cannot be kept in a bucket: {reason}")]
    Bucket { reason: String },
    #[error("the store refused that {} is {what} ({said}); check `backup.s3.access_key_id` and its secret, and that it may list, read, write and delete there", path.display())]
    Refused { path: PathBuf, what: &'static str, said: String },
    #[error("{} cannot be {what} ({said}); check that the store can be reached, has room, and holds the bucket, and what `backup.s3` says of it", path.display())]
    Store { path: PathBuf, what: &'static str, said: String },
    #[error("{} would be larger than {limit} bytes, which a store takes at most; keep backups in a folder (`backup.folder`)", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("the backup {name} was given up; take another (`famulus backup`)")]
    GivenUp { name: String },
    #[error("another backup of this installation is being taken into {} by process {pid}; wait until it has ended", folder.display())]
    Busy { folder: PathBuf, pid: String },
    #[error("{program} cannot be started; point `database.bin_dir` to the bin folder of a whole Postgres", program = program.display())]
    NoProgram {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "a URL of a Postgres needs {lacks}: postgres://user:password@host:5432/database; correct DATABASE_URL or `database.url`"
    )]
    Url { lacks: &'static str },
    #[error("{program} failed: {said}")]
    Program { program: &'static str, said: String },
    #[error("what was written to {} reads back differently; the disk is not to be trusted: keep backups elsewhere", path.display())]
    ReadBack { path: PathBuf },
    #[error("the backup {name} is damaged: {reason}; choose an older one (`famulus backup list`)")]
    Damaged { name: String, reason: String },
    #[error("the backup {name} cannot be used")]
    Manifest {
        name: String,
        #[source]
        source: ManifestError,
    },
    #[error("there is no backup called {name} in {}; `famulus backup list` names those that are", place.display())]
    Missing { name: String, place: PathBuf },
    #[error("there is no good backup{} in {}; `famulus backup list` shows what is there", before.as_ref().map(|at| format!(" from before {at}")).unwrap_or_default(), place.display())]
    None { place: PathBuf, before: Option<jiff::Timestamp> },
    #[error("{} holds backups of several installations, and this one has no data that say which it is; name the backup (`famulus backup list`)", place.display())]
    Several { place: PathBuf },
    #[error("the backup {name} was left unread")]
    Seal {
        name: String,
        #[source]
        source: SealError,
    },
    #[error("a thread of the backup ended early; this is a defect")]
    Thread,
}

impl BackupError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            // A bucket has said already what happened.
            let source = match source.downcast::<Self>() {
                Ok(error) => return error,
                Err(source) => source,
            };
            let full = [
                io::ErrorKind::StorageFull,
                io::ErrorKind::QuotaExceeded,
                io::ErrorKind::FileTooLarge,
            ];
            if full.contains(&source.kind()) {
                Self::Full { path }
            } else {
                Self::Io { path, what, source }
            }
        }
    }

    pub(crate) fn store(
        what: &'static str,
        path: PathBuf,
    ) -> impl FnOnce(object_store::Error) -> Self {
        move |error| {
            let said = short(&error.to_string());
            let refused = matches!(
                error,
                object_store::Error::PermissionDenied { .. }
                    | object_store::Error::Unauthenticated { .. }
            );
            // Who lists is told no kind.
            const REFUSALS: [&str; 3] =
                ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"];
            if refused || REFUSALS.iter().any(|code| said.starts_with(code)) {
                Self::Refused { path, what, said }
            } else {
                Self::Store { path, what, said }
            }
        }
    }
}

/// What a store says of a failure, without its markup: `NoSuchBucket: The bucket does not exist`.
fn short(said: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = said.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {}", message.trim_end_matches('.')),
        _ => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_store_says_the_words_remain() {
        let said = "Error performing GET http://x/b in 2ms - Server returned non-2xx status code: \
                    404 Not Found: <?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code>\
                    <Message>The bucket does not exist.</Message></Error>";
        assert_eq!(short(said), "NoSuchBucket: The bucket does not exist");
        assert_eq!(short("connection refused"), "connection refused");
    }

    #[test]
    fn an_error_inside_an_error_of_input_and_output_comes_out_as_it_was() {
        let inner = BackupError::GivenUp { name: "x".to_owned() };
        let outer = BackupError::io("read", Path::new("y"))(io::Error::other(inner));
        assert!(matches!(outer, BackupError::GivenUp { .. }), "{outer}");
    }
}
