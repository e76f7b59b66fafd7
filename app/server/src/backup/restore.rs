//! `famulus restore`: a database is filled beside the one in use, and takes its name when it is sound.
//!
//! ```text
//! famulus_restoring ─► filled ─► migrated ─► sound ─► held back ─┐ one statement
//! famulus ───────────────────────────────────────────────────────┴─► famulus_before_…  ─► answered? gone
//! ```
//!
//! Until the names change, the database in use is not touched; afterwards it is there under its other
//! name until the new one has answered.

use super::{
    drill::{checked, sound},
    elsewhere, held,
    home::{Opened, Ours},
    machine,
    target::Target,
    which,
};
use crate::{args::RestoreArgs, paths::Paths, say, token};
use anyhow::Context;
use famulus_backup::{
    backups::Backups,
    manifest::{Holds, Manifest},
    restore as parts,
};
use famulus_core::{Clock, clock::SystemClock};
use famulus_lifecycle::Signals;
use famulus_local::postgres::Running;
use famulus_store::{Connect, HeldBack, Installation, Report, ReportKind, Store};
use std::{
    fs::OpenOptions,
    io::{self, BufRead, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use tokio_util::sync::CancellationToken;

/// Where it is filled.
const RESTORING: &str = "famulus_restoring";
/// What has to be typed.
const WORD: &str = "replace";

/// `famulus restore …`.
pub async fn restore(
    wanted: RestoreArgs,
    file: Option<PathBuf>,
    places: Paths,
) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("signals cannot be received")?;
    let which = which(&wanted.backup, wanted.at)?;
    let (opened, _telemetry) = Opened::load(file, places)?;
    if opened.database.url.is_some() {
        return Box::pin(elsewhere::restore(&wanted, &which, &opened, &mut signals)).await;
    }
    anyhow::ensure!(!wanted.wait, "--wait is for a database that is named by DATABASE_URL");
    let data_dir = &opened.home.data_dir;
    anyhow::ensure!(
        Running::find(data_dir)?.is_none(),
        "famulus is running on {}; stop it, then restore",
        data_dir.display()
    );
    let backups = opened.home.backups.clone();
    any(&backups).await?;
    let ours = Ours::start(&opened.database, data_dir).await?;
    let work = async {
        let there = famulus_store::installation(&connect(&ours, Running::DATABASE)).await?;
        let (name, _) = backups.find(&which, there.map(|there| there.owner.0)).await?;
        let manifest = checked(&backups, &name).await?;
        allow(there, &name, data_dir, wanted.replace)?;
        let held = fill(&opened, &backups, &name, &manifest, &ours).await?;
        let plugins = famulus_store::plugins_there(&connect(&ours, RESTORING)).await?;
        anyhow::Ok((name, manifest, held, plugins))
    };
    let filled = tokio::select! {
        filled = Box::pin(work) => filled,
        _signal = signals.wait_for_signal() => {
            Err(anyhow::anyhow!("stopped before the backup was restored; the database is as it was"))
        }
    };
    let done = match filled {
        // No signal ends this half way.
        Ok(filled) => put_in_place(&ours, &filled.1).await.map(|()| filled),
        Err(error) => Err(error),
    };
    ours.stop().await;
    let (name, manifest, held, plugins) = done?;
    tell(&name, &manifest, held);
    give_back_files(&opened, &backups, &name, &manifest).await?;
    let channels = held::give_back(&opened.home, &backups, &name, &manifest).await;
    machine::give_back(&opened.home, &backups, &name, &manifest, &plugins).await?;
    channels
}

/// Says so where there is none.
pub(super) async fn any(backups: &Backups) -> anyhow::Result<()> {
    anyhow::ensure!(
        !backups.list().await?.is_empty(),
        "there is no backup in {}; name where they are with `backup.folder` or `backup.s3`",
        backups.place().display()
    );
    Ok(())
}

fn connect(ours: &Ours, database: &str) -> Connect {
    ours.target(database).connect()
}

/// Nothing is replaced unless somebody wants it, and says so twice.
fn allow(
    there: Option<Installation>,
    name: &str,
    data_dir: &Path,
    replace: bool,
) -> anyhow::Result<()> {
    if there.is_none() {
        return Ok(());
    }
    let data_dir = data_dir.display();
    anyhow::ensure!(
        replace,
        "the database in {data_dir} holds an installation already; `famulus restore {name} --replace` \
         puts the backup in its place, and what was said since is lost then"
    );
    say::line(&format!(
        "The database in {data_dir} is replaced by {name}; what was said since is lost.\n\
         Type `{WORD}` to go on:"
    ));
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed).context("standard input cannot be read")?;
    anyhow::ensure!(typed.trim() == WORD, "`{WORD}` was not typed; nothing was changed");
    Ok(())
}

