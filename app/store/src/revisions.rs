//! Revisions of plugins: what they are, and their bundles, kept piece by piece.
//!
//! A bundle is content-addressed: what was kept never changes, and keeping it again is no error. Each
//! upload writes pieces of its own; the last transaction makes them the revision's, or lets them go
//! when it has some already. What dies with its process goes by retention.

use crate::{
    codec::{decode, encode},
    db::{Scope, Store},
    error::Error,
};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use famulus_core::{
    StoreError,
    blob::PIECE,
    plugin::{BUNDLE_BYTES, Description, Revisions},
};
use famulus_lifecycle::boxed;
use futures::{StreamExt, stream::BoxStream};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A bundle was not kept.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("the revision {0} was not described; send its description first")]
    Unknown(String),
    #[error("a bundle has at most {BUNDLE_BYTES} bytes; leave large files out of the plugin")]
    TooLarge,
    #[error("the bundle broke off; send it again")]
    Cut(#[source] std::io::Error),
    #[error("the bundle's digest is {found}, and it was announced as {announced}; send it again")]
    Differs { announced: String, found: String },
    #[error(transparent)]
    Store(#[from] Error),
}

/// What came of describing a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Describe {
    BundleNeeded,
    /// It is here whole, and need not be sent.
    BundleKept,
    /// The digest belongs to another plugin.
    Foreign,
}

/// What is read of a bundle.
pub type BundleStream = BoxStream<'static, Result<Bytes, Error>>;

#[async_trait]
impl Revisions for Store {
    async fn described(&self, digest: &str) -> Result<Option<Description>, StoreError> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let row = sqlx::query_scalar!(
            "select description from plugin_revision where digest = $1",
            digest,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("read what a revision is"))?;
        tx.commit().await.map_err(Error::on("read what a revision is"))?;
        Ok(row.map(|text| decode("the description of a revision", &text)).transpose()?)
    }
}

impl Store {
    /// Keeps what a revision is. Told again, the later word counts.
    #[boxed]
    pub async fn describe(
        &self,
        digest: &str,
        description: &Description,
    ) -> Result<Describe, Error> {
        let mut tx = self.begin(Scope::System).await?;
        let is_whole = sqlx::query_scalar!(
            r#"insert into plugin_revision (digest, plugin, description) values ($1, $2, $3)
               on conflict (digest) do update
               set description = excluded.description, described_at = now(), missing_since = null
               where plugin_revision.plugin = excluded.plugin
               returning bundle is not null as "is_whole!""#,
            digest,
            description.plugin,
            encode("the description of a revision", description)?,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("keep what a revision is"))?;
        tx.commit().await.map_err(Error::on("keep what a revision is"))?;
        Ok(match is_whole {
            None => Describe::Foreign,
            Some(false) => Describe::BundleNeeded,
            Some(true) => Describe::BundleKept,
        })
    }

    /// Keeps the bundle of a plugin's revision that was described before.
    pub async fn keep_bundle(
        &self,
        plugin: &str,
        digest: &str,
        bytes: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<(), BundleError> {
        match self.bundle_of(plugin, digest).await? {
            None => return Err(BundleError::Unknown(digest.to_owned())),
            Some(Some(_whole)) => return Ok(()),
            Some(None) => {}
        }
        let mut upload = Upload::new(self);
        let kept = upload.keep(plugin, digest, bytes).await;
        if !matches!(kept, Ok(Kept::Now)) {
            upload.discard().await;
        }
        kept.map(|_| ())
    }

    /// The bundle of a plugin's revision, and its size.
    #[boxed]
    pub async fn bundle(
        &self,
        plugin: &str,
        digest: &str,
    ) -> Result<Option<(u64, BundleStream)>, Error> {
        let Some(Some((bundle, size))) = self.bundle_of(plugin, digest).await? else {
            return Ok(None);
        };
        let pieces = i32::try_from(size.div_ceil(PIECE as u64)).unwrap_or(i32::MAX);
        let store = self.clone();
        let stream = futures::stream::iter(0..pieces).then(move |number| {
            let store = store.clone();
            async move { store.bundle_piece(bundle, number).await }
        });
        Ok(Some((size, stream.boxed())))
    }

    /// The outer level: whether the revision is known; the inner one: whether its bundle is whole.
    async fn bundle_of(
        &self,
        plugin: &str,
        digest: &str,
    ) -> Result<Option<Option<(Uuid, u64)>>, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let row = sqlx::query!(
            "select bundle, size from plugin_revision where digest = $1 and plugin = $2",
            digest,
            plugin,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("find a revision"))?;
        tx.commit().await.map_err(Error::on("find a revision"))?;
        Ok(row.map(|row| row.bundle.zip(row.size.map(|size| size as u64))))
    }

