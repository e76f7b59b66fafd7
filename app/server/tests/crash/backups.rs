//! An installation that things died on is backed up and comes back, row by row.

use crate::{
    alone, fresh_seed, server,
    support::{
        chaos::Storm,
        checker::Faults,
        database::Database,
        world::{Settings, World},
    },
};
use anyhow::{Context, Result, bail, ensure};
use sqlx::{AssertSqlSafe, PgPool};
use std::{collections::BTreeMap, path::Path, process::Stdio, time::Duration};
use tokio::{process::Command, time::sleep};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_backed_up_comes_back_row_by_row() -> Result<()> {
    let _turn = alone().await;
    round_trip(12).await
}

mod soak {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn thirty_installations_come_back_row_by_row() -> anyhow::Result<()> {
        let _turn = super::alone().await;
        for _ in 0..30 {
            super::round_trip(40).await?;
        }
        Ok(())
    }
}

/// Backs an installation up in the middle of work and at rest, and restores both.
async fn round_trip(kills: u32) -> Result<()> {
    let mut seed = fresh_seed("a round trip");
    let settings = Settings { max_attempts: 1_000, chats: true, ..Settings::new(server()) };
    World::run(settings, async |world| {
        let folder = tempfile::tempdir()?;
        let storm = Storm { kills, processes: 3, gap: 150..400, guests: 1, tell: |_| {} };
        let (_, middle) = tokio::try_join!(
            storm.endure(world, 6, &mut seed),
            in_the_middle(&world.database.url, folder.path()),
        )?;
        world.check(Faults::Deaths).await?;
        for place in world.fleet.taken() {
            world.fleet.kill(place).await?;
        }
        let rest = backup(&world.database.url, folder.path()).await?;

        // What is caught in the middle is as sound as the product itself demands of a restore.
        let other = Database::create(&world.settings.server).await?;
        let restored = famulus(&other.url, folder.path(), &["restore", &middle]).await;
        other.remove().await?;
        restored.context("a backup from the middle of work")?;

        let other = Database::create(&world.settings.server).await?;
        let compared = async {
            famulus(&other.url, folder.path(), &["restore", &rest]).await?;
            let (before, after) =
                (contents(&world.database.admin).await?, contents(&other.admin).await?);
            ensure!(before.len() > 20 && before["message"].rows > 0, "{before:?}");
            let differ = before.iter().filter(|(table, was)| after.get(*table) != Some(*was));
            let differ: Vec<_> =
                differ.map(|(table, was)| (table, was, after.get(table))).collect();
            ensure!(differ.is_empty() && before.len() == after.len(), "{differ:?}");
            anyhow::Ok(())
        };
        let compared = compared.await;
        other.remove().await?;
        compared
    })
    .await
}

/// Takes one as soon as there is something, however often its session is cut.
async fn in_the_middle(url: &str, folder: &Path) -> Result<String> {
    let mut failed = anyhow::anyhow!("none was tried");
    for _ in 0..100 {
        match backup(url, folder).await {
            Ok(name) => return Ok(name),
            Err(error) => failed = error,
        }
        sleep(Duration::from_millis(200)).await;
    }
    Err(failed)
}

async fn backup(url: &str, folder: &Path) -> Result<String> {
    let said = famulus(url, folder, &["backup"]).await?;
    Ok(said.split(' ').next().unwrap_or_default().to_owned())
}

/// The program as it is shipped; what it printed.
async fn famulus(url: &str, folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_famulus"))
        .args(arguments)
        .env("DATABASE_URL", url)
        .env_remove("FAMULUS_CONFIG")
        .env("FAMULUS_DATA_DIR", folder.join("data"))
        .env("FAMULUS_BACKUP__FOLDER", folder.join("backups"))
        .stdin(Stdio::null())
        .output()
        .await?;
    if !output.status.success() {
        bail!("famulus {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a table holds.
#[derive(Debug, PartialEq, Eq, sqlx::FromRow)]
struct Contents {
    rows: i64,
    digest: Option<String>,
}

/// Every table and every sequence, but the one that says that a database was restored.
async fn contents(admin: &PgPool) -> Result<BTreeMap<String, Contents>> {
    const ALL: &str = "
        select table_schema || '.' || table_name from information_schema.tables
        where table_schema not in ('pg_catalog', 'information_schema') and table_type = 'BASE TABLE'
            and table_name not in ('backup_report')";
    let tables: Vec<String> = sqlx::query_scalar(ALL).fetch_all(admin).await?;
    let mut all = BTreeMap::new();
    for table in tables {
        let digest = format!(
            "select count(*) as rows, md5(string_agg(md5(t::text), '' order by md5(t::text))) as digest
             from {table} t"
        );
        let contents = sqlx::query_as(AssertSqlSafe(digest)).fetch_one(admin).await?;
        all.insert(table.trim_start_matches("public.").to_owned(), contents);
    }
    let sequences: Contents = sqlx::query_as(
        "select count(*) as rows,
                md5(string_agg(schemaname || sequencename || coalesce(last_value, -1), ','
                               order by schemaname, sequencename)) as digest
         from pg_sequences",
    )
    .fetch_one(admin)
    .await?;
    all.insert("sequences".to_owned(), sequences);
    Ok(all)
}
