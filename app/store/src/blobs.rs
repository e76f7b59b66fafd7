//! Files as rows: streamed in and out piece by piece, held once for each content.
//!
//! While a file streams in, it is *partial*: its pieces are stored without waiting for the disk.
//! The last transaction counts them (a crash of Postgres may have forgotten some), makes the file
//! whole and durable, or drops it when the same content is whole already. What breaks off is
//! deleted; what dies with its process goes by retention.

use crate::{
    codec::without_nul,
    db::{Scope, Store},
    error::Error,
};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use famulus_core::{
    blob::{BlobError, BlobRef, Blobs, PIECE},
    crash,
    ids::{BlobId, PersonId},
};
use famulus_lifecycle::boxed;
use futures::{StreamExt, stream::BoxStream};
use sha2::{Digest, Sha256};
use sqlx::{PgConnection, error::DatabaseError};

#[async_trait]
impl Blobs for Store {
    async fn put(
        &self,
        person: PersonId,
        mime: &str,
        limit: u64,
        bytes: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<BlobRef, BlobError> {
        let mut upload = Upload::begin(self, person, mime).await.map_err(store)?;
        match upload.take(limit, bytes).await {
            Ok(()) => match upload.finish().await {
                Ok(stored) => Ok(stored),
                Err(error) => {
                    upload.discard().await;
                    Err(store(error))
                }
            },
            Err(error) => {
                upload.discard().await;
                Err(error)
            }
        }
    }

    async fn get(
        &self,
        person: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<Bytes, BlobError>>), BlobError> {
        let blob = self.blob(person, id).await.map_err(store)?.ok_or(BlobError::Missing { id })?;
        let pieces = i32::try_from(blob.size.div_ceil(PIECE as u64)).unwrap_or(i32::MAX);
        let store = self.clone();
        let stream = futures::stream::iter(0..pieces).then(move |number| {
            let store = store.clone();
            async move { store.piece(person, id, number).await }
        });
        Ok((blob, stream.boxed()))
    }
}

impl Store {
    /// What is stored under this id, without its bytes.
    #[boxed]
    pub async fn blob(&self, person: PersonId, id: BlobId) -> Result<Option<BlobRef>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let row = sqlx::query!(
            "select sha256, mime, size from blob where id = $1 and state = 'whole'",
            id.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("find a file"))?;
        tx.commit().await.map_err(Error::on("find a file"))?;
        Ok(row.map(|row| BlobRef {
            id,
            sha256: hex::encode(&row.sha256),
            mime: row.mime,
            size: row.size as u64,
        }))
    }

    /// Bytes of the files of somebody that were stored, or sent anew, within a day.
    pub(crate) async fn blob_bytes_within_a_day(&self, person: PersonId) -> Result<u64, Error> {
        let failed = || Error::on("count somebody's files");
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let bytes = sqlx::query_scalar!(
            r#"select coalesce(sum(size), 0)::bigint as "bytes!" from blob
               where person_id = $1 and state = 'whole' and created_at > now() - interval '1 day'"#,
            person.0,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        Ok(bytes as u64)
    }

    async fn piece(&self, person: PersonId, id: BlobId, number: i32) -> Result<Bytes, BlobError> {
        let read = async {
            let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
            let data = sqlx::query_scalar!(
                "select data from blob_piece where blob_id = $1 and number = $2",
                id.0,
                number,
            )
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::on("read a file"))?;
            tx.commit().await.map_err(Error::on("read a file"))?;
            Ok::<_, Error>(data)
        };
        // The file may go between two pieces, when nothing refers to it.
        read.await.map_err(store)?.map(Bytes::from).ok_or(BlobError::Missing { id })
    }
}

/// A file that streams in.
struct Upload<'a> {
    store: &'a Store,
    person: PersonId,
    id: BlobId,
    mime: String,
    /// The piece that is being filled: all that is held of the file.
    piece: BytesMut,
    pieces: i32,
    size: u64,
    hash: Sha256,
}

impl<'a> Upload<'a> {
    async fn begin(store: &'a Store, person: PersonId, mime: &str) -> Result<Self, Error> {
        let upload = Self {
            store,
            person,
            id: BlobId::new(),
            mime: without_nul(mime),
            piece: BytesMut::new(),
            pieces: 0,
            size: 0,
            hash: Sha256::new(),
        };
        let mut tx = store.begin_relaxed(Scope::Person(person)).await?;
        sqlx::query!(
            "insert into blob (id, person_id, sha256, mime, size, state)
             values ($1, $2, '', $3, 0, 'partial')",
            upload.id.0,
            person.0,
            upload.mime,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("begin a file"))?;
        crash::before("blob.begin");
        tx.commit().await.map_err(Error::on("begin a file"))?;
        crash::after("blob.begin");
        Ok(upload)
    }

