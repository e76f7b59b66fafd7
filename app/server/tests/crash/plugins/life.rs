//! A whole life of a plugin, walked by somebody who looks what is there when nobody answered, and goes on.

use super::{
    found,
    owner::{Event, LOOK, Owner, PATIENCE, PLUGIN, files, permit},
    sandboxes,
};
use crate::{
    matrix::died,
    support::{seed::Seed, world::World},
};
use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::json;
use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    time::Duration,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// A revision, by what its tool says.
type Label = &'static str;

/// One whose init script fails.
const BROKEN: Label = "broken";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Install(Label),
    Update(Label),
    Permit(Label),
    Configure,
    RollBack(Label),
    /// With what it says.
    Call(&'static [&'static str]),
    Remove,
}

const LIFE: [Act; 13] = [
    Act::Install("one"),
    Act::Permit("one"),
    Act::Configure,
    Act::Call(&["says one", "20"]),
    Act::Update("two"),
    Act::Permit("two"),
    Act::Call(&["says two", "20"]),
    Act::Update(BROKEN),
    Act::Permit(BROKEN),
    Act::Call(&["says two", "20"]),
    Act::RollBack("one"),
    Act::Call(&["says one", "20"]),
    Act::Remove,
];

/// What is noted of the plugin, and of which revision.
type Note = (&'static str, Option<Label>);

impl Act {
    /// The first by whoever does it, the others by themselves.
    fn notes(self) -> Vec<Note> {
        match self {
            Self::Install(label) | Self::Update(label) => vec![("fetched", Some(label))],
            Self::Permit(BROKEN) => vec![("permitted", Some(BROKEN)), ("failed", Some(BROKEN))],
            Self::Permit(label) => vec![("permitted", Some(label)), ("serves", Some(label))],
            Self::Configure => vec![("configured", None)],
            Self::RollBack(label) => vec![("rolled back", Some(label)), ("serves", Some(label))],
            Self::Call(_) | Self::Remove => Vec::new(),
        }
    }
}

/// When the process dies.
#[derive(Clone, Debug)]
pub(crate) enum Deaths {
    /// At one of these points after the other.
    At(VecDeque<String>),
    Anytime {
        seed: Seed,
        kills: u32,
    },
}

impl Deaths {
    pub(crate) fn at(plans: impl IntoIterator<Item = String>) -> Self {
        Self::At(plans.into_iter().collect())
    }

    /// The point at which the next process is to die.
    fn next_plan(&mut self) -> Option<String> {
        match self {
            Self::At(plans) => plans.pop_front(),
            Self::Anytime { .. } => None,
        }
    }
}

pub(crate) struct Life<'a> {
    world: &'a World,
    data: &'a Path,
    owner: Owner<'a>,
    deaths: Deaths,
    /// The point at which the process that runs is to die.
    plan: Option<String>,
    revisions: BTreeMap<Label, String>,
    /// What was answered, or seen: it stands.
    past: Vec<Note>,
    /// What may have come of what was not answered, or comes by itself.
    next: Vec<Note>,
    /// It may be gone, or is.
    is_removed: bool,
}

impl<'a> Life<'a> {
    pub(crate) async fn begin(
        world: &'a World,
        data: &'a Path,
        mut deaths: Deaths,
    ) -> Result<Self> {
        let plan = deaths.next_plan();
        let variables = plan.as_ref().map(|plan| ("FAMULUS_CRASH", plan.as_str()));
        world.fleet.start_with(0, variables.as_slice()).await?;
        Ok(Self {
            world,
            data,
            owner: Owner::of(world).await?,
            deaths,
            plan,
            revisions: BTreeMap::new(),
            past: Vec::new(),
            next: Vec::new(),
            is_removed: false,
        })
    }

    pub(crate) async fn walk(mut self) -> Result<()> {
        let end = CancellationToken::new();
        let killing = kill(self.world, self.deaths.clone(), end.clone());
        let walking = async {
            for act in LIFE {
                self.take(act).await.with_context(|| format!("{act:?}"))?;
            }
            end.cancel();
            self.is_over().await
        };
        tokio::try_join!(Box::pin(walking), killing).map(|_| ())
    }