/// Fills a database of its own. One that fails stays until the next restore, and is nobody's.
async fn fill(
    opened: &Opened,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
    ours: &Ours,
) -> anyhow::Result<HeldBack> {
    let identities = opened.home.identities()?;
    ours.postgres.run("postgres", &format!("drop database if exists {RESTORING}")).await?;
    ours.postgres.run("postgres", &format!("create database {RESTORING}")).await?;
    let filled = async {
        let target = ours.target(RESTORING);
        parts::database(backups, name, manifest, identities, &target.server()?).await?;
        sound(&target, name).await?;
        hold_back(&target, name).await
    };
    let filled = filled.await;
    if filled.is_err() {
        ours.postgres
            .run("postgres", &format!("drop database if exists {RESTORING} with (force)"))
            .await?;
    }
    filled
}

/// What a restored database must not do again.
pub(super) async fn hold_back(target: &Target, name: &str) -> anyhow::Result<HeldBack> {
    let (store, _nobody_works) = Store::connect(target.connect(), CancellationToken::new()).await?;
    let held = store.hold_back(SystemClock.now()).await;
    store.close().await;
    let held = held?;
    // The last that is done, and what somebody who waits looks for.
    let report = Report {
        kind: ReportKind::Restored,
        backup: Some(name.to_owned()),
        at: SystemClock.now(),
        reason: Some(in_words(name, held)),
    };
    famulus_store::report_backup(&target.connect(), &report).await?;
    Ok(held)
}

/// For the owner, who may not have been there.
fn in_words(name: &str, held: HeldBack) -> String {
    let HeldBack { messages, slots, turns } = held;
    format!(
        "This assistant was restored from the backup {name}; what was said since then is lost. On \
         their way out were {messages} messages: they may have been sent since, and are not sent \
         again unless you say so (GET /v1/outbox?state=unknown, POST /v1/outbox/ID/retry). Of \
         schedules {slots} slots passed since, and count as missed. Turns that had not ended and go \
         on: {turns}."
    )
}

/// Changes the names, and lets the old database go when the new one answers.
async fn put_in_place(ours: &Ours, manifest: &Manifest) -> anyhow::Result<()> {
    let database = Running::DATABASE;
    let before = format!("famulus_before_{}", SystemClock.now().as_second());
    // Statements that are sent together happen together.
    let rename = |from: &str, kept: &str| {
        format!(
            "alter database {database} rename to {kept}; alter database {from} rename to {database}"
        )
    };
    ours.postgres.run("postgres", &rename(RESTORING, &before)).await?;
    let answer = famulus_store::installation(&connect(ours, database)).await;
    let answered = match &answer {
        Ok(Some(found)) => found.owner.0 == manifest.installation,
        Ok(None) | Err(_) => false,
    };
    if !answered {
        ours.postgres.run("postgres", &rename(&before, RESTORING)).await?;
        answer?;
        anyhow::bail!("the restored database does not answer as it should; the old one is back")
    }
    Ok(ours.postgres.run("postgres", &format!("drop database {before}")).await?)
}

pub(super) fn tell(name: &str, manifest: &Manifest, held: HeldBack) {
    let HeldBack { messages, slots, turns } = held;
    say::line(&format!("{name} is restored: everything up to {}.", manifest.begun));
    let unless = "unless you say so (`GET /v1/outbox`, `POST /v1/outbox/ID/retry`)";
    say::line(&match messages {
        0 => "  Nothing was on its way out then.".to_owned(),
        1 => format!(
            "  A message was on its way out then. It may have been sent since, and is not sent\n  again {unless}."
        ),
        more => format!(
            "  {more} messages were on their way out then. They may have been sent since, and are not \
             sent\n  again {unless}."
        ),
    });
    match slots {
        0 => {}
        1 => say::line(
            "  A slot of a schedule passed since then. It may have fired, and counts as missed.",
        ),
        more => say::line(&format!(
            "  {more} slots of schedules passed since then. They may have fired, and count as missed."
        )),
    }
    match turns {
        0 => {}
        1 => say::line("  A turn had not ended then. It goes on when Famulus starts."),
        more => {
            say::line(&format!(
                "  {more} turns had not ended then. They go on when Famulus starts."
            ));
        }
    }
    for words in &manifest.leaves_out {
        say::line(&format!("  It did not hold {words}."));
    }
}

/// The token, unless there is one; and the configuration, beside the one in force.
async fn give_back_files(
    opened: &Opened,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
) -> anyhow::Result<()> {
    let identities = opened.home.identities()?;
    let read = |holds| parts::small(backups, name, manifest, holds, identities.clone());
    let home = &opened.home;
    let token = token::path(&home.data_dir);
    if let Some(bytes) = read(Holds::Token).await?
        && !token.exists()
    {
        write(&token, &bytes)?;
        say::line(&format!("  The owner's token is back in {}.", token.display()));
    }
    if let Some(bytes) = read(Holds::Configuration).await? {
        let in_force = home.config_file.as_ref().and_then(|path| std::fs::read(path).ok());
        if in_force.as_deref() != Some(&bytes) {
            let path = home.data_dir.join("config.restored.toml");
            write(&path, &bytes)?;
            say::line(&format!(
                "  The configuration of then is in {}; the one in force is as it was.",
                path.display()
            ));
        }
    }
    Ok(())
}

/// For its owner's eyes alone.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .with_context(|| format!("{} cannot be written; check the folder", path.display()))
}