    async fn take(
        &mut self,
        limit: u64,
        mut bytes: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<(), BlobError> {
        while let Some(chunk) = bytes.next().await {
            let mut chunk = chunk.map_err(BlobError::Cut)?;
            self.size += chunk.len() as u64;
            if self.size > limit {
                return Err(BlobError::TooLarge { limit });
            }
            self.hash.update(&chunk);
            while !chunk.is_empty() {
                let room = PIECE - self.piece.len();
                self.piece.extend_from_slice(&chunk.split_to(room.min(chunk.len())));
                if self.piece.len() == PIECE {
                    self.flush().await.map_err(store)?;
                }
            }
        }
        if !self.piece.is_empty() {
            self.flush().await.map_err(store)?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let mut tx = self.store.begin_relaxed(Scope::Person(self.person)).await?;
        sqlx::query!(
            "insert into blob_piece (blob_id, number, person_id, data) values ($1, $2, $3, $4)",
            self.id.0,
            self.pieces,
            self.person.0,
            &self.piece[..],
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("store a file"))?;
        crash::before("blob.piece");
        tx.commit().await.map_err(Error::on("store a file"))?;
        crash::after("blob.piece");
        self.pieces += 1;
        self.piece.clear();
        Ok(())
    }

    /// Makes the file whole, unless its content is stored already.
    async fn finish(&mut self) -> Result<BlobRef, Error> {
        let sha256 = std::mem::take(&mut self.hash).finalize().to_vec();
        // Two uploads of one content may end at the same time: the one that comes second is
        // refused by the unique index, and then finds the first.
        match self.try_finish(&sha256).await {
            Err(Error::Refused { source, .. })
                if source.as_database_error().is_some_and(DatabaseError::is_unique_violation) =>
            {
                self.try_finish(&sha256).await
            }
            other => other,
        }
    }

    async fn try_finish(&self, sha256: &[u8]) -> Result<BlobRef, Error> {
        let mut tx = self.store.begin(Scope::Person(self.person)).await?;
        let id = if let Some(same) = self.touch_same(&mut tx, sha256).await? {
            sqlx::query!("delete from blob where id = $1", self.id.0)
                .execute(&mut *tx)
                .await
                .map_err(Error::on("drop a file that is stored already"))?;
            same
        } else {
            self.make_whole(&mut tx, sha256).await?;
            self.id
        };
        crash::before("blob.whole");
        tx.commit().await.map_err(Error::on("store a file"))?;
        crash::after("blob.whole");
        Ok(BlobRef { id, sha256: hex::encode(sha256), mime: self.mime.clone(), size: self.size })
    }

    /// The file with this content, if there is one. Its age begins anew, so that retention leaves
    /// it to the message that is about to refer to it.
    async fn touch_same(
        &self,
        conn: &mut PgConnection,
        sha256: &[u8],
    ) -> Result<Option<BlobId>, Error> {
        sqlx::query_scalar!(
            "update blob set created_at = now()
             where person_id = $1 and sha256 = $2 and mime = $3 and state = 'whole'
             returning id",
            self.person.0,
            sha256,
            self.mime,
        )
        .fetch_optional(conn)
        .await
        .map(|id| id.map(BlobId))
        .map_err(Error::on("look for the same file"))
    }

    async fn make_whole(&self, conn: &mut PgConnection, sha256: &[u8]) -> Result<(), Error> {
        let done = sqlx::query!(
            "update blob set state = 'whole', sha256 = $2, size = $3
             where id = $1 and state = 'partial'
               and (select count(*) from blob_piece where blob_id = $1) = $4
               and (select coalesce(sum(octet_length(data)), 0) from blob_piece
                    where blob_id = $1) = $3",
            self.id.0,
            sha256,
            self.size as i64,
            i64::from(self.pieces),
        )
        .execute(conn)
        .await
        .map_err(Error::on("store a file"))?;
        if done.rows_affected() == 1 {
            return Ok(());
        }
        Err(Error::Unavailable {
            operation: "keep every piece of the file",
            source: sqlx::Error::RowNotFound,
        })
    }

    /// Deletes what was stored of it. Should that fail, retention does it later.
    async fn discard(&self) {
        let deleted = async {
            let mut tx = self.store.begin_relaxed(Scope::Person(self.person)).await?;
            sqlx::query!("delete from blob where id = $1 and state = 'partial'", self.id.0)
                .execute(&mut *tx)
                .await
                .map_err(Error::on("drop a partial file"))?;
            tx.commit().await.map_err(Error::on("drop a partial file"))
        };
        if let Err(error) = deleted.await {
            tracing::warn!(blob.id = %self.id, %error, "a partial file is left to retention");
        }
    }
}

fn store(error: Error) -> BlobError {
    BlobError::Store(Box::new(error))
}