    async fn bundle_piece(&self, bundle: Uuid, number: i32) -> Result<Bytes, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let data = sqlx::query_scalar!(
            "select data from plugin_bundle_piece where bundle = $1 and number = $2",
            bundle,
            number,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("read a bundle"))?;
        tx.commit().await.map_err(Error::on("read a bundle"))?;
        Ok(data.into())
    }
}

/// Whose pieces the revision has now.
enum Kept {
    Now,
    /// Another upload's.
    Before,
}

struct Upload<'a> {
    store: &'a Store,
    bundle: Uuid,
    piece: BytesMut,
    pieces: i32,
    size: u64,
    hash: Sha256,
}

impl<'a> Upload<'a> {
    fn new(store: &'a Store) -> Self {
        Self {
            store,
            bundle: Uuid::now_v7(),
            piece: BytesMut::new(),
            pieces: 0,
            size: 0,
            hash: Sha256::new(),
        }
    }

    async fn keep(
        &mut self,
        plugin: &str,
        digest: &str,
        mut bytes: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<Kept, BundleError> {
        while let Some(chunk) = bytes.next().await {
            let mut chunk = chunk.map_err(BundleError::Cut)?;
            self.size += chunk.len() as u64;
            if self.size > BUNDLE_BYTES {
                return Err(BundleError::TooLarge);
            }
            self.hash.update(&chunk);
            while !chunk.is_empty() {
                let room = PIECE - self.piece.len();
                self.piece.extend_from_slice(&chunk.split_to(room.min(chunk.len())));
                if self.piece.len() == PIECE {
                    self.flush().await?;
                }
            }
        }
        if !self.piece.is_empty() {
            self.flush().await?;
        }
        let found = format!("sha256:{}", hex::encode(std::mem::take(&mut self.hash).finalize()));
        if found != digest {
            return Err(BundleError::Differs { announced: digest.to_owned(), found });
        }
        Ok(self.finish(plugin, digest).await?)
    }

    /// Waits for the disk with every piece: nothing has to be counted at the end.
    async fn flush(&mut self) -> Result<(), Error> {
        let mut tx = self.store.begin(Scope::System).await?;
        sqlx::query!(
            "insert into plugin_bundle_piece (bundle, number, data) values ($1, $2, $3)",
            self.bundle,
            self.pieces,
            &self.piece[..],
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("keep a bundle"))?;
        tx.commit().await.map_err(Error::on("keep a bundle"))?;
        self.pieces += 1;
        self.piece.clear();
        Ok(())
    }

    async fn finish(&self, plugin: &str, digest: &str) -> Result<Kept, Error> {
        let mut tx = self.store.begin(Scope::System).await?;
        let kept = sqlx::query!(
            "update plugin_revision set bundle = $3, size = $4
             where digest = $1 and plugin = $2 and bundle is null",
            digest,
            plugin,
            self.bundle,
            self.size as i64,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("keep a bundle"))?;
        tx.commit().await.map_err(Error::on("keep a bundle"))?;
        Ok(if kept.rows_affected() == 1 { Kept::Now } else { Kept::Before })
    }

    /// Deletes what was stored of it. Should that fail, retention does it later.
    async fn discard(&self) {
        let deleted = async {
            let mut tx = self.store.begin_relaxed(Scope::System).await?;
            sqlx::query!("delete from plugin_bundle_piece where bundle = $1", self.bundle)
                .execute(&mut *tx)
                .await
                .map_err(Error::on("drop a bundle"))?;
            tx.commit().await.map_err(Error::on("drop a bundle"))
        };
        if let Err(error) = deleted.await {
            tracing::warn!(%error, "pieces of a bundle are left to retention");
        }
    }
}
