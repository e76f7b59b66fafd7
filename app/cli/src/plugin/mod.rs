//! `famulus plugin`: what plugins there are, their life from their installation to their removal, one call of a
//! tool with its progress, and what a runner logged.
//!
//! ```text
//! install, update, create, files ─► offer, change ─► permit ─► wait
//! ```
//!
//! Invariant: nothing is permitted that was not shown and agreed to, by a typed yes or by `--yes`.

mod arguments;
mod change;
mod configure;
mod described;
mod export;
mod files;
#[cfg(test)]
mod files_tests;
mod install;
mod life;
#[cfg(test)]
mod life_tests;
mod offer;
mod permit;
mod run;
mod source;
mod wait;

use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::table::{pairs, shorten, table};
use crate::wire::{Plugin, PluginList, PluginLogs};

use configure::ConfigureArgs;
use export::ExportArgs;
use files::{CreateArgs, Files};
use install::{InstallArgs, UpdateArgs};
use permit::{PermitArgs, Yes};
use run::RunArgs;

/// Columns that a message takes in the list.
const MESSAGE: usize = 60;

#[derive(Clone, Debug, clap::Args)]
pub struct PluginArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// List the plugins and how they are
    List {
        /// Print the server's answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one plugin, its instructions and its tools
    Show {
        name: String,
        /// Print the server's answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch a plugin, show what it is, and have it serve once that is permitted
    Install(InstallArgs),
    /// Fetch a plugin anew, show what changed, and have that serve once it is permitted
    Update(UpdateArgs),
    /// Make a plugin that is written here, empty or from a template
    Create(CreateArgs),
    /// List, read and change the files of a plugin that is written here
    Files {
        #[command(subcommand)]
        action: Files,
    },
    /// Write the newest files of a plugin into a tar
    Export(ExportArgs),
    /// Permit what was fetched, or permit more or less of what serves
    Permit(PermitArgs),
    /// Give a key of its configuration a value
    Configure(ConfigureArgs),
    /// Have an earlier revision serve again
    Rollback {
        name: String,
        /// How the revision begins, as its history shows it; else the last other one that served
        #[arg(long, value_name = "REVISION")]
        to: Option<String>,
    },
    /// Remove a plugin with its files and its configuration
    Remove {
        name: String,
        #[command(flatten)]
        yes: Yes,
    },
    /// Show what became of a plugin, and who did it
    History { name: String },
    /// Run a tool of a plugin, and show how it goes
    Run(RunArgs),
    /// Show the end of what its runner logged
    Logs { name: String },
}

/// Whether everything went well.
pub(crate) async fn run(
    args: PluginArgs,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    match args.action {
        Action::List { json } => list(json, client, output).await?,
        Action::Show { name, json } => show(&name, json, client, output).await?,
        Action::Install(args) => return install::install(args, client, output).await,
        Action::Update(args) => return install::update(args, client, output).await,
        Action::Create(args) => return files::create(args, client, output).await,
        Action::Files { action } => return files::run(action, client, output).await,
        Action::Export(args) => export::run(args, client, output).await?,
        Action::Permit(args) => return permit::run(args, client, output).await,
        Action::Configure(args) => configure::run(args, client, output).await?,
        Action::Rollback { name, to } => {
            return life::roll_back(&name, to.as_deref(), client, output).await;
        }
        Action::Remove { name, yes } => life::remove(&name, yes, client, output).await?,
        Action::History { name } => life::show(&name, client, output).await?,
        Action::Run(args) => return run::run(args, client, output).await,
        Action::Logs { name } => logs(&name, client, output).await?,
    }
    Ok(true)
}

async fn list(json: bool, client: &Client, output: &mut Output) -> Result<(), Error> {
    const WHAT: &str = "a list of plugins";
    let raw: Value = client.get(&["v1", "plugins"], &[], WHAT).await?;
    if json {
        return output.print(&format!("{raw:#}"));
    }
    let plugins: PluginList =
        serde_json::from_value(raw).map_err(|source| client.malformed(WHAT, Some(source)))?;
    if plugins.plugins.is_empty() {
        return output.print(
            "no plugins; install one with `famulus plugin install ADDRESS`, or in a cluster apply a Plugin",
        );
    }
    let row = |plugin: &Plugin| {
        vec![
            plugin.name.clone(),
            if plugin.ready { "yes" } else { "no" }.to_owned(),
            plugin.reason.clone(),
            plugin.tools.len().to_string(),
            plugin.runners.to_string(),
            shorten(&plugin.message, MESSAGE),
        ]
    };
    let rows: Vec<Vec<String>> = plugins.plugins.iter().map(row).collect();
    output.print(&table(&["name", "ready", "reason", "tools", "runners", "message"], &rows))
}

async fn show(name: &str, json: bool, client: &Client, output: &mut Output) -> Result<(), Error> {
    const WHAT: &str = "a plugin";
    let raw: Value = client.get(&["v1", "plugins", name], &[], WHAT).await?;
    if json {
        return output.print(&format!("{raw:#}"));
    }
    let plugin: Plugin =
        serde_json::from_value(raw).map_err(|source| client.malformed(WHAT, Some(source)))?;
    output.print(&render(&plugin))
}

async fn logs(name: &str, client: &Client, output: &mut Output) -> Result<(), Error> {
    let path = ["v1", "plugins", name, "logs"];
    let logs: PluginLogs = client.get(&path, &[], "the log of a runner").await?;
    if logs.lines.is_empty() {
        return output.print("its runner has logged nothing");
    }
    output.print(&logs.lines.join("\n"))
}

/// A plugin in words.
fn render(plugin: &Plugin) -> String {
    let state = format!(
        "{} ({}): {}",
        if plugin.ready { "ready" } else { "not ready" },
        plugin.reason,
        plugin.message
    );
    let mut rows = vec![("name", plugin.name.clone()), ("state", state)];
    if let Some(description) = &plugin.description {
        rows.push(("does", description.description.clone()));
    }
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    rows.push(("revision", known(&plugin.revision)));
    rows.push(("commit", known(&plugin.commit)));
    if let Some(offered) = &plugin.offered {
        rows.push(("offered", offered.clone()));
    }
    rows.push(("network", plugin.egress.clone()));
    rows.push(("isolation", known(&plugin.isolation)));
    rows.push(("configured", plugin.config_keys.join(", ")));
    let mut text = pairs(&rows);
    for name in &plugin.tools {
        text.push('\n');
        match plugin.tool(name) {
            Some(tool) => text.push_str(&described::tool(tool)),
            None => text.push_str(name),
        }
    }
    if let Some(instructions) =
        plugin.description.as_ref().and_then(|it| it.instructions.as_deref())
    {
        text.push_str("\n\n");
        text.push_str(instructions);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plugin_is_told_with_its_permitted_tools() {
        let plugin: Plugin = serde_json::from_value(json!({
            "name": "weather", "ready": true, "reason": "Serving", "message": "it answers",
            "revision": "sha256:ab", "tools": ["look"], "egress": "none", "runners": 1,
            "config_keys": ["key"],
            "description": {"plugin": "weather", "description": "Knows the weather.",
                "instructions": "Name a city.", "tools": [
                {"name": "look", "description": "Looks.",
                 "parameters": {"city": {"type": "string", "description": "Where."}}},
                {"name": "erase", "description": "Erases."}]},
        }))
        .unwrap();
        assert_eq!(
            render(&plugin),
            "name        weather\nstate       ready (Serving): it answers\n\
             does        Knows the weather.\nrevision    sha256:ab\ncommit      -\n\
             network     none\nisolation   -\nconfigured  key\n\
             \nlook(city: string)\n  Looks.\n  city: Where.\n\nName a city."
        );
    }
}
