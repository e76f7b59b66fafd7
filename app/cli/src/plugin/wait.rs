//! Waits until a plugin serves, and says what it waits for.
//!
//! While a revision is built, the one before goes on: then what the plugin says of itself is of the earlier one,
//! and its history tells how the new one is.

use std::time::Duration;

use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::wire::{Plugin, PluginHistory};

/// How long and how often is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) pause: Duration,
    pub(crate) most: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        // Packages take minutes, and an init script five at most.
        Self { pause: Duration::from_secs(1), most: Duration::from_mins(12) }
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited<'a> {
    pub(crate) plugin: &'a str,
    /// The revision that is to serve; whichever does, where it is not known.
    pub(crate) revision: Option<&'a str>,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Ready,
    /// It ends so, unless somebody does something.
    Failed(String),
    Underway(String),
    /// Another revision serves, or tries to.
    Another,
}

/// Whether it is ready in the end; what it came to is said.
pub(crate) async fn until_ready(
    awaited: Awaited<'_>,
    patience: Patience,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let name = awaited.plugin;
    let followed = follow(awaited, patience.pause, client, output);
    if let Ok(ended) = tokio::time::timeout(patience.most, followed).await {
        return ended;
    }
    output.alert(&format!(
        "{name} is still not ready; that goes on without this terminal, and `famulus plugin show {name}` says how \
         it is"
    ));
    Ok(false)
}

async fn follow(
    awaited: Awaited<'_>,
    pause: Duration,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let name = awaited.plugin;
    let mut told = String::new();
    loop {
        let said = match look(awaited, client).await {
            Ok(Standing::Ready) => {
                output.print(&format!("{name} is ready"))?;
                return Ok(true);
            }
            Ok(Standing::Failed(why)) => {
                output.alert(&format!("{name} is not ready: {why}"));
                return Ok(false);
            }
            Ok(Standing::Underway(why)) => why,
            Ok(Standing::Another) => {
                "the new revision is being built; what served before goes on".to_owned()
            }
            // The server may be started anew, and goes on with it then.
            Err(error) if error.is_passing() => error.chain(),
            Err(error) => return Err(error),
        };
        if said != told {
            output.note(&format!("· {said}"));
            told = said;
        }
        tokio::time::sleep(pause).await;
    }
}

async fn look(awaited: Awaited<'_>, client: &Client) -> Result<Standing, Error> {
    let name = awaited.plugin;
    let plugin: Plugin = client.get(&["v1", "plugins", name], &[], "a plugin").await?;
    let standing = standing(&plugin, awaited.revision);
    let (Standing::Another, Some(revision)) = (&standing, awaited.revision) else {
        return Ok(standing);
    };
    let history = history(name, client).await?;
    Ok(failed(&history, revision).map_or(standing, Standing::Failed))
}

pub(crate) async fn history(plugin: &str, client: &Client) -> Result<PluginHistory, Error> {
    client.get(&["v1", "plugins", plugin, "history"], &[], "what became of a plugin").await
}

fn standing(plugin: &Plugin, wanted: Option<&str>) -> Standing {
    if let (Some(serves), Some(wanted)) = (plugin.revision.as_deref(), wanted)
        && serves != wanted
    {
        return Standing::Another;
    }
    let why = format!("{} ({})", plugin.message, plugin.reason);
    match (plugin.ready, plugin.reason.as_str()) {
        (true, _) => Standing::Ready,
        (false, "Building" | "Pending" | "Offered" | "Starting") => Standing::Underway(why),
        (false, _) => Standing::Failed(why),
    }
}