    /// Does it until it is done, and waits for what comes of it.
    async fn take(&mut self, act: Act) -> Result<()> {
        self.next = act.notes();
        self.is_removed = act == Act::Remove;
        let mut has_asked = false;
        loop {
            let begun = if has_asked { self.has_begun(act).await? } else { Some(false) };
            let done = match begun {
                None => false,
                Some(true) => true,
                Some(false) => self.ask(act).await?,
            };
            if done {
                break;
            }
            has_asked = true;
            self.reborn().await?;
        }
        if !self.next.is_empty() {
            self.past.push(self.next.remove(0));
        }
        if self.is_removed {
            self.past.clear();
        }
        self.until_noted().await?;
        self.past.append(&mut self.next);
        match act {
            Act::Install(label) | Act::Update(label) => self.learn(label).await?,
            Act::Permit(label) | Act::RollBack(label) if label != BROKEN => {
                self.until_serves(label).await?;
            }
            Act::Permit(_) | Act::RollBack(_) | Act::Configure | Act::Call(_) | Act::Remove => {}
        }
        self.check().await
    }

    /// Whether what was not answered was done; nothing when the process is gone.
    async fn has_begun(&self, act: Act) -> Result<Option<bool>> {
        match act {
            Act::Call(_) => Ok(Some(false)),
            Act::Remove => Ok(self.owner.shown().await?.map(|shown| shown.is_null())),
            Act::Install(_)
            | Act::Update(_)
            | Act::Permit(_)
            | Act::Configure
            | Act::RollBack(_) => {
                let history = self.owner.history().await?;
                Ok(history.map(|history| history.len() > self.past.len()))
            }
        }
    }

    /// Whether it was answered: else the process is gone.
    async fn ask(&self, act: Act) -> Result<bool> {
        let tools = |label| format!("echo says {label}; cat ../config.json");
        let files = |label| {
            let init = if label == BROKEN { "exit 3" } else { "true" };
            files(init, &[("roll", &tools(label))])
        };
        let plugin = |below: &str| format!("/{PLUGIN}{below}");
        match act {
            Act::Install(label) => {
                let source = json!({"source": {"inline": {"files": files(label)}}});
                self.owner.good(Method::POST, "", Some(source)).await
            }
            Act::Update(label) => {
                let files = json!({"files": files(label)});
                self.owner.good(Method::POST, &plugin("/update"), Some(files)).await
            }
            Act::Permit(label) => {
                let revision = self.revisions.get(label).context("it was not offered")?;
                self.owner.good(Method::POST, &plugin("/permit"), Some(permit(revision))).await
            }
            Act::Configure => {
                let value = Some(json!({"value": "20"}));
                self.owner.good(Method::PUT, &plugin("/config/sides"), value).await
            }
            Act::RollBack(_) => {
                self.owner.good(Method::POST, &plugin("/rollback"), Some(json!({}))).await
            }
            Act::Call(words) => {
                let Some(said) = self.owner.run("roll").await? else { return Ok(false) };
                ensure!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
                Ok(true)
            }
            Act::Remove => self.owner.good(Method::DELETE, &plugin(""), None).await,
        }
    }

