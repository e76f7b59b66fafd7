//! Viewers who watch while processes die.

use crate::{
    alone, fresh_seed, server,
    support::{
        checker::Faults,
        streams::{self, Trials},
        world::{Settings, World},
    },
};
use anyhow::Result;
use std::time::Duration;

/// The long run of the benchmark has 1,000 trials.
const TRIALS: Trials = Trials { rounds: 10, viewers: 4, processes: 3 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_holds_what_the_transcript_holds() -> Result<()> {
    let _turn = alone().await;
    let seed = fresh_seed("streams");
    let settings = Settings {
        max_attempts: 1_000,
        pace: Duration::from_millis(8),
        ..Settings::new(server()?)
    };
    World::run(settings, async |world| {
        let connected = streams::run(world, TRIALS, seed).await?;
        eprintln!("streams: {connected} connections");
        world.settle(Duration::from_secs(30)).await?;
        world.check(Faults::Deaths).await
    })
    .await
}
