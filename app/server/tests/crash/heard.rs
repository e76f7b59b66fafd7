//! As `chats`, on Signal, which tells nothing twice: people write again what a process took along as it
//! died, and everything else is answered once.

use crate::{
    alone,
    matrix::{AT_ONCE, Case, Fate, reborn},
    server,
    support::{
        chats::Guest,
        checker::Faults,
        platforms::Chat,
        script::Script,
        world::{Settings, World},
    },
};
use anyhow::{Result, ensure};
use futures::{StreamExt, stream};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// On the way of a message in and of an answer out, and the visit that is meant: of deliveries the first
/// is that of a code, and the second that of a reply.
const POINTS: [(&str, u64); 8] = [
    ("arrival.keep", 1),
    ("arrival.keep", 2),
    ("arrival.settle", 1),
    ("pairing.ask", 1),
    ("pairing.let_in", 1),
    ("tell.commit", 1),
    ("delivery.send", 1),
    ("delivery.send", 2),
];
const GUEST: Chat = Chat::Signal(7_001);
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_between_signal_and_a_turn_may_be_the_last() -> Result<()> {
    let _turn = alone().await;
    let server = server()?;
    let cases = POINTS.iter().flat_map(|(point, visit)| {
        let side = |side| Case { point, side, visit: *visit, fate: Fate::Dies };
        ["before", "after"].map(side)
    });
    let outcomes = stream::iter(cases)
        .map(|case| {
            let settings = Settings { max_attempts: 1_000, chats: true, ..Settings::new(&server) };
            async move {
                let held = World::run(settings, async |world| {
                    one_case(world, case).await?;
                    world.check(Faults::Deaths).await
                });
                held.await.err().map(|error| format!("{}: {error:#}", case.plan()))
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect::<Vec<_>>()
        .await;
    ensure!(outcomes.is_empty(), "{} cases failed:\n{}", outcomes.len(), outcomes.join("\n\n"));
    Ok(())
}

async fn one_case(world: &World, case: Case) -> Result<()> {
    world.fleet.start_with(0, &[("FAMULUS_CRASH", &case.plan())]).await?;
    let person = world.person().await?;
    let talking = async {
        let guest = Guest::let_in(world, &person, GUEST).await?;
        is_received(&guest, &Script { book: true, ..Script::default() }).await?;
        is_received(&guest, &Script::default()).await
    };
    tokio::try_join!(talking, reborn(world))?;
    world.settle(PATIENCE).await
}

/// Writes it until it is received: again where a process took it along, and never otherwise.
async fn is_received(guest: &Guest<'_>, script: &Script) -> Result<()> {
    let begun = Instant::now();
    let (mut written, mut at) = (guest.write(script), Instant::now());
    while guest.world.missing(std::slice::from_ref(&written)).await? > 0 {
        ensure!(begun.elapsed() < PATIENCE, "message {} was not received", written.number);
        if guest.is_to_write_again(written.told, at).await?
            && guest.world.missing(std::slice::from_ref(&written)).await? > 0
        {
            (written, at) = (guest.write(script), Instant::now());
        }
        sleep(LOOK).await;
    }
    Ok(())
}
