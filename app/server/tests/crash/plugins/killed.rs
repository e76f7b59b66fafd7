//! Sandboxes that are killed, from outside and from inside, in each step of a plugin's life: what they were at
//! fails, says so, and can be done again. The assistant goes on.

use super::{
    found,
    owner::{LOOK, Owner, PATIENCE, PLUGIN, files, permit},
    sandboxes::{self, Part, Process, Step},
};
use crate::{
    alone, server,
    support::world::{Settings, World},
};
use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::{fs, path::Path, path::PathBuf};
use tokio::time::{Instant, sleep};

/// Keeps revisions from being kept.
const HOLD: &str = "lock table plugin_revision in access exclusive mode";

/// It lasts until the test puts a file where only it and the plugin's user can.
const INIT: &str = "until [ -e \"$HOME/go\" ]; do sleep 0.1; done";
const ROLL: &str = "echo says four";
/// It notes that it began, and lasts.
const WAIT: &str = "echo begun >> notes; sleep 600";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_is_killed_fails_alone_and_can_be_made_again() -> Result<()> {
    let _turn = alone().await;
    let server = server();
    let (launcher, runner) = (dies(&server, Part::Launcher), dies(&server, Part::Runner));
    tokio::try_join!(Box::pin(launcher), Box::pin(runner)).map(|_| ())
}

async fn dies(server: &str, part: Part) -> Result<()> {
    let data = tempfile::tempdir()?;
    let settings = Settings { plugins: Some(data.path().to_owned()), ..Settings::new(server) };
    let lived = World::run(settings, async |world| {
        world.fleet.start(0).await?;
        let killed = Killed { world, owner: Owner::of(world).await?, data: data.path(), part };
        killed.in_each_step().await
    });
    lived.await.with_context(|| format!("{part:?}"))
}

struct Killed<'a> {
    world: &'a World,
    owner: Owner<'a>,
    data: &'a Path,
    /// Whose death it is.
    part: Part,
}

impl Killed<'_> {
    async fn in_each_step(&self) -> Result<()> {
        self.while_it_is_fetched().await.context("while it is fetched")?;
        self.while_it_is_built().await.context("while it is built")?;
        self.while_it_sleeps().await.context("while it serves")?;
        self.while_it_is_called().await.context("while it is called")?;
        self.good(Method::DELETE, "", None).await?;
        self.is_gone().await?;
        self.world.fleet.end(0).await?;
        // What a launcher that was killed left in the kernel goes with the next start.
        self.world.fleet.start(0).await?;
        self.world.fleet.end(0).await?;
        sandboxes::none_left(self.data).await
    }

    /// What it is cannot be kept before the sandbox is dead.
    async fn while_it_is_fetched(&self) -> Result<()> {
        let mut held = self.world.database.admin.begin().await?;
        sqlx::query(HOLD).execute(&mut *held).await?;
        let killing = async {
            self.kill_when(Step::Bundle, |_| true).await?;
            Ok(held.rollback().await?)
        };
        let ((status, said), ()) = tokio::try_join!(self.install(), killing)?;
        ensure!(!status.is_success() && said.contains("reported nothing"), "{status}: {said}");
        self.is_gone().await?;
        let (status, said) = self.install().await?;
        ensure!(status.is_success(), "it cannot be installed again: {status}: {said}");
        Ok(())
    }

    async fn while_it_is_built(&self) -> Result<()> {
        let revision = self.owner.offered().await?.context("the assistant is gone")?;
        self.good(Method::POST, "/permit", Some(permit(&revision))).await?;
        self.kill_when(Step::Build, |process| process.runs("/init")).await?;
        self.until_noted("failed").await?;
        sandboxes::all_ended(self.data).await?;
        fs::write(self.folder().await?.join("state/cache/home/go"), "")?;
        self.good(Method::POST, "/permit", Some(permit(&revision))).await?;
        self.until_noted("serves").await?;
        self.until_called().await
    }

    async fn while_it_sleeps(&self) -> Result<()> {
        self.kill_when(Step::Serve, |_| true).await?;
        sandboxes::all_ended(self.data).await?;
        self.until_called().await
    }

    /// Nobody knows how far the call came, so that it is not made again.
    async fn while_it_is_called(&self) -> Result<()> {
        let killing = self.kill_when(Step::Serve, |process| process.runs("/wait/run"));
        let (said, ()) = tokio::try_join!(self.owner.run("wait"), killing)?;
        let said = said.context("the assistant is gone")?;
        ensure!(said.contains("\"event\":\"error\""), "{said}");
        self.until_called().await?;
        let notes = self.folder().await?.join("state/active/wait/notes");
        let notes = fs::read_to_string(&notes).with_context(|| notes.display().to_string())?;
        ensure!(notes.lines().count() == 1, "it was called again: {notes}");
        Ok(())
    }

    async fn install(&self) -> Result<(StatusCode, String)> {
        let files = files(INIT, &[("roll", ROLL), ("wait", WAIT)]);
        let source = json!({"source": {"inline": {"files": files}}});
        let answer = self.owner.ask(Method::POST, "", Some(source)).await?;
        answer.context("the assistant is gone")
    }

    async fn good(
        &self,
        method: Method,
        below: &str,
        body: Option<serde_json::Value>,
    ) -> Result<()> {
        let path = format!("/{PLUGIN}{below}");
        ensure!(self.owner.good(method, &path, body).await?, "the assistant is gone");
        Ok(())
    }

    /// Kills one in this step as soon as there is a process like this.
    async fn kill_when(&self, step: Step, is_there: impl Fn(&Process) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let processes = sandboxes::of(self.data)?;
            let victim = processes.iter().find(|process| process.is(self.part, step));
            if let Some(victim) = victim.filter(|_| processes.iter().any(&is_there)) {
                return victim.kill();
            }
            ensure!(begun.elapsed() < PATIENCE, "there is none: {processes:#?}");
            sleep(LOOK).await;
        }
    }

    async fn until_noted(&self, what: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let history = self.owner.history().await?.context("the assistant is gone")?;
            if history.last().is_some_and(|event| event.what.starts_with(what)) {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "{what} is not noted: {history:?}");
            sleep(LOOK).await;
        }
    }

    /// Calls it until it answers: behind a death there is a short pause.
    async fn until_called(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let said = self.owner.run("roll").await?.context("the assistant is gone")?;
            if said.contains("says four") {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "it is not called again: {said}");
            sleep(LOOK * 10).await;
        }
    }

    async fn folder(&self) -> Result<PathBuf> {
        let rows = found::rows(&self.world.database.admin).await?;
        let row = rows.first().context("there is no plugin")?;
        Ok(self.data.join("plugins").join(row.folder()))
    }

    async fn is_gone(&self) -> Result<()> {
        let rows = found::rows(&self.world.database.admin).await?;
        ensure!(rows.is_empty(), "it is left: {rows:#?}");
        let wrong = found::violations(self.data, &rows)?;
        ensure!(wrong.is_empty(), "{wrong:?}");
        sandboxes::all_ended(self.data).await
    }
}
