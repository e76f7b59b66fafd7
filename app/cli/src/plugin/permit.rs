//! `famulus plugin permit`, and the question that stands between what was fetched and that it runs.

use std::io::{self, IsTerminal as _};

use famulus_core::plugin::{Description, Egress};
use reqwest::Method;
use serde_json::json;

use super::described::short;
use super::wait::{Awaited, Patience, until_ready};
use crate::answer;
use crate::clean::one_line;
use crate::client::Client;
use crate::error::Error;
use crate::input::Lines;
use crate::output::Output;
use crate::wire::Plugin;

/// All tools of a plugin.
const ALL: &str = "*";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PermitArgs {
    name: String,
    #[command(flatten)]
    rights: RightsArgs,
    #[command(flatten)]
    yes: Yes,
}

/// What may run, and what it reaches. What is not said stays, or is all tools and no network.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RightsArgs {
    /// Permit these tools, and not all
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Vec<String>,
    /// What its tools reach over the network
    #[arg(long)]
    egress: Option<Network>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Network {
    /// Nothing
    None,
    /// Public addresses
    Internet,
}

/// Whether somebody is asked first.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Yes {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Given,
    Refused,
    /// Nobody sits at a terminal.
    NotAsked,
}

impl Yes {
    pub(crate) async fn consent(
        self,
        question: &str,
        output: &mut Output,
    ) -> Result<Consent, Error> {
        if self.yes {
            return Ok(Consent::Given);
        }
        if !(io::stdin().is_terminal() && output.progress_is_seen()) {
            return Ok(Consent::NotAsked);
        }
        let yes = answer::ask(question, &mut Lines::stdin()?, output).await?;
        Ok(if yes { Consent::Given } else { Consent::Refused })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) tools: Vec<String>,
    pub(crate) egress: Egress,
}

impl RightsArgs {
    /// What was said, and else this.
    pub(crate) fn or(self, else_: Rights) -> Rights {
        let egress = self.egress.map(|network| match network {
            Network::None => Egress::None,
            Network::Internet => Egress::Internet,
        });
        Rights {
            tools: if self.tools.is_empty() { else_.tools } else { self.tools },
            egress: egress.unwrap_or(else_.egress),
        }
    }
}

impl Rights {
    pub(crate) fn all_tools() -> Self {
        Self { tools: vec![ALL.to_owned()], egress: Egress::None }
    }

    /// That what is permitted is there.
    pub(crate) fn check(&self, description: &Description) -> Result<(), Error> {
        let names = || description.tools.iter().map(|tool| tool.name.as_str());
        let stranger =
            self.tools.iter().find(|tool| *tool != ALL && !names().any(|it| it == *tool));
        stranger.map_or(Ok(()), |tool| {
            let known = one_line(&names().collect::<Vec<_>>().join(", "));
            let why = format!("names no tool of it; its tools are: {known}");
            Err(Error::Parameter { given: one_line(tool), why })
        })
    }

    fn words(&self) -> String {
        let tools = if self.tools.iter().any(|tool| tool == ALL) {
            "all its tools".to_owned()
        } else if self.tools.is_empty() {
            "none of its tools".to_owned()
        } else {
            one_line(&self.tools.join(", "))
        };
        format!("{tools}, with network: {}", self.egress.name())
    }

    /// What grants the same, on a command line.
    fn command(&self, plugin: &str) -> String {
        let tools = self.tools.join(",");
        let egress = self.egress.name();
        format!("famulus plugin permit {plugin} --tools '{tools}' --egress {egress}")
    }
}

/// A revision that somebody has seen, and what it would be permitted.
pub(crate) struct Proposal<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) revision: &'a str,
    pub(crate) rights: Rights,
    /// What the revision is, where that is at hand.
    pub(crate) description: Option<&'a Description>,
    /// Whether nothing else was to be done: then it failed where nobody could be asked.
    pub(crate) is_all: bool,
}

