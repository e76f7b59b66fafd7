//! The life of one plugin, and of all of them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::home::{Home, Method};
use crate::outcome::{self, Outcome};
use crate::plugin::{Call, File, Plugin, Step, all, manifest, tools};
use crate::source::{Fetch, Source};

/// How many live at once: a home of two cores has other things to do as well.
const AT_ONCE: usize = 3;

/// How long something may take to come true on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// Between two looks, at first and at last.
const LOOK: Duration = Duration::from_millis(250);
const SLOW_LOOK: Duration = Duration::from_secs(1);

/// What a home did otherwise than it was to do.
#[derive(Debug, thiserror::Error)]
#[error("the plugin `{plugin}`, {step}: {what}")]
pub struct LifeError {
    pub plugin: String,
    pub step: &'static str,
    pub what: String,
}

/// Has every plugin live in a home. Those that could not, and why.
pub async fn all_live(home: &dyn Home) -> Vec<LifeError> {
    some_live(home, 1).await
}

/// The same with the first of each so many of them.
pub async fn some_live(home: &dyn Home, of_each: usize) -> Vec<LifeError> {
    let has_outside = home.outside().is_some();
    let plugins = all().into_iter().filter(|plugin| has_outside || !plugin.comes_from_outside());
    let plugins: Vec<Plugin> = plugins.step_by(of_each.max(1)).collect();
    let lives = stream::iter(&plugins).map(|plugin| lives(home, plugin)).buffer_unordered(AT_ONCE);
    lives.filter_map(async |lived| lived.err()).collect().await
}

/// Has a plugin live from its installation to its removal.
///
/// # Errors
/// The home did something else than it was to do.
pub async fn lives(home: &dyn Home, plugin: &Plugin) -> Result<(), LifeError> {
    let provided = match home.outside() {
        Some(outside) => outside.provide(plugin),
        None => Ok(plugin.clone()),
    };
    let prepared = provided.and_then(|it| Ok((Source::of(&it, home.outside())?, it)));
    let failed = |step, what| LifeError { plugin: plugin.name.clone(), step, what };
    let (source, plugin) = prepared.map_err(|what| failed("prepared", what))?;
    let life = Life { home, plugin: &plugin, source };
    let uses = &plugin.uses;
    let first = life.step("installed", life.installs()).await?;
    life.step("asked for its files", life.tells_its_files()).await?;
    life.step("without a yes", life.rests()).await?;
    life.step("permitted", life.is_permitted(&first)).await?;
    life.step("configured", life.is_configured(&first)).await?;
    life.step("called", life.is_called(&uses.before)).await?;
    let offered = life.step("updated", life.is_updated(&first)).await?;
    let Some(second) = offered.last() else {
        return Err(failed("updated", "nothing was offered".to_owned()));
    };
    life.step("called while an update waits", life.is_called(uses.meanwhile())).await?;
    life.step("permitted again", life.is_permitted(second)).await?;
    life.step("serving its update", life.serves(second, &plugin.second)).await?;
    life.step("called after the update", life.is_called(&uses.after)).await?;
    life.step("rolled back", life.is_rolled_back(&first)).await?;
    life.step("called after the rollback", life.is_called(uses.back())).await?;
    life.step("telling its history", life.tells(&first, &offered)).await?;
    life.step("without its value", life.lacks_its_value()).await?;
    life.step("removed", life.is_removed()).await
}

struct Life<'a> {
    home: &'a dyn Home,
    plugin: &'a Plugin,
    source: Source,
}

