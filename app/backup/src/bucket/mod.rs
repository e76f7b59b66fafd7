//! Backups in a bucket of a store that speaks S3: Amazon's, Garage, Ceph, MinIO, R2 and others.
//!
//! ```text
//! PREFIX/.partial-INSTALLATION/NAME   a mark: NAME is not whole, and not listed
//! PREFIX/NAME/database.dump.age       …
//! ```
//!
//! A store cannot rename a folder. So the mark comes before the first byte of a backup and goes after
//! its last was read back; whoever removes a backup sets it first.
//!
//! Invariants: an object is there whole or not at all, however large; what a dead run left is removed
//! a day after its last sign of life, by the clock of the store, and only by the installation that
//! wrote it; two backups at once leave each other alone. There is no lock, and none is needed.

mod upload;
mod writing;

use crate::{
    config::S3,
    error::BackupError,
    store::{Draft, Files, Store},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{
    Certificate, ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path as Key,
};
use secrecy::ExposeSecret;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::runtime::Handle;
use uuid::Uuid;
use writing::Writing;

const PARTIAL: &str = ".partial-";

/// What has not been written to for so long is no longer being written.
const DEAD_AFTER_HOURS: i64 = 24;

/// A store that says nothing for so long says nothing any more. A chunk must be through by then.
const SILENCE: Duration = Duration::from_mins(5);
const CONNECT: Duration = Duration::from_secs(10);
/// With pauses that double, about ten seconds for one that is there and fails.
const RETRIES: usize = 6;
/// A chunk on a slow line takes minutes, and is sent again when it fails; a signature is good for a
/// quarter of an hour.
const RETRY_UNTIL: Duration = Duration::from_mins(10);

#[derive(Clone)]
pub(crate) struct Bucket {
    s3: Arc<AmazonS3>,
    prefix: Key,
    /// For people.
    place: String,
}

impl Bucket {
    /// Nothing is asked of the store yet.
    pub(crate) fn new(config: &S3) -> Result<Self, BackupError> {
        let wrong = |reason: String| BackupError::Bucket { reason };
        let secret = config.secret_access_key.as_ref().ok_or_else(|| {
            wrong("`backup.s3.secret_access_key` is missing; name where it stands".to_owned())
        })?;
        let prefix = Key::parse(config.prefix.trim_matches('/')).map_err(|error| {
            wrong(format!("`backup.s3.prefix` cannot begin the names of objects ({error})"))
        })?;
        let mut client = ClientOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout_disabled()
            .with_read_timeout(SILENCE);
        if let Some(path) = &config.ca_file {
            let unusable = |error: &dyn fmt::Display| {
                let path = path.display();
                wrong(format!("`backup.s3.ca_file`, {path}, cannot be used ({error})"))
            };
            let pem = fs::read(path).map_err(|error| unusable(&error))?;
            let certificates =
                Certificate::from_pem_bundle(&pem).map_err(|error| unusable(&error))?;
            if certificates.is_empty() {
                return Err(unusable(&"it holds no certificate"));
            }
            client = certificates.into_iter().fold(client, ClientOptions::with_root_certificate);
        }
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&config.bucket)
            .with_region(&config.region)
            .with_access_key_id(&config.access_key_id)
            .with_secret_access_key(secret.expose_secret())
            .with_virtual_hosted_style_request(false)
            .with_disable_bulk_delete(true)
            .with_retry(RetryConfig {
                max_retries: RETRIES,
                retry_timeout: RETRY_UNTIL,
                ..RetryConfig::default()
            });
        if let Some(endpoint) = &config.endpoint {
            client = client.with_allow_http(endpoint.scheme() == "http");
            builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/'));
        }
        let s3 = builder.with_client_options(client).build();
        let s3 = s3.map_err(|error| wrong(format!("`backup.s3` cannot be used ({error})")))?;
        let place = [format!("s3://{}", config.bucket), prefix.to_string()];
        let place = place.join("/").trim_end_matches('/').to_owned();
        Ok(Self { s3: Arc::new(s3), prefix, place })
    }

    fn s3(&self) -> &Arc<AmazonS3> {
        &self.s3
    }

    fn path(&self, within: &str) -> PathBuf {
        PathBuf::from(if within.is_empty() {
            self.place.clone()
        } else {
            format!("{}/{within}", self.place)
        })
    }

    fn key(&self, within: &str) -> Key {
        within.split('/').fold(self.prefix.clone(), Key::join)
    }

    fn failed(
        &self,
        what: &'static str,
        within: &str,
    ) -> impl FnOnce(object_store::Error) -> BackupError + use<> {
        BackupError::store(what, self.path(within))
    }

    fn objects(&self) -> Result<Vec<ObjectMeta>, BackupError> {
        let all = self.s3.list(Some(&self.prefix)).try_collect();
        wait(all).map_err(self.failed("listed", ""))
    }

    /// What an object is to us; `None`: it is not ours.
    fn role(&self, object: &ObjectMeta) -> Option<Role> {
        let mut parts = object.location.prefix_match(&self.prefix)?;
        let (first, second) = (parts.next()?, parts.next()?);
        let (first, second) = (first.as_ref(), second.as_ref().to_owned());
        match first.strip_prefix(PARTIAL) {
            _ if parts.next().is_some() => None,
            Some(installation) => {
                Some(Role::Mark { installation: installation.to_owned(), backup: second })
            }
            None if first.starts_with('.') => None,
            None => Some(Role::File { backup: first.to_owned(), name: second }),
        }
    }

    /// Says that a backup is not whole, or that it is still being written.
    fn mark(&self, installation: Uuid, backup: &str) -> Result<(), BackupError> {
        let mark = mark_of(installation, backup);
        let key = self.key(&mark);
        let put = async { self.s3.put(&key, PutPayload::new()).await.map(drop) };
        wait(put).map_err(self.failed("written", &mark))
    }

    fn delete(&self, within: &str) -> Result<(), BackupError> {
        self.delete_all(vec![self.key(within)]).map_err(self.failed("removed", within))
    }

    fn delete_all(&self, keys: Vec<Key>) -> Result<(), object_store::Error> {
        let keys: BoxStream<'static, _> = futures::stream::iter(keys).map(Ok).boxed();
        wait(self.s3.delete_stream(keys).try_for_each(|_| async { Ok(()) }))
    }

    /// Removes a backup that has a mark, and then the mark.
    fn clear(&self, installation: Uuid, backup: &str) -> Result<(), BackupError> {
        let folder = self.key(backup);
        let files = self.s3.list(Some(&folder)).map_ok(|object| object.location).try_collect();
        let files = wait(files).map_err(self.failed("listed", backup))?;
        self.delete_all(files).map_err(self.failed("removed", backup))?;
        self.delete(&mark_of(installation, backup))
    }

    /// What dead runs of this installation left, by the clock that set the mark of `begun`.
    fn dead(&self, installation: Uuid, begun: &str) -> Result<BTreeSet<String>, BackupError> {
        let objects = self.objects()?;
        let ours = installation.to_string();
        let mut marks = BTreeMap::new();
        for object in &objects {
            if let Some(Role::Mark { installation, backup }) = self.role(object)
                && installation == ours
            {
                marks.insert(backup, object);
            }
        }
        let Some(now) = marks.remove(begun).map(|mark| mark.last_modified) else {
            return Ok(BTreeSet::new());
        };
        let dead = |object: &ObjectMeta| {
            now.signed_duration_since(object.last_modified).num_hours() >= DEAD_AFTER_HOURS
        };
        let alive: BTreeSet<String> = objects
            .iter()
            .filter(|object| !dead(object))
            .filter_map(|object| match self.role(object)? {
                Role::Mark { backup, .. } | Role::File { backup, .. } => Some(backup),
            })
            .collect();
        Ok(marks.into_keys().filter(|backup| !alive.contains(backup)).collect())
    }

    fn open(&self, within: &str) -> Result<Box<dyn Read + Send>, BackupError> {
        let key = self.key(within);
        let opened = wait(self.s3.get(&key)).map_err(self.failed("read", within))?;
        let (stream, path) = (opened.into_stream(), self.path(within));
        Ok(Box::new(Download { stream, rest: Bytes::new(), path }))
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Bucket").field("place", &self.place).finish_non_exhaustive()
    }
}

