//! Revisions of plugins, calls whose results come later, and who starts and ends runners.

use crate::{
    support::{World, with_store},
    talk,
};
use bytes::Bytes;
use famulus_core::{
    Clock as _,
    clock::SystemClock,
    plugin::{Description, LateCall, LateCalls as _, Revisions as _},
    runner::RunnerDemand as _,
};
use famulus_store::{BundleError, LateState, MAIN_AGENT, Store};
use futures::{StreamExt as _, TryStreamExt as _, future::join_all, stream};
use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

fn describing(plugin: &str) -> Description {
    Description {
        plugin: plugin.into(),
        description: "d".into(),
        instructions: None,
        commit: Some("c0ffee".into()),
        config: Vec::new(),
        tools: Vec::new(),
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Comes in pieces that fit nothing.
async fn keep(store: &Store, plugin: &str, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
    let chunks: Vec<_> =
        bytes.chunks(100_001).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    store.keep_bundle(plugin, name, stream::iter(chunks).boxed()).await
}

async fn pieces(world: &World) -> i64 {
    sqlx::query_scalar("select count(*) from plugin_bundle_piece")
        .fetch_one(&world.admin)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_bundle_is_kept_once_and_as_it_came() {
    with_store(async |world| {
        let store = &world.store;
        let bytes: Vec<u8> = (0..700_000_u32).map(|n| (n % 251) as u8).collect();
        let name = digest(&bytes);
        let unknown = keep(store, "weather", &name, &bytes).await;
        assert!(matches!(unknown, Err(BundleError::Unknown(_))), "{unknown:?}");
        assert!(store.describe(&name, &describing("weather")).await.unwrap());
        assert_eq!(store.described(&name).await.unwrap(), Some(describing("weather")));
        assert!(store.bundle("weather", &name).await.unwrap().is_none(), "it is not whole");

        // What is not what it says leaves nothing behind.
        let other = keep(store, "weather", &name, &bytes[1..]).await;
        assert!(matches!(other, Err(BundleError::Differs { .. })), "{other:?}");
        let broken = stream::iter([
            Ok(Bytes::from(bytes[..300_000].to_vec())),
            Err(std::io::Error::other("cut")),
        ]);
        let cut = store.keep_bundle("weather", &name, broken.boxed()).await;
        assert!(matches!(cut, Err(BundleError::Cut(_))), "{cut:?}");
        assert_eq!(pieces(world).await, 0);

        // Several at once are one.
        let kept = join_all((0..4).map(|_| keep(store, "weather", &name, &bytes))).await;
        assert!(kept.iter().all(Result::is_ok), "{kept:?}");
        assert_eq!(pieces(world).await, 3);
        let (size, stream) = store.bundle("weather", &name).await.unwrap().unwrap();
        let read: Vec<Bytes> = stream.try_collect().await.unwrap();
        assert_eq!((size, read.concat()), (700_000, bytes));

        // Another plugin has no part in it.
        assert!(!store.describe(&name, &describing("evil")).await.unwrap());
        assert!(store.bundle("evil", &name).await.unwrap().is_none());
        assert_eq!(store.described(&name).await.unwrap().unwrap().plugin, "weather");
    })
    .await;
}

#[tokio::test]
async fn a_late_call_is_found_until_its_result_came() {
    with_store(async |world| {
        let (store, person) = (&world.store, world.person("Ada").await.id);
        let conversation = talk::conversation(world, person, "a").await;
        let call = LateCall {
            id: "call.1".into(),
            plugin: "weather".into(),
            tool: "watch".into(),
            person,
            agent: MAIN_AGENT,
            conversation,
            origin: None,
            token_hash: [1; 32],
            expires_at: SystemClock.now() + SignedDuration::from_hours(1),
        };
        store.expect(&call).await.unwrap();
        let again = LateCall { token_hash: [2; 32], ..call.clone() };
        store.expect(&again).await.unwrap();
        let found = store.late_call("call.1").await.unwrap().unwrap();
        assert_eq!((found.state, found.host), (LateState::Expected, person));
        assert_eq!(found.call.token_hash, [2; 32]);
        store.late_call_delivered(person, "call.1").await.unwrap();
        store.expect(&call).await.unwrap();
        let found = store.late_call("call.1").await.unwrap().unwrap();
        assert_eq!(found.state, LateState::Delivered);
        assert_eq!(found.call.token_hash, [2; 32], "what came is not expected again");
        assert_eq!(store.late_call("call.2").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn one_of_all_processes_starts_a_runner_and_one_ends_it() {
    with_store(async |world| {
        let store = &world.store;
        let (long, none) = (Duration::from_mins(1), Duration::ZERO);
        let starts = async |again| {
            let tries = join_all((0..8).map(|_| store.may_start("uid", again))).await;
            tries.into_iter().map(Result::unwrap).filter(|won| *won).count()
        };
        let stops = async |idle, again| {
            let tries = join_all((0..8).map(|_| store.may_stop("uid", idle, again))).await;
            tries.into_iter().map(Result::unwrap).filter(|won| *won).count()
        };
        assert_eq!(stops(long, long).await, 0, "who was never heard of was used now");
        assert_eq!(starts(long).await, 1);
        assert_eq!(starts(long).await, 0, "somebody does it");
        assert!(store.may_start("uid", none).await.unwrap(), "who did it may have died");
        assert_eq!(stops(long, long).await, 0, "it was used");
        assert_eq!(stops(none, long).await, 1);
        assert_eq!(stops(none, long).await, 0);
        assert_eq!(starts(long).await, 1, "it is wanted again");
        store.used(&["uid".into(), "other".into(), "uid".into()]).await.unwrap();
        assert!(!store.may_stop("other", long, long).await.unwrap());
    })
    .await;
}
