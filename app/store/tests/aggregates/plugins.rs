//! Revisions of plugins, calls whose results come later, and who starts and ends runners.

use crate::{
    support::{World, with_store},
    talk,
};
use bytes::Bytes;
use famulus_core::{
    Clock as _,
    clock::SystemClock,
    plugin::{Description, InstalledPlugin, LateCall, LateCalls as _, Revisions as _},
    runner::RunnerDemand as _,
};
use famulus_store::{BundleError, Describe, LateState, MAIN_AGENT, Retention, Store};
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
        contents: None,
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
        let describe =
            async |plugin: &str| store.describe(&name, &describing(plugin)).await.unwrap();
        assert_eq!(describe("weather").await, Describe::BundleNeeded);
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
        assert_eq!(describe("weather").await, Describe::BundleKept);
        assert_eq!(describe("evil").await, Describe::Foreign);
        assert!(store.bundle("evil", &name).await.unwrap().is_none());
        assert_eq!(store.described(&name).await.unwrap().unwrap().plugin, "weather");
    })
    .await;
}

/// A revision of `plugin`, whole, that was built so many days ago.
async fn built(world: &World, plugin: &str, number: u8, days_ago: i32) -> String {
    let bytes = [plugin.as_bytes(), &[number]].concat();
    let name = digest(&bytes);
    world.store.describe(&name, &describing(plugin)).await.unwrap();
    keep(&world.store, plugin, &name, &bytes).await.unwrap();
    for statement in [
        "update plugin_revision set described_at = now() - make_interval(days => $1) where digest = $2",
        "update plugin_bundle_piece set created_at = now() - make_interval(days => $1)
         where bundle = (select bundle from plugin_revision where digest = $2)",
    ] {
        sqlx::query(statement).bind(days_ago).bind(&name).execute(&world.admin).await.unwrap();
    }
    name
}

async fn kept(world: &World, plugin: &str, digests: &[&String]) -> Vec<bool> {
    let mut kept = Vec::new();
    for digest in digests {
        kept.push(world.store.bundle(plugin, digest).await.unwrap().is_some());
    }
    kept
}

#[tokio::test]
async fn bundles_go_but_for_those_in_use_and_the_last_few() {
    with_store(async |world| {
        let now = SystemClock.now();
        let mut of = Vec::new();
        for (number, days) in [(0, 90), (1, 80), (2, 70), (3, 60), (4, 50)] {
            of.push(built(world, "weather", number, days).await);
        }
        let other = built(world, "mail", 0, 90).await;
        let installed = |names: &[&str]| -> Vec<InstalledPlugin> {
            let in_use = vec![of[0].clone()];
            let plugin =
                |name: &&str| InstalledPlugin { name: (*name).into(), in_use: in_use.clone() };
            names.iter().map(plugin).collect()
        };
        let forget = async |installed: &[InstalledPlugin], keep| {
            world.store.forget_revisions(now, installed, keep).await.unwrap()
        };
        let all: Vec<&String> = of.iter().collect();
        assert_eq!(forget(&installed(&["weather", "mail"]), 5).await, 0);
        // The oldest serves, or is pinned.
        assert_eq!(forget(&installed(&["weather", "mail"]), 2).await, 2);
        assert_eq!(kept(world, "weather", &all).await, [true, false, false, true, true]);
        assert_eq!(kept(world, "mail", &[&other]).await, [true], "each plugin has its own few");
        let swept = world.store.sweep_old(now, &Retention::default()).await.unwrap();
        assert_eq!((swept.partial_bundles, pieces(world).await), (2, 4));

        // One that is built again is among the last.
        assert_eq!(built(world, "weather", 1, 2).await, of[1]);
        assert_eq!(forget(&installed(&["weather", "mail"]), 1).await, 2);
        assert_eq!(kept(world, "weather", &all).await, [true, true, false, false, false]);
        // Nor does one go that was built just now.
        built(world, "weather", 2, 0).await;
        built(world, "weather", 3, 0).await;
        assert_eq!(forget(&installed(&["weather", "mail"]), 1).await, 1, "but the one of before");
    })
    .await;
}

#[tokio::test]
async fn the_bundles_of_a_plugin_that_is_gone_stay_for_a_month_from_when_it_is_missed() {
    with_store(async |world| {
        let name = built(world, "weather", 0, 400).await;
        let there = [InstalledPlugin { name: "weather".into(), in_use: Vec::new() }];
        let begun = SystemClock.now();
        let look = async |day: i64, installed: &[InstalledPlugin]| {
            let now = begun + SignedDuration::from_hours(24 * day);
            world.store.forget_revisions(now, installed, 1).await.unwrap()
        };
        // However old the database is: the month begins when it is missed.
        assert_eq!(look(0, &[]).await, 0);
        assert_eq!(look(29, &[]).await, 0);
        // It came back, and goes again.
        assert_eq!(look(29, &there).await, 0);
        assert_eq!(look(31, &[]).await, 0);
        assert_eq!(look(60, &[]).await, 0);
        assert_eq!(kept(world, "weather", &[&name]).await, [true]);
        assert_eq!(look(62, &[]).await, 1);
        assert_eq!(kept(world, "weather", &[&name]).await, [false]);
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
