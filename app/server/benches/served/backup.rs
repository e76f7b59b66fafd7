//! A backup by the program as it is released, beside `pg_dump` alone, and the way back.
//!
//! `famulus up` on a private Postgres of its own, filled with files as people send them: three in four
//! are random, as pictures and recordings are that were compressed already, the others are text. Each
//! round dumps first with `pg_dump -Fc` into a file, then backs up, encrypted, into a folder beside it.
//! Then people write, for a while and during one backup more. At the end the newest is restored on
//! empty data.

use crate::{
    caller::Caller,
    home::Home,
    latency, load,
    request::Request,
    seed,
    server::{end, pid_of},
};
use age::secrecy::ExposeSecret as _;
use anyhow::{Context, Result, bail, ensure};
use famulus_local::postgres::Running;
use rand::RngExt as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sqlx::{Connection as _, PgConnection};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use uuid::Uuid;

const PIECE: usize = 256 * 1024;
/// Of a file.
const PIECES: usize = 64;
const MIB: u64 = 1024 * 1024;
/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(10);
/// What takes longer is measured once.
const SHORT_MIB: u64 = 2 * 1024;
/// How long people write while no backup is taken.
const QUIET: Duration = Duration::from_secs(30);
const CONVERSATIONS: usize = 100;

/// What a process took, from its start to its end.
struct Took {
    seconds: f64,
    /// The most that was its own at once; what it started does not count.
    peak_mib: f64,
}

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let key = age::x25519::Identity::generate();
    let home = Home::new(request)?;
    fs::write(home.at("key"), key.to_string().expose_secret())?;
    let settings = [
        ("FAMULUS_BACKUP__FOLDER", home.at("backups").into_os_string()),
        ("FAMULUS_BACKUP__RECIPIENT", key.to_public().to_string().into()),
        ("FAMULUS_BACKUP__IDENTITY_FILE", home.at("key").into_os_string()),
    ];
    let home = home.with(settings);
    let (process, _said, address) = home.up().await?;
    let running = Running::find(&home.at("data"))?.context("the private Postgres is not there")?;
    let mut database = PgConnection::connect(&running.url_of(Running::DATABASE)).await?;
    let files = fill(&mut database, request.extent).await?;
    sqlx::query("checkpoint").execute(&mut database).await?;
    database.close().await?;

    let file = home.at("floor.dump");
    let alone = || {
        let seconds = dump(&running, &file)?;
        fs::remove_file(&file)?;
        anyhow::Ok(seconds)
    };
    let backed_up = || watch(home.command(&["backup"]).stdout(Stdio::null()).spawn()?);
    let (mut floors, mut ours) = (Vec::new(), Vec::new());
    let mut load = Value::Null;
    if request.extent <= SHORT_MIB {
        // The first one reads everything, for both.
        alone()?;
        for _ in 0..3 {
            floors.push(alone()?);
            ours.push(backed_up()?);
        }
        let owner = home.owner(address)?;
        load = meanwhile(&home, &owner, &running.url_of(Running::DATABASE)).await?;
    } else {
        // Whatever has to come from the disk comes in ours.
        ours.push(backed_up()?);
        floors.push(alone()?);
    }
    let pid = pid_of(&process)?;
    end(process, pid).await?;
    fs::remove_dir_all(home.at("data"))?;

    let restored = watch(home.command(&["restore", "latest"]).stdout(Stdio::null()).spawn()?)?;
    let all = fs::read_dir(home.at("backups"))?.count();
    let backup_mib = bytes(&home.at("backups"))? as f64 / MIB as f64 / all as f64;
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let peak = ours.iter().map(|took| took.peak_mib).fold(0.0, f64::max);
    let seconds: Vec<f64> = ours.iter().map(|took| took.seconds).collect();
    Ok(json!({
        "files": files,
        "stored_mib": request.extent,
        "backup_mib": backup_mib,
        "rounds": { "floor": floors, "ours": seconds },
        "floor_seconds": median(floors.clone()),
        "seconds": median(seconds.clone()),
        "peak_mib": peak,
        "load": load,
        "restore": { "seconds": restored.seconds, "peak_mib": restored.peak_mib },
    }))
}