/// Permits what is offered, else changes the rights of what serves.
pub(crate) async fn run(
    args: PermitArgs,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let PermitArgs { name, rights, yes } = args;
    let plugin: Plugin = client.get(&["v1", "plugins", &name], &[], "a plugin").await?;
    let Some(revision) = plugin.offered.as_deref().or(plugin.revision.as_deref()) else {
        return Err(Error::NothingOffered { plugin: one_line(&name) });
    };
    let serves = plugin.revision.as_deref() == Some(revision);
    let state = if serves { "serves" } else { "is offered" };
    output.note(&format!("· the revision {} of {name} {state}", short(revision)));
    let rights = rights.or(had(&plugin));
    let description = plugin.description.as_ref().filter(|_| serves);
    let proposal = Proposal { plugin: &name, revision, rights, description, is_all: true };
    propose(&proposal, yes, client, output).await
}

/// What a plugin may do now; all its tools, where nothing was permitted yet.
fn had(plugin: &Plugin) -> Rights {
    let all = Rights::all_tools();
    let is_open = plugin.egress.eq_ignore_ascii_case(Egress::Internet.name());
    Rights {
        tools: if plugin.tools.is_empty() { all.tools } else { plugin.tools.clone() },
        egress: if is_open { Egress::Internet } else { all.egress },
    }
}

/// Asks, permits, and waits until it serves. Whether that went well; a no is no failure.
pub(crate) async fn propose(
    proposal: &Proposal<'_>,
    yes: Yes,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let Proposal { plugin, revision, rights, description, .. } = proposal;
    if let Some(description) = description {
        rights.check(description)?;
    }
    match yes.consent(&format!("Permit {}? [y/N] ", rights.words()), output).await? {
        Consent::Given => {}
        Consent::Refused => {
            let command = rights.command(plugin);
            output.print(&format!("{plugin} is not permitted to run; `{command}` permits it"))?;
            return Ok(true);
        }
        Consent::NotAsked => {
            let command = rights.command(plugin);
            output.print(&format!(
                "{plugin} is not permitted to run, for nobody could be asked; `{command} --yes` permits it"
            ))?;
            return Ok(!proposal.is_all);
        }
    }
    let Rights { tools, egress } = rights;
    let body = json!({ "revision": revision, "tools": tools, "egress": egress });
    let path = ["v1", "plugins", plugin, "permit"];
    let begun: Plugin = client.send(Method::POST, &path, &body, "a plugin").await?;
    for key in description.iter().flat_map(|it| missing(it, &begun.config_keys)) {
        output.alert(&format!(
            "{plugin} needs a value for {key}: `famulus plugin configure {plugin} {key}`"
        ));
    }
    let awaited = Awaited { plugin, revision: Some(revision) };
    until_ready(awaited, Patience::default(), client, output).await
}

/// Keys without which it does not work, and which have no value.
fn missing<'a>(
    description: &'a Description,
    configured: &'a [String],
) -> impl Iterator<Item = &'a str> {
    let keys = description.config.iter().filter(|key| key.required && key.default.is_none());
    keys.map(|key| key.key.as_str()).filter(|key| !configured.iter().any(|it| it == key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(tools: &[&str], egress: Egress) -> Rights {
        Rights { tools: tools.iter().map(|&tool| tool.to_owned()).collect(), egress }
    }

    #[test]
    fn rights_are_said_and_can_be_given_again() {
        let check = |rights: Rights, words: &str, command: &str| {
            assert_eq!(rights.words(), words);
            assert_eq!(rights.command("p"), format!("famulus plugin permit p {command}"));
        };
        check(
            Rights::all_tools(),
            "all its tools, with network: none",
            "--tools '*' --egress none",
        );
        check(
            rights(&["look", "feel"], Egress::Internet),
            "look, feel, with network: internet",
            "--tools 'look,feel' --egress internet",
        );
        check(
            rights(&[], Egress::None),
            "none of its tools, with network: none",
            "--tools '' --egress none",
        );
    }

    #[test]
    fn what_is_not_said_stays() {
        let args = |tools: &[&str], egress| RightsArgs {
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            egress,
        };
        let before = || rights(&["look"], Egress::Internet);
        assert_eq!(args(&[], None).or(before()), before());
        assert_eq!(args(&["feel"], None).or(before()), rights(&["feel"], Egress::Internet));
        assert_eq!(args(&[], Some(Network::None)).or(before()), rights(&["look"], Egress::None));
    }
}