impl Life<'_> {
    async fn step<T>(
        &self,
        step: &'static str,
        done: impl Future<Output = Result<T, String>>,
    ) -> Result<T, LifeError> {
        let plugin = || self.plugin.name.clone();
        Box::pin(done).await.map_err(|what| LifeError { plugin: plugin(), step, what })
    }

    async fn installs(&self) -> Result<String, String> {
        let Fetch { body, commit, files } = self.source.first(self.plugin)?;
        let offer = self.home.asked(Method::Post, "/v1/plugins", Some(body)).await?;
        expect(&offer["plugin"], &json!(self.plugin.name), &offer)?;
        is_offered(&offer, commit.as_deref(), &files)
    }

    /// Files that were sent are read and written here. Those of a repository are changed there.
    async fn tells_its_files(&self) -> Result<(), String> {
        let path = self.path("/files");
        match &self.source {
            Source::Sent => {
                let list = self.home.asked(Method::Get, &path, None).await?;
                let listed = list["files"].as_array().map(Vec::as_slice).unwrap_or_default();
                let listed: BTreeSet<_> = listed.iter().map(|file| file["path"].as_str()).collect();
                let sent = self.plugin.first.iter().map(|file| Some(file.path.as_str())).collect();
                if listed == sent { Ok(()) } else { Err(format!("its files are others: {list}")) }
            }
            Source::Git(repository) => {
                let (manifest, anything) =
                    (format!("{path}/manifest.json"), json!({"content": "{}"}));
                for (method, path, body) in [
                    (Method::Get, &path, None),
                    (Method::Get, &manifest, None),
                    (Method::Put, &manifest, Some(&anything)),
                    (Method::Delete, &manifest, None),
                ] {
                    let (status, said) = self.home.ask(method, path, body).await;
                    let names_it = said.to_string().contains(&repository.url);
                    if !(400..500).contains(&status) || !names_it {
                        let what = format!("{} {path}: {status} {said}", method.name());
                        return Err(format!("it is from git, and was not refused so: {what}"));
                    }
                }
                Ok(())
            }
        }
    }

    /// Nothing of it runs before somebody said yes.
    async fn rests(&self) -> Result<(), String> {
        let shown = self.shown().await?;
        expect(&shown["ready"], &json!(false), &shown)?;
        match self.tried().await? {
            Outcome::Refused(why) if why.contains(&self.plugin.name) => Ok(()),
            Outcome::Refused(why) => Err(format!("it was refused for something else: {why}")),
            Outcome::Ended(result) => Err(format!("it ran before anybody said yes: {result}")),
        }
    }

    async fn is_permitted(&self, revision: &str) -> Result<(), String> {
        let uses = &self.plugin.uses;
        let granted = json!({"revision": revision, "tools": uses.tools, "egress": "none"});
        self.home.asked(Method::Post, &self.path("/permit"), Some(granted)).await.map(drop)
    }

    /// No tool runs without what is required; what is given arrives, and is not shown.
    async fn is_configured(&self, revision: &str) -> Result<(), String> {
        if let Some(key) = self.plugin.required_key() {
            self.is_refused_for(&key).await?;
        }
        let values = &self.plugin.uses.values;
        for (key, value) in values {
            let body = Some(json!({"value": value}));
            self.home.asked(Method::Put, &self.path(&format!("/config/{key}")), body).await?;
        }
        self.serves(revision, &self.plugin.first).await?;
        if values.is_empty() {
            return Ok(());
        }
        let shown = until(async || {
            let shown = self.shown().await?;
            let keys = shown["config_keys"].as_array().map(Vec::as_slice).unwrap_or_default();
            let has = |key: &String| keys.iter().any(|known| known == key);
            if values.keys().all(has) { Ok(shown) } else { Err(shown.to_string()) }
        })
        .await?;
        if let Some(at) = self.plugin.secrets().iter().position(|it| shown.to_string().contains(it))
        {
            return Err(format!("secret value {at} is shown"));
        }
        // It is with the plugin a moment later.
        let call = self.first_call()?;
        until(async || outcome::fits(call, &self.call(call).await?)).await
    }

    async fn is_called(&self, steps: &[Step]) -> Result<(), String> {
        for step in steps {
            let ends = join_all(step.calls().iter().map(|call| self.call(call))).await;
            for (call, end) in step.calls().iter().zip(ends) {
                outcome::fits(call, &end?)?;
            }
        }
        Ok(())
    }

    /// What serves goes on until a new one is permitted. All that were offered; the last is the second revision.
    async fn is_updated(&self, first: &str) -> Result<Vec<String>, String> {
        let mut offered = Vec::new();
        for Fetch { body, commit, files } in self.source.updates(self.plugin)? {
            let offer = self.home.asked(Method::Post, &self.path("/update"), Some(body)).await?;
            let revision = is_offered(&offer, commit.as_deref(), &files)?;
            is_described(&offer["before"], &self.plugin.first)?;
            if revision == first || offered.contains(&revision) {
                return Err(format!("other files are the same revision: {offer}"));
            }
            self.serves(first, &self.plugin.first).await?;
            let shown = self.shown().await?;
            expect(&shown["offered"], &json!(revision), &shown)?;
            offered.push(revision);
        }
        Ok(offered)
    }

    async fn is_rolled_back(&self, first: &str) -> Result<(), String> {
        self.home.asked(Method::Post, &self.path("/rollback"), Some(json!({}))).await?;
        self.serves(first, &self.plugin.first).await
    }

    /// Waits until the revision serves, with what these files say of it.
    async fn serves(&self, revision: &str, files: &[File]) -> Result<(), String> {
        until(async || {
            let shown = self.shown().await?;
            expect(&shown["revision"], &json!(revision), &shown)?;
            expect(&shown["ready"], &json!(true), &shown)?;
            is_described(&shown["description"], files)
        })
        .await
    }

    /// What was done stands there in its order, with whoever did it. What came by itself may stand between.
    async fn tells(&self, first: &str, offered: &[String]) -> Result<(), String> {
        let history = self.home.asked(Method::Get, &self.path("/history"), None).await?;
        let entries = history["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let done = entries.iter().filter(|entry| entry["who"].is_string());
        let done: Vec<(&Value, &Value)> = done.map(|it| (&it["what"], &it["revision"])).collect();
        let event = |what: &str, revision: &str| (json!(what), json!(revision));
        let mut expected = vec![event("fetched", first), event("permitted", first)];
        let configured = self.plugin.uses.values.keys().map(|_| (json!("configured"), Value::Null));
        expected.extend(configured);
        expected.extend(offered.iter().map(|revision| event("fetched", revision)));
        expected.extend(offered.last().map(|second| event("permitted", second)));
        expected.push(event("rolled back", first));
        let is_same =
            done.iter().copied().eq(expected.iter().map(|(what, revision)| (what, revision)));
        if is_same { Ok(()) } else { Err(format!("{expected:?} was done, and it tells {history}")) }
    }

    async fn lacks_its_value(&self) -> Result<(), String> {
        let Some(key) = self.plugin.required_key() else { return Ok(()) };
        self.home.asked(Method::Delete, &self.path(&format!("/config/{key}")), None).await?;
        self.is_refused_for(&key).await
    }

    async fn is_removed(&self) -> Result<(), String> {
        self.home.asked(Method::Delete, &self.path(""), None).await?;
        let gone = format!("no plugin `{}`", self.plugin.name);
        self.is_refused_for(&gone).await?;
        until(async || match self.home.ask(Method::Get, &self.path(""), None).await {
            (404, _) => Ok(()),
            (status, shown) => Err(format!("it is there: {status} {shown}")),
        })
        .await
    }

    /// Waits until a call is refused with these words.
    async fn is_refused_for(&self, part: &str) -> Result<(), String> {
        until(async || match self.tried().await? {
            Outcome::Refused(why) if why.contains(part) => Ok(()),
            other @ (Outcome::Refused(_) | Outcome::Ended(_)) => {
                Err(format!("a call was not refused for {part}: {other:?}"))
            }
        })
        .await
    }

    async fn tried(&self) -> Result<Outcome, String> {
        self.call(self.first_call()?).await
    }

    fn first_call(&self) -> Result<&Call, String> {
        self.plugin.call().ok_or_else(|| "it has no call that is to run; give it one".to_owned())
    }

    async fn call(&self, call: &Call) -> Result<Outcome, String> {
        outcome::read(&self.home.run(&self.plugin.name, &call.tool, &call.parameters).await)
    }

    async fn shown(&self) -> Result<Value, String> {
        self.home.asked(Method::Get, &self.path(""), None).await
    }

    fn path(&self, below: &str) -> String {
        format!("/v1/plugins/{}{below}", self.plugin.name)
    }
}

