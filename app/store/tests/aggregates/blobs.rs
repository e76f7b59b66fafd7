//! Files: in and out whole, held once, and nothing left of what broke off.

use crate::support::{World, with_store};
use bytes::Bytes;
use famulus_core::{
    blob::{BlobError, BlobRef, Blobs, PIECE},
    ids::PersonId,
};
use famulus_store::{Retention, Store};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use sha2::{Digest, Sha256};
use std::{io, sync::Arc};
use tokio::sync::Notify;

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|place| (place * 31 + place / 251) as u8).collect()
}

async fn put(
    store: &Store,
    person: PersonId,
    bytes: &[u8],
    chunk: usize,
    limit: u64,
) -> Result<BlobRef, BlobError> {
    let chunks: Vec<io::Result<Bytes>> =
        bytes.chunks(chunk).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    store.put(person, "text/plain", limit, stream::iter(chunks).boxed()).await
}

async fn left(world: &World, person: PersonId) -> (i64, i64) {
    let blobs = "select count(*) from blob where person_id = $1";
    let pieces = "select count(*) from blob_piece where person_id = $1";
    (world.count(blobs, person).await, world.count(pieces, person).await)
}

#[tokio::test]
async fn files_come_out_as_they_went_in() {
    with_store(async |world| {
        let ada = world.person("Ada").await.id;
        for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            for chunk in [777_777, 65_536, PIECE] {
                let bytes = content(size);
                let stored = put(&world.store, ada, &bytes, chunk, 1 << 20).await.unwrap();
                assert_eq!(stored.size, size as u64);
                assert_eq!(stored.sha256, hex::encode(Sha256::digest(&bytes)));
                let (found, pieces) = world.store.get(ada, stored.id).await.unwrap();
                assert_eq!(found, stored);
                let pieces: Vec<Bytes> = pieces.try_collect().await.unwrap();
                assert!(pieces.iter().rev().skip(1).all(|piece| piece.len() == PIECE));
                assert_eq!(pieces.concat(), bytes);
            }
        }
        assert_eq!(left(world, ada).await.0, 6, "the same content is held once");
    })
    .await;
}

#[tokio::test]
async fn one_content_uploaded_at_once_is_one_file() {
    with_store(async |world| {
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        let bytes = content(PIECE + 9);
        let uploads = (0..5).map(|_| put(&world.store, ada, &bytes, 50_000, 1 << 20));
        let stored = futures::future::join_all(uploads).await;
        for outcome in &stored {
            assert_eq!(outcome.as_ref().unwrap(), stored[0].as_ref().unwrap());
        }
        assert_eq!(left(world, ada).await, (1, 2));
        let id = stored[0].as_ref().unwrap().id;
        assert!(matches!(world.store.get(bob, id).await, Err(BlobError::Missing { .. })));
        let his = put(&world.store, bob, &bytes, 50_000, 1 << 20).await.unwrap();
        assert_ne!(his.id, id, "nobody learns what others have stored");
    })
    .await;
}

#[tokio::test]
async fn nothing_stays_of_a_file_that_is_too_large_or_cut() {
    with_store(async |world| {
        let ada = world.person("Ada").await.id;
        let bytes = content(2 * PIECE);
        let limit = 2 * PIECE as u64 - 1;
        let refused = put(&world.store, ada, &bytes, 100_000, limit).await;
        assert!(matches!(refused, Err(BlobError::TooLarge { limit: l }) if l == limit));
        assert_eq!(left(world, ada).await, (0, 0));
        let cut = stream::iter([
            Ok(Bytes::from(bytes)),
            Err(io::Error::new(io::ErrorKind::ConnectionReset, "gone")),
        ]);
        let refused = world.store.put(ada, "text/plain", 1 << 20, cut.boxed()).await;
        assert!(matches!(refused, Err(BlobError::Cut(_))));
        assert_eq!(left(world, ada).await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_file_that_lost_a_piece_is_not_made_whole() {
    with_store(async |world| {
        let ada = world.person("Ada").await.id;
        let admin = world.admin.clone();
        // What a crash of Postgres does to commits that did not wait for the disk.
        let forgetful =
            stream::iter([Ok(Bytes::from(content(2 * PIECE)))]).chain(stream::once(async move {
                sqlx::query("delete from blob_piece where number = 0")
                    .execute(&admin)
                    .await
                    .unwrap();
                Ok(Bytes::from_static(b"the end"))
            }));
        let stored = world.store.put(ada, "text/plain", 1 << 20, forgetful.boxed()).await;
        assert!(matches!(stored, Err(BlobError::Store(_))), "{stored:?}");
        assert_eq!(left(world, ada).await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn what_an_abandoned_upload_left_goes_by_retention() {
    with_store(async |world| {
        let store = &world.store;
        let ada = world.person("Ada").await.id;
        let waiting = Arc::new(Notify::new());
        let reached = Arc::clone(&waiting);
        let endless =
            stream::iter([Ok(Bytes::from(content(PIECE + 1)))]).chain(stream::once(async move {
                reached.notify_one();
                futures::future::pending().await
            }));
        tokio::select! {
            _ = store.put(ada, "text/plain", 1 << 20, endless.boxed()) => unreachable!(),
            () = waiting.notified() => {}
        }
        assert_eq!(left(world, ada).await, (1, 1));
        let now = store.queue.now().await.unwrap();
        let swept = store.sweep_old(now, &Retention::default()).await.unwrap();
        assert_eq!(swept.partial_blobs, 0, "it may still be streaming");
        let tomorrow = now.checked_add(SignedDuration::from_hours(25)).unwrap();
        let swept = store.sweep_old(tomorrow, &Retention::default()).await.unwrap();
        assert_eq!(swept.partial_blobs, 1);
        assert_eq!(left(world, ada).await, (0, 0));
    })
    .await;
}
