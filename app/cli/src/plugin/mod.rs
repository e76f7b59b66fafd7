//! `famulus plugin`: what plugins there are, one call of a tool with its progress, and what a runner
//! logged.

mod arguments;
mod run;

use serde_json::Value;

use famulus_core::plugin::ToolDescription;

use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::table::{pairs, shorten, table};
use crate::wire::{Plugin, PluginLogs, Plugins};

pub(crate) use run::RunArgs;

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
    let plugins: Plugins =
        serde_json::from_value(raw).map_err(|source| client.malformed(WHAT, Some(source)))?;
    if plugins.plugins.is_empty() {
        return output.print("no plugins; apply a Plugin to the sandbox namespace to add one");
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
    rows.push(("network", plugin.egress.clone()));
    rows.push(("isolation", known(&plugin.isolation)));
    rows.push(("configured", plugin.config_keys.join(", ")));
    let mut text = pairs(&rows);
    for name in &plugin.tools {
        text.push('\n');
        match plugin.tool(name) {
            Some(tool) => tell_tool(&mut text, tool),
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

fn tell_tool(text: &mut String, tool: &ToolDescription) {
    text.push_str(&tool.signature());
    if tool.r#async {
        text.push_str(" (ends later)");
    }
    text.push_str("\n  ");
    text.push_str(&tool.description);
    for (name, parameter) in &tool.parameters {
        let described = parameter.get("description").and_then(Value::as_str).unwrap_or_default();
        text.push_str("\n  ");
        text.push_str(name);
        text.push_str(": ");
        text.push_str(described);
    }
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
