//! A plugin that is written here: made, and its files read and changed, by way of a model.

use super::life::{name, offered, owner_only, refused};
use super::{Action, Arguments};
use crate::paging;
use crate::tool::{ToolError, json};
use famulus_core::plugin::{
    self, Change, Edit, ManagedPlugins, Offer, PluginFile, PluginSource, editing,
};
use famulus_core::tool::{CallContext, ToolOutput};
use serde_json::{Value, json as value};
use std::sync::Arc;

pub(super) async fn run(
    managed: &Arc<dyn ManagedPlugins>,
    asked: Arguments,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    owner_only(context)?;
    let plugin = name(&asked)?.to_owned();
    let edit = match asked.action {
        Action::Create => return create(managed, &asked, &plugin, context).await,
        Action::ListFiles => {
            let files = files(managed, &plugin).await?;
            return listed(&files, asked.offset.unwrap_or(0));
        }
        Action::ReadFile => {
            let (path, offset) = (given(asked.path, "path")?, asked.offset.unwrap_or(0));
            return read(&files(managed, &plugin).await?, &plugin, &path, offset);
        }
        Action::WriteFile => Edit::Write {
            path: given(asked.path, "path")?,
            content: given(asked.content, "content")?,
            before: asked.before,
        },
        Action::DeleteFile => Edit::Delete { path: given(asked.path, "path")? },
        Action::MoveFile => {
            Edit::Move { path: given(asked.path, "path")?, to: given(asked.to, "to")? }
        }
        Action::List
        | Action::Show
        | Action::Help
        | Action::Install
        | Action::InstallUnsaid
        | Action::Update
        | Action::Permit
        | Action::Configure
        | Action::Rollback
        | Action::Remove => return Err(ToolError::call("no file is to be changed")),
    };
    let change = Change::Edits(vec![edit]);
    let offer = managed.update(&plugin, change, &context.person.name).await.map_err(refused)?;
    saved(&offer)
}

async fn create(
    managed: &Arc<dyn ManagedPlugins>,
    asked: &Arguments,
    plugin: &str,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let template = asked.template.unwrap_or_default();
    let files = template.files(plugin, asked.plugin_description.as_deref());
    let (source, who) = (PluginSource::Inline { files }, &context.person.name);
    offered(&managed.install(Some(plugin), source, who).await.map_err(refused)?)
}

async fn files(
    managed: &Arc<dyn ManagedPlugins>,
    plugin: &str,
) -> Result<Vec<PluginFile>, ToolError> {
    let source = managed.source(plugin).await.map_err(refused)?;
    editing::files_of(plugin, source).map_err(refused)
}

fn listed(files: &[PluginFile], offset: usize) -> Result<ToolOutput, ToolError> {
    let all = editing::list(files).files.into_iter();
    let all = all.map(|file| value!({"path": file.path, "bytes": file.bytes})).collect();
    let (entries, next) = paging::entries(all, offset);
    json(&with_next(value!({ "files": entries }), next))
}

fn read(
    files: &[PluginFile],
    plugin: &str,
    path: &str,
    offset: usize,
) -> Result<ToolOutput, ToolError> {
    let file = editing::read(files, path).map_err(|error| ToolError::call(error.to_string()))?;
    let (piece, next) = paging::text(&file.content, offset);
    let content = plugin::written(plugin, path, &piece);
    json(&with_next(value!({"content": content, "sha256": file.sha256}), next))
}

/// With where the rest begins, where there is one.
fn with_next(mut answer: Value, next: Option<usize>) -> Value {
    if let Some(next) = next {
        answer["next_offset"] = next.into();
    }
    answer
}

/// What the model is told of a save, and what comes next.
fn saved(offer: &Offer) -> Result<ToolOutput, ToolError> {
    if !offer.changed {
        return json(
            &value!({"plugin": offer.plugin, "saved": true, "serves": "the same already"}),
        );
    }
    let tools: Vec<&str> = offer.description.tools.iter().map(|tool| tool.name.as_str()).collect();
    json(&value!({
        "plugin": offer.plugin,
        "saved": true,
        "revision": offer.revision,
        "tools": tools,
        "next": "checked, and nothing of it runs yet: save what else is to change, then permit this revision",
    }))
}

fn given(value: Option<String>, field: &str) -> Result<String, ToolError> {
    value.ok_or_else(|| {
        ToolError::call(format!("`{field}` is missing; `help` says what a file of a plugin is"))
    })
}
