//! Random deaths: processes killed or stopped for longer than their leases, database sessions cut.

use crate::support::{chats::Guest, platforms::Chat, seed::Seed, workload::chatter, world::World};
use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use rustix::process::Signal;
use std::{ops::Range, pin::pin, time::Duration};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Everything that was begun ends in less once nothing dies any more.
const PATIENCE: Duration = Duration::from_mins(2);

const LOOK: Duration = Duration::from_millis(1);

/// How a storm blows.
#[derive(Clone, Debug)]
pub(crate) struct Storm {
    /// Processes that are killed; whatever else happens comes on top.
    pub(crate) kills: u32,
    /// Processes at the same time.
    pub(crate) processes: usize,
    /// Milliseconds between two.
    pub(crate) gap: Range<u64>,
    /// People on chat platforms, by turns on each.
    pub(crate) guests: u32,
    /// Is told of every hundredth kill.
    pub(crate) tell: fn(u32),
}

/// What a storm did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) killed: u32,
    pub(crate) ended: u32,
    /// Of these, while a process stood still.
    pub(crate) ended_cold: u32,
    pub(crate) cut: u32,
    pub(crate) frozen: u32,
}

impl Storm {
    /// Blows while `clients` talk, and waits until everything has settled.
    pub(crate) async fn endure(
        &self,
        world: &World,
        clients: usize,
        seed: &mut Seed,
    ) -> Result<Done> {
        for place in 0..self.processes {
            world.fleet.start(place).await?;
        }
        let person = world.person().await?;
        let guests = try_join_all((0..self.guests).map(|n| Guest::let_in(world, &person, chat(n))));
        let guests = guests.await?;
        let (no_more, end) = (CancellationToken::new(), CancellationToken::new());
        let talking = try_join_all(
            (0..clients).map(|_| chatter(world, person.clone(), seed.fork(), no_more.clone())),
        );
        let chatting = guests.iter().map(|guest| guest.chatter(seed.fork(), no_more.clone()));
        let chatting = try_join_all(chatting.collect::<Vec<_>>());
        let blowing = seed.fork();
        let storm = async {
            let done = self.blow(world, blowing).await;
            no_more.cancel();
            done
        };
        let working = async {
            let (_, _, done) = tokio::try_join!(talking, chatting, storm)?;
            world.settle(PATIENCE).await?;
            end.cancel();
            Ok(done)
        };
        match tokio::try_join!(working, person.clone().answer(end.clone())) {
            Ok((done, ())) => Ok(done),
            Err(error) => {
                let sessions = sessions(world).await.unwrap_or_else(|error| format!("{error:#}"));
                Err(error.context(format!("at the failure the sessions were:\n{sessions}")))
            }
        }
    }

    /// Blows until all were killed; afterwards every place has a process again.
    async fn blow(&self, world: &World, mut seed: Seed) -> Result<Done> {
        let mut done = Done::default();
        let mut frozen: Vec<(usize, Instant)> = Vec::new();
        let mut told = 0;
        while done.killed < self.kills {
            let hundreds = done.killed / 100;
            if hundreds > told {
                told = hundreds;
                (self.tell)(hundreds * 100);
            }
            sleep(Duration::from_millis(seed.between(self.gap.start, self.gap.end))).await;
            thaw(world, &mut frozen, Instant::now())?;
            for place in 0..self.processes {
                if let Some(status) = world.fleet.ended(place)? {
                    bail!("a process ended although nobody killed it: {status}");
                }
            }
            let place = seed.below(self.processes);
            match seed.below(20) {
                // Who is killed asleep never wakes, and never meets what was done without it.
                0..14 => {
                    let is_awake = |place: &usize| frozen.iter().all(|(cold, _)| cold != place);
                    let awake: Vec<usize> = (0..self.processes).filter(is_awake).collect();
                    let place = *seed.pick(&awake).context("no process is awake")?;
                    world.fleet.kill(place).await?;
                    world.fleet.start_in_time(place).await?;
                    done.killed += 1;
                }
                // A stop in order, which must be no worse: also of a process that stands still when
                // it is asked, or while another one stands still and holds what it waits for.
                14 => {
                    world.fleet.signal(place, Signal::TERM)?;
                    done.ended_cold += u32::from(!frozen.is_empty());
                    while let Some(next) = frozen.iter().map(|(_, until)| *until).min() {
                        sleep_until(next).await;
                        thaw(world, &mut frozen, next)?;
                    }
                    ends(world, place).await?;
                    world.fleet.start_in_time(place).await?;
                    done.ended += 1;
                }
                15..18 => done.cut += cut(world, &mut seed).await?,
                // At least one process stays awake.
                _ if frozen.len() + 1 < self.processes
                    && frozen.iter().all(|(cold, _)| *cold != place) =>
                {
                    let lease = world.settings.lease.as_millis() as u64;
                    let cold = Duration::from_millis(seed.between(lease + 200, lease * 2));
                    if world.fleet.signal(place, Signal::STOP)? {
                        while !world.fleet.stands_still(place)? {
                            sleep(LOOK).await;
                        }
                        frozen.push((place, Instant::now() + cold));
                        done.frozen += 1;
                    }
                }
                _ => {}
            }
            rescued_in_time(world).await?;
        }
        for (place, _) in frozen {
            world.fleet.signal(place, Signal::CONT)?;
        }
        Ok(done)
    }
}

