//! The life of plugins, as the owner has it by way of a model.

use super::{Action, Arguments, question};
use crate::plugins::PluginPorts;
use crate::tool::{ToolError, json};
use famulus_core::person::Role;
use famulus_core::plugin::{
    self, Change, Egress, Granted, ManageError, ManagedPlugins, Offer, PluginSource,
};
use famulus_core::tool::{CallContext, ToolOutput};
use serde_json::{Value, json as value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long somebody who permitted waits for the end of the build; then it goes on without them.
const BUILT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(250);

/// What is done at once, in one line; refused where it makes no sense.
pub(super) fn summary(asked: &Arguments) -> Result<String, ToolError> {
    match asked.action {
        Action::InstallUnsaid => {
            let (url, reference) = (address(asked)?, asked.reference.as_deref().unwrap_or("HEAD"));
            Ok(format!("fetch a plugin from {url} at {reference}; nothing of it runs yet"))
        }
        Action::Permit => Ok(format!("let the plugin {} run", name(asked)?)),
        Action::Rollback => {
            Ok(format!("go back to an earlier revision of the plugin {}", name(asked)?))
        }
        Action::Remove => {
            Ok(format!("remove the plugin {} with its files and its keys", name(asked)?))
        }
        Action::List
        | Action::Show
        | Action::Help
        | Action::Install
        | Action::Update
        | Action::Configure
        | Action::Create
        | Action::ListFiles
        | Action::ReadFile
        | Action::WriteFile
        | Action::DeleteFile
        | Action::MoveFile => Ok(format!("manage plugins: {:?}", asked.action).to_lowercase()),
    }
}

/// What the owner says yes to, as it stands now.
pub(super) async fn subject(
    plugins: &PluginPorts,
    asked: &Arguments,
) -> Result<Option<String>, ToolError> {
    if asked.action != Action::Permit {
        return Ok(None);
    }
    let (name, revision) = (name(asked)?, revision(asked)?);
    let offer = plugins.managed.offer_of(name).await.map_err(refused)?;
    let Some(offer) = offer.filter(|offer| offer.revision == revision) else {
        // One of which nothing is permitted is not seen.
        let seen = plugins.visible().await?;
        let serving = seen.iter().find(|plugin| plugin.name == name);
        return Ok(Some(question::of_rights(name, serving, asked)));
    };
    Ok(Some(question::of_offer(&offer, asked)))
}

pub(super) async fn run(
    plugins: &PluginPorts,
    asked: Arguments,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    owner_only(context)?;
    let (managed, who) = (&plugins.managed, context.person.name.as_str());
    match asked.action {
        Action::Install => {
            let url = address(&asked)?;
            if !context.owner.have(url) {
                return Err(ToolError::call(format!(
                    "the owner did not write the address {url}; use install_unsaid, which asks the owner first"
                )));
            }
            install(managed, &asked, who).await
        }
        Action::InstallUnsaid => install(managed, &asked, who).await,
        Action::Update => {
            let change = asked.reference.clone().map_or(Change::Again, Change::Ref);
            let offer = managed.update(name(&asked)?, change, who).await.map_err(refused)?;
            if offer.changed {
                return offered(&offer);
            }
            json(&value!({"plugin": offer.plugin, "nothing_new": true}))
        }
        Action::Permit => {
            let (name, revision) = (name(&asked)?, revision(&asked)?.to_owned());
            let tools =
                if asked.tools.is_empty() { vec!["*".to_owned()] } else { asked.tools.clone() };
            let egress = if asked.internet { Egress::Internet } else { Egress::None };
            let granted = Granted { revision: revision.clone(), tools, egress };
            managed.permit(name, granted, who).await.map_err(refused)?;
            built(plugins, name, &revision).await
        }
        Action::Configure => configure(plugins, &asked, who).await,
        Action::Rollback => {
            let name = name(&asked)?;
            let to = managed.roll_back(name, asked.revision.as_deref(), who).await;
            built(plugins, name, &to.map_err(refused)?).await
        }
        Action::Remove => {
            let name = name(&asked)?;
            managed.remove(name).await.map_err(refused)?;
            json(&value!({"removed": name}))
        }
        Action::List
        | Action::Show
        | Action::Help
        | Action::Create
        | Action::ListFiles
        | Action::ReadFile
        | Action::WriteFile
        | Action::DeleteFile
        | Action::MoveFile => Err(ToolError::call("nothing is to be managed")),
    }
}

pub(super) fn owner_only(context: &CallContext) -> Result<(), ToolError> {
    if context.person.role == Role::Owner {
        return Ok(());
    }
    Err(ToolError::call("plugins are the owner's to manage; only the owner can ask for that"))
}

async fn install(
    managed: &Arc<dyn ManagedPlugins>,
    asked: &Arguments,
    who: &str,
) -> Result<ToolOutput, ToolError> {
    let url = address(asked)?.to_owned();
    let r#ref = asked.reference.clone().unwrap_or_else(|| "HEAD".to_owned());
    let source = PluginSource::Git { url, r#ref };
    offered(&managed.install(asked.name.as_deref(), source, who).await.map_err(refused)?)
}

/// What the model is told of what was fetched, and what comes next.
pub(super) fn offered(offer: &Offer) -> Result<ToolOutput, ToolError> {
    let tools: Vec<Value> = offer
        .description
        .tools
        .iter()
        .map(|tool| value!({"name": tool.name, "description": tool.description}))
        .collect();
    let keys: Vec<Value> = offer
        .description
        .config
        .iter()
        .map(|key| {
            value!({"key": key.key, "description": key.description, "required": key.required,
                "secret": key.secret})
        })
        .collect();
    let mut shown = value!({
        "plugin": offer.plugin,
        "description": offer.description.description,
        "source": offer.source,
        "commit": offer.commit,
        "revision": offer.revision,
        "tools": tools,
        "keys": keys,
        "next": "nothing of it runs yet: permit this revision, with `internet` if its tools need it",
    });
    if let Some(before) = &offer.before {
        shown["changes"] = question::changes(before, &offer.description).into();
        shown["until_now"] = value!({"tools": offer.permitted, "network": offer.egress.name()});
        shown["next"] =
            "what served before goes on: permit this revision, with the rights of until now unless the owner wants others"
                .into();
    }
    if let Some(instructions) = &offer.description.instructions {
        shown["instructions"] = plugin::instructions(&offer.plugin, instructions).into();
    }
    json(&shown)
}

/// Only what is no secret passes through a model.
async fn configure(
    plugins: &PluginPorts,
    asked: &Arguments,
    who: &str,
) -> Result<ToolOutput, ToolError> {
    let name = name(asked)?;
    let key = asked.key.as_deref().ok_or_else(|| ToolError::call("`key` is missing"))?;
    let offer = plugins.managed.offer_of(name).await.map_err(refused)?;
    let description = match offer {
        Some(offer) => Some(offer.description),
        None => plugins.described(&plugins.find(name).await?).await?,
    };
    let keys = description.map(|description| description.config).unwrap_or_default();
    let Some(declared) = keys.iter().find(|declared| declared.key == key) else {
        let known: Vec<&str> = keys.iter().map(|declared| declared.key.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(ToolError::call(format!("{name} has no such key; its keys are: {known}")));
    };
    if declared.secret {
        return Err(ToolError::call(format!(
            "`{key}` is secret and passes through no conversation; ask the owner to write `/configure {name} {key} \
             VALUE`, which no model sees, or in a terminal: famulus plugin configure {name} {key}"
        )));
    }
    let given = asked.value.as_deref().map(plugin::value_of);
    plugins.managed.configure(name, key, given, who).await.map_err(refused)?;
    json(&value!({"plugin": name, "set": key}))
}

/// Waits for a while until the revision serves, or does not.
async fn built(plugins: &PluginPorts, name: &str, revision: &str) -> Result<ToolOutput, ToolError> {
    let until = Instant::now() + BUILT;
    loop {
        let plugin = plugins.find(name).await?;
        let serves = plugin.revision.as_deref() == Some(revision);
        if serves && plugin.ready {
            return json(&value!({"plugin": name, "ready": true}));
        }
        // What failed is offered again; what served before goes on.
        let offer = plugins.managed.offer_of(name).await.map_err(refused)?;
        if !serves && offer.is_some_and(|offer| offer.revision == revision) {
            let history = plugins.managed.history(name).await.map_err(refused)?;
            let failed = history.into_iter().rev().find(|event| event.what.starts_with("failed"));
            let why = failed.map_or_else(|| plugin.message.clone(), |event| event.what);
            let why = plugin::not_ready(name, "NotBuilt", &why);
            return json(&value!({"plugin": name, "not_ready": why}));
        }
        if serves {
            let why = plugin::not_ready(name, &plugin.reason, &plugin.message);
            return json(&value!({"plugin": name, "not_ready": why}));
        }
        if Instant::now() >= until {
            return json(
                &value!({"plugin": name, "building": "it is being built; the owner is told when that ends"}),
            );
        }
        sleep(LOOK).await;
    }
}

pub(super) fn name(asked: &Arguments) -> Result<&str, ToolError> {
    let name = asked.name.as_deref().map(str::trim);
    name.ok_or_else(|| {
        ToolError::call("`name` is missing; name one of the plugins that `list` shows")
    })
}

fn revision(asked: &Arguments) -> Result<&str, ToolError> {
    let revision = asked.revision.as_deref();
    revision.ok_or_else(|| ToolError::call("`revision` is missing; give the one that was offered"))
}

fn address(asked: &Arguments) -> Result<&str, ToolError> {
    let url = asked.url.as_deref().map(str::trim);
    url.ok_or_else(|| ToolError::call("`url` is missing; give the git address of the plugin"))
}

pub(super) fn refused(error: ManageError) -> ToolError {
    match error {
        ManageError::Store(error) => ToolError::Store(error),
        ManageError::Unsupported(_)
        | ManageError::NoPlugin(_)
        | ManageError::Taken(_)
        | ManageError::Invalid(_)
        | ManageError::Edit(_)
        | ManageError::Failed { .. } => ToolError::Call(error.to_string()),
    }
}