enum Role {
    Mark { installation: String, backup: String },
    File { backup: String, name: String },
}

fn mark_of(installation: Uuid, backup: &str) -> String {
    format!("{PARTIAL}{installation}/{backup}")
}

impl Store for Bucket {
    fn path(&self, within: &str) -> PathBuf {
        Self::path(self, within)
    }

    fn list(&self) -> Result<BTreeMap<String, Files>, BackupError> {
        let (mut there, mut unfinished) = (BTreeMap::<_, Files>::new(), BTreeSet::new());
        for object in self.objects()? {
            match self.role(&object) {
                Some(Role::Mark { backup, .. }) => drop(unfinished.insert(backup)),
                Some(Role::File { backup, name }) => {
                    there.entry(backup).or_default().insert(name, object.size);
                }
                None => {}
            }
        }
        there.retain(|backup, _| !unfinished.contains(backup));
        Ok(there)
    }

    fn open(&self, backup: &str, file: &str) -> Result<Box<dyn Read + Send>, BackupError> {
        Self::open(self, &format!("{backup}/{file}"))
    }

    fn begin(&self, installation: Uuid, backup: &str) -> Result<Arc<dyn Draft>, BackupError> {
        self.mark(installation, backup)?;
        for dead in self.dead(installation, backup)? {
            match self.clear(installation, &dead) {
                Ok(()) => tracing::info!(backup = dead, "what an earlier backup left was removed"),
                Err(error) => {
                    tracing::warn!(backup = dead, %error, "what an earlier backup left stays");
                }
            }
        }
        Ok(Arc::new(Writing::new(self.clone(), installation, backup)))
    }

    fn remove(&self, backup: &str, installation: Uuid) -> Result<(), BackupError> {
        self.mark(installation, backup)?;
        self.clear(installation, backup)
    }
}

/// Runs what the store is asked on a thread that may block.
fn wait<T>(asked: impl Future<Output = T>) -> T {
    Handle::current().block_on(asked)
}

/// An object that is being read.
struct Download {
    stream: BoxStream<'static, Result<Bytes, object_store::Error>>,
    rest: Bytes,
    path: PathBuf,
}

impl Read for Download {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match wait(self.stream.next()) {
                Some(next) => {
                    let failed = BackupError::store("read", self.path.clone());
                    self.rest = next.map_err(|error| io::Error::other(failed(error)))?;
                }
                None => return Ok(0),
            }
        }
        let read = self.rest.len().min(into.len());
        into[..read].copy_from_slice(&self.rest.split_to(read));
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