/// Whether these files are offered, of this commit, and as another revision than serves. Which it is.
fn is_offered(offer: &Value, commit: Option<&str>, files: &[File]) -> Result<String, String> {
    expect(&offer["changed"], &json!(true), offer)?;
    expect(&offer["commit"], &json!(commit), offer)?;
    is_described(&offer["description"], files)?;
    let revision = offer["revision"].as_str().filter(|it| it.starts_with("sha256:"));
    revision.map(str::to_owned).ok_or_else(|| format!("no revision is offered: {offer}"))
}

/// Whether a description is that of these files.
fn is_described(description: &Value, files: &[File]) -> Result<(), String> {
    expect(&description["description"], &manifest(files)["description"], description)?;
    let described = description["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = described.iter().filter_map(|tool| tool["name"].as_str()).collect();
    if tools(files) == named { Ok(()) } else { Err(format!("its tools are others: {description}")) }
}

fn expect(found: &Value, expected: &Value, whole: &Value) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{expected} was to be, not {found}: {whole}"))
    }
}

/// Looks ever more rarely until it is so; else what was seen last.
pub(crate) async fn until<T>(
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, String> {
    let (deadline, mut pause) = (Instant::now() + PATIENCE, LOOK);
    loop {
        match look().await {
            Err(seen) if Instant::now() >= deadline => {
                return Err(format!("not within {PATIENCE:?}: {seen}"));
            }
            Err(_seen) => sleep(pause).await,
            found => return found,
        }
        pause = (pause * 5 / 4).min(SLOW_LOOK);
    }
}
