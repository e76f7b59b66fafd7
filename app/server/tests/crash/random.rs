//! Random deaths of processes and of database sessions, in the middle of work.

use crate::{
    alone, fresh_seed, server,
    support::{
        chaos::Storm,
        checker::Faults,
        world::{Settings, World},
    },
};
use anyhow::Result;

const CLIENTS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_deaths_lose_and_double_nothing() -> Result<()> {
    deaths(60).await
}

/// The benchmark `q4` has 10,000.
mod soak {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_thousand_random_deaths_lose_and_double_nothing() -> anyhow::Result<()> {
        super::deaths(1_000).await
    }
}

async fn deaths(kills: u32) -> Result<()> {
    let _turn = alone().await;
    let mut seed = fresh_seed("random deaths");
    let settings = Settings { max_attempts: 1_000, ..Settings::new(server()?) };
    World::run(settings, async |world| {
        let storm = Storm { kills, processes: 3, gap: 150..400, tell: |_| {} };
        let done = storm.endure(world, CLIENTS, &mut seed).await?;
        eprintln!("random deaths: {done:?}, {} messages", world.log.sent().len());
        world.check(Faults::Deaths).await
    })
    .await
}