/// Why a revision does not serve, where the latest that became of it is that it failed.
fn failed(history: &PluginHistory, revision: &str) -> Option<String> {
    let mut latest = history.entries.iter().rev();
    let last = latest.find(|entry| entry.revision.as_deref() == Some(revision))?;
    let kept = "the new revision does not serve, what served before goes on";
    last.what.starts_with("failed").then(|| format!("{kept} ({})", last.what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Kind;
    use crate::peer::{Paper, Peer, Script};
    use serde_json::{Value, json};

    const PATIENCE: Patience =
        Patience { pause: Duration::from_millis(1), most: Duration::from_secs(30) };
    const PLUGIN: &str = "/v1/plugins/weather";
    const HISTORY: &str = "/v1/plugins/weather/history";

    fn says(ready: bool, reason: &str, revision: Option<&str>) -> Value {
        json!({"name": "weather", "ready": ready, "reason": reason, "message": "m",
            "revision": revision})
    }

    fn became(whats: &[(&str, &str)]) -> Value {
        let entry = |(what, revision): &(&str, &str)| {
            json!({"at": "2026-11-21T10:00:00Z", "what": what, "who": null,
                "revision": revision, "commit": null})
        };
        json!({"entries": whats.iter().map(entry).collect::<Vec<Value>>()})
    }

    /// How it ended, what was printed, and what was said in the meantime.
    async fn wait(answers: &[(&'static str, u16, Value)]) -> (bool, String, String) {
        let peer = Peer::start(Script::default()).await;
        peer.script().answers.extend(answers.iter().cloned());
        let (out, err) = (Paper::default(), Paper::default());
        let mut output =
            Output::fake(Box::new(out.clone()), Kind::Plain, Box::new(err.clone()), Kind::Plain);
        let awaited = Awaited { plugin: "weather", revision: Some("new") };
        let ready = until_ready(awaited, PATIENCE, &peer.client(), &mut output).await.unwrap();
        assert!(peer.script().answers.is_empty());
        (ready, out.text(), err.text())
    }

    #[tokio::test]
    async fn each_reason_is_told_once_until_it_is_ready() {
        let (ready, out, err) = wait(&[
            (PLUGIN, 200, says(false, "Building", None)),
            (PLUGIN, 200, says(false, "Building", None)),
            (PLUGIN, 503, json!({"title": "it starts"})),
            (PLUGIN, 200, says(false, "Starting", Some("new"))),
            (PLUGIN, 200, says(true, "Idle", Some("new"))),
        ])
        .await;
        assert!(ready);
        assert_eq!(out, "weather is ready\n");
        assert_eq!(err, "· m (Building)\n· it starts\n· m (Starting)\n");
    }

    #[tokio::test]
    async fn a_failure_ends_it() {
        let (ready, out, err) = wait(&[
            (PLUGIN, 200, says(false, "Building", None)),
            (PLUGIN, 200, says(false, "InitFailed", None)),
        ])
        .await;
        assert!(!ready);
        assert_eq!(
            (out.as_str(), err.as_str()),
            ("", "· m (Building)\nweather is not ready: m (InitFailed)\n",)
        );
    }

    #[tokio::test]
    async fn what_served_before_is_no_sign_of_the_new_one() {
        let before = [
            (PLUGIN, 200, says(true, "Idle", Some("old"))),
            (HISTORY, 200, became(&[("failed: BuildFailed", "new"), ("permitted", "new")])),
            (PLUGIN, 200, says(false, "RunnerFailing", Some("old"))),
            (HISTORY, 200, became(&[("permitted", "new")])),
        ];
        let serves = (PLUGIN, 200, says(true, "Idle", Some("new")));
        assert!(wait(&[before.as_slice(), &[serves]].concat()).await.0);
        let failed = [
            (PLUGIN, 200, says(true, "Idle", Some("old"))),
            (HISTORY, 200, became(&[("permitted", "new"), ("failed: BuildFailed", "new")])),
        ];
        let (ready, _, err) = wait(&[before.as_slice(), &failed].concat()).await;
        assert!(!ready);
        assert!(err.contains("goes on (failed: BuildFailed)"), "{err}");
    }

    #[tokio::test]
    async fn somebody_who_waited_long_enough_is_told_how_to_look() {
        let peer = Peer::start(Script::default()).await;
        // However late the clock is looked at, it is not ready before.
        let building = (PLUGIN, 200, says(false, "Building", None));
        peer.script().answers.extend(std::iter::repeat_n(building, 10_000));
        let err = Paper::default();
        let mut output = Output::fake(
            Box::new(Paper::default()),
            Kind::Plain,
            Box::new(err.clone()),
            Kind::Plain,
        );
        let awaited = Awaited { plugin: "weather", revision: Some("new") };
        let patience = Patience { most: Duration::ZERO, ..PATIENCE };
        let ready = until_ready(awaited, patience, &peer.client(), &mut output).await.unwrap();
        assert!(!ready && err.text().contains("`famulus plugin show weather`"), "{}", err.text());
    }
}
