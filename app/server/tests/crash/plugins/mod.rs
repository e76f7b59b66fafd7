//! The life of a plugin on one machine, with the product's own sandboxes: whatever dies, and whenever, each
//! step is wholly done or not at all, and nothing is left over.
//!
//! ```text
//! owner ─► famulus-harness ─► launcher ─► sandbox
//!   │           │ dies           │ dies      │ dies
//!   └─ life     └─ rows, folders └─ processes and their mounts ─► found, sandboxes
//! ```

mod found;
mod killed;
mod life;
mod owner;
mod sandboxes;

use crate::{
    alone, fresh_seed,
    matrix::AT_ONCE,
    server,
    support::world::{Settings, World},
};
use anyhow::{Result, ensure};
use futures::{StreamExt, stream};
use life::{Deaths, Life};

/// The points that only the life of a plugin reaches, in its order.
pub(crate) const POINTS: [&str; 13] = [
    "plugin.begin",
    "plugin.prepare",
    "plugin.bundle",
    "plugin.offer",
    "plugin.permit",
    "plugin.build",
    "plugin.serves",
    "plugin.configure",
    "plugin.configured",
    "plugin.failed",
    "plugin.roll_back",
    "plugin.remove",
    "plugin.clear",
];

/// One life for each point: the process dies before it, and the next one after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_in_the_life_of_a_plugin_may_be_the_last() -> Result<()> {
    let both = |point| ["before", "after"].map(|side| format!("{point}:{side}:1"));
    all_live(POINTS.map(|point| Deaths::at(both(point)))).await
}

mod soak {
    use super::{AT_ONCE, Deaths, Result, all_live, fresh_seed};

    /// An update goes where an installation went before.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_second_visit_in_the_life_of_a_plugin_may_be_the_last() -> Result<()> {
        let again = ["prepare", "bundle", "offer", "permit", "build", "serves"];
        let mut deaths = Vec::new();
        for point in again {
            for side in ["before", "after"] {
                let plan = |visit| Deaths::at([format!("plugin.{point}:{side}:{visit}")]);
                deaths.extend([2, 3].map(plan));
            }
        }
        all_live(deaths).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_plugin_lives_through_deaths_at_any_moment() -> Result<()> {
        let mut seed = fresh_seed("deaths in the life of a plugin");
        let lives: Vec<Deaths> =
            (0..AT_ONCE * 4).map(|_| Deaths::Anytime { seed: seed.fork(), kills: 12 }).collect();
        all_live(lives).await
    }
}

async fn all_live(deaths: impl IntoIterator<Item = Deaths>) -> Result<()> {
    let _turn = alone().await;
    let server = server();
    let outcomes = stream::iter(deaths)
        .map(|deaths| {
            let (server, name) = (&server, format!("{deaths:?}"));
            async move {
                let lived = Box::pin(live(server, deaths)).await;
                lived.err().map(|error| format!("{name}: {error:#}"))
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect::<Vec<_>>()
        .await;
    ensure!(outcomes.is_empty(), "{} lives failed:\n{}", outcomes.len(), outcomes.join("\n\n"));
    Ok(())
}

async fn live(server: &str, deaths: Deaths) -> Result<()> {
    let data = tempfile::tempdir()?;
    let settings = Settings { plugins: Some(data.path().to_owned()), ..Settings::new(server) };
    World::run(settings, async |world| Life::begin(world, data.path(), deaths).await?.walk().await)
        .await
}
