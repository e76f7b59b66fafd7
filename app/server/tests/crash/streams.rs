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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_holds_what_the_transcript_holds() -> Result<()> {
    watched(Trials { rounds: 10, viewers: 4, processes: 3 }).await
}

/// The benchmark `s3` watches 1,000 streams.
mod soak {
    use crate::support::streams::Trials;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn viewers_of_a_hundred_rounds_hold_what_the_transcript_holds() -> anyhow::Result<()> {
        super::watched(Trials { rounds: 100, viewers: 4, processes: 3 }).await
    }
}

async fn watched(trials: Trials) -> Result<()> {
    let _turn = alone().await;
    let seed = fresh_seed("streams");
    let settings =
        Settings { max_attempts: 1_000, pace: Duration::from_millis(8), ..Settings::new(server()) };
    World::run(settings, async |world| {
        let connected = streams::run(world, trials, seed).await?;
        eprintln!("streams: {connected} connections");
        world.settle(Duration::from_secs(30)).await?;
        world.check(Faults::Deaths).await
    })
    .await
}
