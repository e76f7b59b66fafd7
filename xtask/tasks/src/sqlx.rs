//! `cargo xtask sqlx`: the offline query data in `.sqlx`.
//!
//! The query macros write what the database tells them about a query into the folder named by
//! `SQLX_OFFLINE_DIR` when they are expanded with a database at hand. So the crates with queries
//! are checked anew against a migrated scratch database, into an empty folder, and that folder
//! becomes `.sqlx`, or is compared to it. A target folder of its own keeps the ordinary one warm.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use xtask_postgres::scratch::Scratch;
use xtask_shell::workspace::root;
use xtask_shell::{Shell, cargo};

/// The crates that may hold queries.
const CRATES: [&str; 2] = ["famulus-queue", "famulus-store"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail if the committed data are not what the queries and the migrations give
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    let scratch = Scratch::for_tests(shell).await?;
    let done =
        if args.check { check(shell, &scratch).await } else { regenerate(shell, &scratch).await };
    scratch.stop().await?;
    done
}

/// Fails, and names the queries, if `.sqlx` is not fresh.
async fn check(shell: &mut Shell, scratch: &Scratch) -> Result<()> {
    let (fresh, committed) = (prepare(shell, scratch).await?, read(&root().join(".sqlx"))?);
    let mut differing: Vec<&String> = fresh
        .keys()
        .chain(committed.keys())
        .filter(|k| fresh.get(*k) != committed.get(*k))
        .collect();
    differing.sort();
    differing.dedup();
    if differing.is_empty() {
        eprintln!(".sqlx is fresh ({} queries)", fresh.len());
        return Ok(());
    }
    for name in &differing {
        let what = match (fresh.contains_key(*name), committed.contains_key(*name)) {
            (true, true) => "changed",
            (true, false) => "missing",
            (false, _) => "no longer used",
        };
        eprintln!("  .sqlx/{name}: {what}");
    }
    bail!(
        ".sqlx is not fresh ({} files differ); run `cargo xtask sqlx` and commit the result",
        differing.len()
    )
}

async fn regenerate(shell: &mut Shell, scratch: &Scratch) -> Result<()> {
    let (fresh, folder) = (prepare(shell, scratch).await?, root().join(".sqlx"));
    fs::create_dir_all(&folder)?;
    for name in read(&folder)?.keys().filter(|name| !fresh.contains_key(*name)) {
        fs::remove_file(folder.join(name))?;
    }
    for (name, data) in &fresh {
        fs::write(folder.join(name), data)?;
    }
    eprintln!(".sqlx holds {} queries", fresh.len());
    Ok(())
}

type QueryData = BTreeMap<String, Vec<u8>>;

async fn prepare(shell: &mut Shell, scratch: &Scratch) -> Result<QueryData> {
    let target = root().join("target/sqlx");
    let url = scratch.migrated("queries").await?;
    let folder = tempfile::tempdir()?;
    // A macro that is not expanded again writes nothing.
    let mut clean = cargo(["clean", "--quiet", "--target-dir"]);
    clean.arg(&target).args(packages());
    shell.run(clean).await?;
    // Twice, because a feature may put one query in the place of another.
    for features in [&[][..], &["--all-features"]] {
        let mut expand = cargo(["check", "--quiet", "--all-targets", "--target-dir"]);
        expand
            .arg(&target)
            .args(packages())
            .args(features)
            .env("DATABASE_URL", &url)
            .env("SQLX_OFFLINE", "false")
            .env("SQLX_OFFLINE_DIR", folder.path());
        shell.run(expand).await?;
    }
    read(folder.path())
}

fn packages() -> impl Iterator<Item = &'static str> {
    CRATES.iter().flat_map(|name| ["--package", name])
}

fn read(folder: &Path) -> Result<QueryData> {
    let mut found = QueryData::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("query-") {
            let data =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.insert(name, data);
        }
    }
    Ok(found)
}