/// Where a guest writes.
fn chat(number: u32) -> Chat {
    match number % 2 {
        0 => Chat::Telegram(i64::from(7_000 + number)),
        _ => Chat::Signal(7_000 + number),
    }
}

fn thaw(world: &World, frozen: &mut Vec<(usize, Instant)>, now: Instant) -> Result<()> {
    for (place, until) in frozen.iter() {
        if *until <= now {
            world.fleet.signal(*place, Signal::CONT)?;
        }
    }
    frozen.retain(|(_, until)| *until > now);
    Ok(())
}

/// Waits until a process that was asked to has ended. Of one that takes long it is told what the
/// sessions of the database wait for.
async fn ends(world: &World, place: usize) -> Result<()> {
    const LONG: Duration = Duration::from_secs(4);
    let mut ended = pin!(world.fleet.end(place));
    if let Ok(ended) = timeout(LONG, &mut ended).await {
        return ended.map(drop);
    }
    let sessions = sessions(world).await?;
    ended.await.map(drop).with_context(|| format!("after {LONG:?} the sessions were:\n{sessions}"))
}

/// What each session of the database does, and who holds it up.
async fn sessions(world: &World) -> Result<String> {
    let lines: Vec<String> = sqlx::query_scalar(
        "select format('%s %s, %s for %s, waits for %s %s, behind %s: %s', application_name, pid,
                       state, clock_timestamp() - state_change, wait_event_type, wait_event,
                       pg_blocking_pids(pid), regexp_replace(query, '\\s+', ' ', 'g'))
         from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() order by state_change",
    )
    .fetch_all(&world.database.admin)
    .await?;
    Ok(lines.join("\n"))
}

/// Cuts off up to three sessions of the processes; returns whether there was one.
async fn cut(world: &World, seed: &mut Seed) -> Result<u32> {
    let pids: Vec<i32> = sqlx::query_scalar(
        "select pid from pg_stat_activity
         where datname = current_database() and application_name = 'famulus' order by pid",
    )
    .fetch_all(&world.database.admin)
    .await?;
    for _ in 0..=seed.below(3) {
        if let Some(pid) = seed.pick(&pids) {
            sqlx::query("select pg_terminate_backend($1)")
                .bind(pid)
                .execute(&world.database.admin)
                .await?;
        }
    }
    Ok(u32::from(!pids.is_empty()))
}

/// No lease stands for long behind its end while somebody could take it over.
async fn rescued_in_time(world: &World) -> Result<()> {
    let lease = world.settings.lease.as_secs_f64();
    let late: i64 = sqlx::query_scalar(
        "select count(*) from queue_lane
         where state = 'leased' and due_at < now() - $1 * interval '1 second'",
    )
    // All processes may have been starting at once.
    .bind(lease * 2.0 + 8.0)
    .fetch_one(&world.database.admin)
    .await?;
    ensure!(late == 0, "{late} leases ended long ago and nobody took them over");
    Ok(())
}
