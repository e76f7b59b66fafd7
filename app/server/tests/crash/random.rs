//! Random deaths of processes and of database sessions, in the middle of work.

use crate::{
    alone, fresh_seed, judged, server,
    support::{
        chaos::Storm,
        checker::Faults,
        world::{Settings, World},
    },
};
use anyhow::{Result, bail};
use futures::future::try_join_all;
use std::ops::Range;
use tokio::sync::Barrier;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_deaths_lose_and_double_nothing() -> Result<()> {
    let _turn = alone().await;
    deaths(50, 6, 150..400, &Barrier::new(1)).await
}

mod soak {
    /// What is noticed in scenes that were made for it is noticed in the storm, too.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_storm_notices_each_safety_that_is_taken_out() -> anyhow::Result<()> {
        // Who comes back unfenced ends the turn that another had taken up, and its viewers never hear of it.
        let unfenced = ["is told as", "the viewer holds", "its end was shown as"];
        super::is_noticed("fencing", &unfenced).await?;
        super::is_noticed("deduplication", &["stored as"]).await?;
        super::is_noticed("lease", &["the lease of"]).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_thousand_kills_lose_and_double_nothing() -> anyhow::Result<()> {
        let _turn = super::alone().await;
        // Each waits for its processes now and then, so two fit beside each other.
        for _ in 0..10 {
            let both = super::Barrier::new(2);
            let storm = |_| super::deaths(500, 4, 50..200, &both);
            super::try_join_all((0..2).map(storm)).await?;
        }
        Ok(())
    }
}

/// Wants the checker, or a viewer, to see one of the `signs` of a safety that is not there.
async fn is_noticed(safety: &'static str, signs: &[&str]) -> Result<()> {
    const STORMS: u32 = 10;
    let _turn = alone().await;
    let mut seed = fresh_seed("a storm without a safety");
    let plain = Settings { max_attempts: 1_000, chats: true, ..Settings::new(server()) };
    let settings = Settings { sabotage: Some(safety), ..plain };
    for storm in 1..=STORMS {
        let found = World::run(settings.clone(), async |world| {
            let storm = Storm { kills: 50, processes: 3, gap: 150..400, guests: 1, tell: |_| {} };
            // Work without a safety may end badly, or never. The checker says what is left of it.
            let ended = storm.endure(world, 6, &mut seed).await;
            let mut found = judged(world).await?;
            found.extend(ended.err().map(|error| format!("{error:#}")));
            Ok(found)
        })
        .await?;
        let is_sign = |line: &&String| signs.iter().any(|sign| line.contains(sign));
        if let Some(first) = found.iter().find(is_sign) {
            let first: String = first.chars().take(300).collect();
            eprintln!("without {safety}, storm {storm}: {} violations: {first}", found.len());
            return Ok(());
        }
    }
    bail!("{STORMS} storms without {safety} showed none of {signs:?}")
}

/// `gap` is in milliseconds, between two kills, or what else happens. Storms beside each other are
/// judged when all have ended: to judge one takes minutes, in which nobody of another would be heard.
async fn deaths(kills: u32, clients: usize, gap: Range<u64>, all: &Barrier) -> Result<()> {
    let mut seed = fresh_seed("random deaths");
    let settings = Settings { max_attempts: 1_000_000, chats: true, ..Settings::new(server()) };
    World::run(settings, async |world| {
        let tell = |kills| eprintln!("{kills} kills");
        let storm = Storm { kills, processes: 3, gap, guests: 2, tell };
        let done = storm.endure(world, clients, &mut seed).await?;
        let (sent, written) = (world.log.sent().len(), world.log.written());
        let gone = world.missing(&written).await?;
        let chats = format!("{} from chats, of which {gone} went with a stream", written.len());
        eprintln!("random deaths: {done:?}, {sent} messages, {chats}");
        all.wait().await;
        world.check(Faults::Deaths).await
    })
    .await
}
