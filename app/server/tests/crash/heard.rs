//! As `chats`, on Signal, which tells nothing twice: people write again what a process took along as it
//! died, and everything else is answered once.

use crate::{
    chats::each_holds,
    matrix::{Case, Fate, reborn},
    support::{chats::Guest, platforms::Chat, script::Script, world::World},
};
use anyhow::{Result, ensure};
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
    each_holds(&POINTS, Fate::Dies, one_case).await
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
        // It may have been stored just before the process that had it was gone.
        if guest.is_to_write_again(written.told, at).await?
            && guest.world.missing(std::slice::from_ref(&written)).await? > 0
        {
            (written, at) = (guest.write(script), Instant::now());
        }
        sleep(LOOK).await;
    }
    Ok(())
}
