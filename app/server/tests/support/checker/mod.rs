//! What must hold when everything has settled, whatever died on the way.
//!
//! One file for each group of invariants. A check reads the tables as the superuser, the log of the
//! clients, and what the counter and the receiver saw; it changes nothing. Every violation is one
//! line that names what it is about.

mod accepted;
mod calls;
mod chats;
mod constraints;
mod deliveries;
mod files;
mod heard;
pub(crate) mod leases;
mod order;
mod queue;
mod schedules;
mod shown;
mod tables;
mod transcript;
pub(crate) mod watched;

use crate::support::world::World;
use anyhow::Result;
use tables::Tables;

/// What was done to the world, so far as it decides what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// Anything may have died.
    Deaths,
    /// Nothing died and no lease ran out: nobody may have taken anything over.
    None,
}

/// All violations; empty when everything is as it must be.
pub(crate) async fn check(world: &World, faults: Faults) -> Result<Vec<String>> {
    let tables = Tables::read(&world.database.admin).await?;
    let mut found = Vec::new();
    accepted::check(world, &tables, &mut found);
    order::check(&tables, &mut found);
    calls::check(world, &tables, &mut found);
    transcript::check(&tables, &mut found);
    schedules::check(world, &tables, &mut found);
    deliveries::check(world, &tables, &mut found);
    chats::check(world, &tables, &mut found);
    queue::check(&tables, &mut found);
    leases::check(&world.database.admin, &mut found).await?;
    shown::check(world, &tables, faults, &mut found).await?;
    files::check(world, &mut found).await?;
    heard::check(world, &tables, &mut found);
    constraints::check(&world.database.admin, &mut found).await?;
    Ok(found)
}
