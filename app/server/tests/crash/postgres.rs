//! Postgres itself is killed in the middle of work, without a warning, and comes back.

use crate::{
    alone, fresh_seed,
    support::{
        chats::Guest,
        checker::Faults,
        platforms::Chat,
        script::Script,
        streams,
        workload::{Person, chatter},
        world::{Settings, World},
    },
};
use anyhow::{Context, Result, ensure};
use famulus_lifecycle::Tasks;
use famulus_local::{
    cache,
    postgres::{self, PrivatePostgres},
};
use futures::future::try_join_all;
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Deaths of the server.
const DEATHS: u32 = 4;
/// More of them, with viewers.
const ROUNDS: u32 = 4;
const PROCESSES: usize = 2;
const CLIENTS: usize = 4;
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_may_die_at_any_time() -> Result<()> {
    let _turn = alone().await;
    // A folder that the server's unprivileged user can reach.
    let folder =
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir()?;
    let data_dir = folder.path().join("data");
    let settings = postgres::Settings {
        tree_dirs: vec![cache::folder(|name| std::env::var_os(name))],
        max_connections: 60,
        ..postgres::Settings::new(&data_dir)
    };
    let tasks = Tasks::new();
    let private = PrivatePostgres::start(settings, &tasks).await?;
    let url = private.url_of("postgres");
    let settings = Settings { max_attempts: 1_000, chats: true, ..Settings::new(url) };
    let outcome = World::run(settings, async |world| survive(world, &data_dir).await).await;
    private.stop().await;
    outcome
}

async fn survive(world: &World, data_dir: &Path) -> Result<()> {
    let mut seed = fresh_seed("deaths of Postgres");
    for place in 0..PROCESSES {
        world.fleet.start(place).await?;
    }
    let person = world.person().await?;
    let chats = [Chat::Telegram(7_001), Chat::Signal(7_001)];
    let guests = try_join_all(chats.map(|chat| Guest::let_in(world, &person, chat))).await?;
    // Whoever hung up while it cannot know whether it still listens would lose what comes next.
    world.platforms.as_ref().context("nobody chats in this world")?.signal.notice_late(true);
    let (no_more, end) = (CancellationToken::new(), CancellationToken::new());
    let _ended = end.clone().drop_guard();
    let chatting = async {
        while !no_more.is_cancelled() {
            for guest in &guests {
                guest.write(&Script::default());
            }
            sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    };
    let talking = try_join_all(
        (0..CLIENTS).map(|_| chatter(world, person.clone(), seed.fork(), no_more.clone())),
    );
    let mut moments = seed.fork();
    let dying = async {
        for _ in 0..DEATHS {
            sleep(Duration::from_millis(moments.between(1_000, 3_000))).await;
            kill_server(data_dir)?;
            until_back(&person).await?;
        }
        no_more.cancel();
        Ok(())
    };
    let working = async {
        tokio::try_join!(talking, chatting, dying)?;
        world.settle(PATIENCE).await?;
        end.cancel();
        Ok(())
    };
    tokio::try_join!(working, person.clone().answer(end.clone()))?;
    ensure!(world.fleet.taken().len() == PROCESSES, "a process did not outlive Postgres");
    for place in 0..PROCESSES {
        ensure!(world.fleet.ended(place)?.is_none(), "a process did not outlive Postgres");
    }
    world.check(Faults::Deaths).await?;
    // Whoever listened lives, so that no stream may have taken anything along.
    let missing = world.missing(&world.log.written()).await?;
    ensure!(missing == 0, "{missing} messages from chats are not stored");

    // Viewers, too: what was shown but never reached the disk is taken back.
    let mut viewers = streams::gather(world, &person, 3).await?;
    for number in 0..ROUNDS {
        streams::round(world, &person, &mut viewers, &mut seed, async |_, _| {
            kill_server(data_dir)?;
            until_back(&person).await
        })
        .await
        .with_context(|| format!("round {number}"))?;
    }
    world.settle(PATIENCE).await?;
    world.check(Faults::Deaths).await
}

/// Kills the postmaster; its children end when they notice.
fn kill_server(data_dir: &Path) -> Result<()> {
    let file = fs::read_to_string(data_dir.join("postgres/postmaster.pid"))?;
    let pid = file.lines().next().and_then(|pid| pid.trim().parse().ok()).and_then(Pid::from_raw);
    Ok(kill_process(pid.context("the server has no pid")?, Signal::KILL)?)
}

/// Waits until a request goes through again.
async fn until_back(person: &Person) -> Result<()> {
    let begun = Instant::now();
    while person.client.get("/v1/conversations").await.is_err() {
        ensure!(begun.elapsed() < PATIENCE, "Postgres did not come back");
    }
    Ok(())
}
