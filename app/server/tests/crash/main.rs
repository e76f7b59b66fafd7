//! Whatever dies, nothing is lost and nothing happens twice.
//!
//! The tests run `famulus-harness`, the assistant with a scripted model and counting tools, against
//! the Postgres that `FAMULUS_TEST_DATABASE_URL` names (and one against a private Postgres that it
//! kills). They take turns: each uses the whole machine.

#![expect(clippy::print_stderr, reason = "a run that failed is had again by its seed")]

mod backups;
mod chats;
mod heard;
mod matrix;
mod plugins;
mod poison;
mod postgres;
mod random;
mod sabotage;
mod streams;
#[path = "../support/mod.rs"]
mod support;

use anyhow::Result;
use famulus_test_database::server;
use std::time::Duration;
use support::{checker::Faults, world::World};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::timeout,
};

/// Held by the test whose turn it is.
async fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

/// Work without a safety may never end, and is not waited for as long.
const ENDLESS: Duration = Duration::from_secs(20);

/// Runs something whole. Without a safety it may fail or never end: then it runs for a while, and
/// what comes of it is for the checker to judge.
async fn goes(world: &World, run: impl Future<Output = Result<()>>) -> Result<()> {
    if world.settings.sabotage.is_none() {
        return run.await;
    }
    drop(timeout(ENDLESS, run).await);
    drop(world.settle(ENDLESS / 3).await);
    Ok(())
}

/// What is wrong behind any deaths; empty when nothing is. Where a safety is out something may still
/// run, and is ended first, so that what is found was not only read in between.
async fn judged(world: &World) -> Result<Vec<String>> {
    if world.settings.sabotage.is_some() {
        for place in world.fleet.taken() {
            world.fleet.kill(place).await?;
        }
    }
    world.violations(Faults::Deaths).await
}

/// A seed that is printed, so that a run can be had again.
fn fresh_seed(test: &str) -> support::seed::Seed {
    let seed: u64 = rand::random();
    eprintln!("{test}: seed {seed}");
    support::seed::Seed::new(seed)
}