/// How soon turns begin, without a backup and during one.
async fn meanwhile(home: &Home, owner: &Caller, url: &str) -> Result<Value> {
    let tables = seed::tables(url)?;
    let conversations = seed::conversations(&tables, CONVERSATIONS).await?;
    // The first of each conversation prepare what the others use.
    load::during(owner, &conversations, tokio::time::sleep(QUIET / 6)).await?;
    let ((), quiet) = load::during(owner, &conversations, tokio::time::sleep(QUIET)).await?;
    seed::all_ended(&tables).await?;
    let backup = home.command(&["backup"]).stdout(Stdio::null()).spawn()?;
    let backup = tokio::task::spawn_blocking(|| watch(backup));
    let (took, sent) = load::during(owner, &conversations, backup).await?;
    seed::all_ended(&tables).await?;
    Ok(json!({
        "quiet": latency::report(load::begun(&tables, &quiet).await?),
        "begun": latency::report(load::begun(&tables, &sent).await?),
        "seconds": took??.seconds,
    }))
}

/// Stores so many MiB of files; how many files that is.
async fn fill(database: &mut PgConnection, mib: u64) -> Result<u64> {
    let owner: Uuid = sqlx::query_scalar("select id from person where role = 'owner'")
        .fetch_one(&mut *database)
        .await?;
    let files = (mib * MIB).div_ceil((PIECE * PIECES) as u64);
    let mut random = rand::rng();
    for file in 0..files {
        let mut content = vec![0_u8; PIECE * PIECES];
        random.fill(&mut content[..]);
        if file % 4 == 0 {
            const WORDS: [&[u8]; 8] =
                [b"the ", b"tea ", b"was ", b"cold ", b"when ", b"she ", b"came ", b"back "];
            let mut text = Vec::with_capacity(content.len() + 8);
            let mut chosen = content.iter();
            while text.len() < content.len() {
                text.extend_from_slice(WORDS[usize::from(*chosen.next().unwrap_or(&0)) % 8]);
            }
            text.truncate(content.len());
            content = text;
        }
        let id = Uuid::now_v7();
        let mut transaction = database.begin().await?;
        sqlx::query(
            "insert into blob (id, person_id, sha256, mime, size, state)
             values ($1, $2, $3, 'application/octet-stream', $4, 'whole')",
        )
        .bind(id)
        .bind(owner)
        .bind(Sha256::digest(&content).as_slice())
        .bind(content.len() as i64)
        .execute(&mut *transaction)
        .await?;
        for (number, piece) in content.chunks(PIECE).enumerate() {
            sqlx::query(
                "insert into blob_piece (blob_id, number, person_id, data) values ($1, $2, $3, $4)",
            )
            .bind(id)
            .bind(number as i32)
            .bind(owner)
            .bind(piece)
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
    }
    Ok(files)
}

/// `pg_dump` alone, with what it does by itself; the seconds.
fn dump(running: &Running, file: &Path) -> Result<f64> {
    let begun = Instant::now();
    let status = Command::new(running.bin_dir.join("pg_dump"))
        .args(["--format=custom", "--no-password", "--file"])
        .arg(file)
        .env("PGHOST", &running.socket_dir)
        .env("PGUSER", Running::USER)
        .env("PGDATABASE", Running::DATABASE)
        .status()
        .context("pg_dump cannot be started")?;
    ensure!(status.success(), "pg_dump ended with {status}");
    Ok(begun.elapsed().as_secs_f64())
}

/// Looks at a process until it ends.
fn watch(mut process: Child) -> Result<Took> {
    let begun = Instant::now();
    let status = format!("/proc/{}/status", process.id());
    let mut peak = 0;
    loop {
        // Of one that has ended there is nothing to see.
        if let Ok(text) = fs::read_to_string(&status) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or(0));
        }
        if let Some(ended) = process.try_wait()? {
            ensure!(ended.success(), "it ended with {ended}");
            break;
        }
        thread::sleep(LOOK);
    }
    if peak == 0 {
        bail!("nothing was seen of its memory");
    }
    Ok(Took { seconds: begun.elapsed().as_secs_f64(), peak_mib: peak as f64 / 1024.0 })
}

/// Of all files in the folders of a folder.
fn bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        sum += if data.is_dir() { bytes(&entry.path())? } else { data.len() };
    }
    Ok(sum)
}