    async fn until_noted(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.owner.history().await? {
                None => self.reborn().await?,
                Some(history) if history.len() >= self.past.len() + self.next.len() => {
                    return Ok(());
                }
                Some(history) => {
                    ensure!(begun.elapsed() < PATIENCE, "it ends with {:?}", history.last());
                    sleep(LOOK).await;
                }
            }
        }
    }

    /// Keeps which revision is offered.
    async fn learn(&mut self, label: Label) -> Result<()> {
        loop {
            if let Some(revision) = self.owner.offered().await? {
                self.revisions.insert(label, revision);
                return Ok(());
            }
            self.reborn().await?;
        }
    }

    /// Waits until calls go to a revision.
    async fn until_serves(&mut self, label: Label) -> Result<()> {
        let revision = self.revisions.get(label).cloned().context("it was not offered")?;
        let begun = Instant::now();
        loop {
            match self.owner.shown().await? {
                None => self.reborn().await?,
                Some(shown) if shown["revision"] == revision => return Ok(()),
                Some(shown) => {
                    ensure!(begun.elapsed() < PATIENCE, "it does not serve: {shown}");
                    sleep(LOOK).await;
                }
            }
        }
    }

    /// Waits for the death of the process, sees that its sandboxes went with it, and starts the next one.
    async fn reborn(&mut self) -> Result<()> {
        match &self.deaths {
            Deaths::At(_) => {
                ensure!(self.plan.is_some(), "a process that was not to die does not answer");
                died(self.world).await?;
            }
            Deaths::Anytime { .. } => {
                let is_dead = self.world.fleet.taken().is_empty();
                ensure!(is_dead, "a process that was not killed does not answer");
            }
        }
        loop {
            sandboxes::none_left(self.data).await?;
            self.plan = self.deaths.next_plan();
            let variables = self.plan.as_ref().map(|plan| ("FAMULUS_CRASH", plan.as_str()));
            match self.world.fleet.start_with(0, variables.as_slice()).await {
                Ok(()) => break,
                Err(error) => {
                    // It may come to its point before it serves. Otherwise it says why it does not start.
                    let said = format!("{error:#}");
                    ensure!(self.plan.is_some() && !said.contains("famulus-harness: "), "{said}");
                }
            }
        }
        self.check().await
    }

    /// Looks whether what was answered stands, and nothing is half done.
    async fn check(&self) -> Result<()> {
        let rows = found::rows(&self.world.database.admin).await?;
        let mut wrong = found::violations(self.data, &rows)?;
        if rows.len() > 1 || rows.is_empty() && !self.past.is_empty() && !self.is_removed {
            wrong.push(format!("there are {} plugins", rows.len()));
        }
        for row in rows {
            let may: Vec<&Note> = self.past.iter().chain(&self.next).collect();
            let mut both = may.iter().zip(&row.events);
            let fits =
                row.events.len() <= may.len() && both.all(|(note, event)| self.is_it(note, event));
            if !fits || row.events.is_empty() || row.events.len() < self.past.len() {
                let (past, next) = (&self.past, &self.next);
                wrong.push(format!("{:#?} became of it, and not {past:?}, {next:?}", row.events));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }

    /// Whether an event is what is to be noted.
    fn is_it(&self, note: &Note, event: &Event) -> bool {
        let (what, label) = note;
        let known = label.and_then(|label| self.revisions.get(label));
        event.what.starts_with(what) && known.is_none_or(|it| event.revision.as_ref() == Some(it))
    }

    /// Every death was died, and nothing is left.
    async fn is_over(&mut self) -> Result<()> {
        if let Deaths::At(plans) = &self.deaths {
            let left = self.plan.iter().chain(plans).next();
            ensure!(left.is_none(), "never came to {left:?}");
        }
        if self.world.fleet.taken().is_empty() {
            self.reborn().await?;
        }
        ensure!(found::rows(&self.world.database.admin).await?.is_empty(), "a plugin is left");
        self.check().await?;
        self.world.fleet.end(0).await?;
        sandboxes::none_left(self.data).await
    }
}

/// Kills the process at any moment, until told to end.
async fn kill(world: &World, deaths: Deaths, end: CancellationToken) -> Result<()> {
    let Deaths::Anytime { mut seed, kills } = deaths else { return Ok(()) };
    for _ in 0..kills {
        let pause = Duration::from_millis(seed.between(20, 2_000));
        tokio::select! {
            () = end.cancelled() => return Ok(()),
            () = sleep(pause) => {}
        }
        while !world.fleet.kill(0).await? {
            // It is being started.
            tokio::select! {
                () = end.cancelled() => return Ok(()),
                () = sleep(LOOK) => {}
            }
        }
    }
    Ok(())
}
