//! `manage_knowledge`: memories, which every turn carries, and scratchpad pages, which are read on
//! demand.
//!
//! Deleting asks the person whose entry it is, because nothing brings one back; replacing does not,
//! because the conversation that did it holds both texts.

use crate::builtin::Ports;
use crate::schema::schema_of;
use crate::tool::{Policy, Tool, ToolError, filled, json, typed};
use crate::{moment, paging};
use async_trait::async_trait;
use famulus_core::ids::KnowledgeId;
use famulus_core::knowledge::{Knowledge, KnowledgeKind, KnowledgeStore, Upsert};
use famulus_core::tool::{CallContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Characters of a memory: every turn of the main agent carries all of them.
const LONGEST_MEMORY: usize = 4_000;
/// Bytes of a page.
const LONGEST_PAGE: usize = 64 * 1024;
/// Characters of an entry that are read before it is deleted.
const QUOTED: usize = 300;
/// Characters of a page's title: every turn carries all of them.
const LONGEST_TITLE: usize = 200;

pub(super) struct ManageKnowledge {
    store: Arc<dyn KnowledgeStore>,
}

impl ManageKnowledge {
    pub(super) fn new(ports: &Ports) -> Self {
        Self { store: Arc::clone(&ports.knowledge) }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Upsert,
    Read,
    List,
    Delete,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    action: Action,
    store: KnowledgeKind,
    /// Of the entry to read, delete or replace; upsert without it adds.
    #[serde(default, deserialize_with = "filled")]
    id: Option<String>,
    /// The memory.
    #[serde(default, deserialize_with = "filled")]
    content: Option<String>,
    /// Of the page.
    #[serde(default, deserialize_with = "filled")]
    title: Option<String>,
    /// Of the page.
    #[serde(default, deserialize_with = "filled")]
    body: Option<String>,
    /// Where to go on: the next_offset of the last answer.
    offset: Option<usize>,
}

const POLICY: [Policy; 4] = [
    Policy::keyed_write("upsert"),
    Policy::read("read"),
    Policy::read("list"),
    Policy::keyed_write("delete").asks_its_person(),
];

#[async_trait]
impl Tool for ManageKnowledge {
    fn name(&self) -> &'static str {
        "manage_knowledge"
    }

    fn description(&self) -> &'static str {
        "Remember things about the person. memory: short facts, always in view. scratchpad: longer \
         pages of which only titles are in view. Keep entries current instead of adding doubles."
    }

    fn schema(&self) -> Value {
        schema_of::<Arguments>()
    }

    fn policy(&self) -> &[Policy] {
        &POLICY
    }

    fn summary(&self, arguments: &Value) -> Result<String, ToolError> {
        let arguments: Arguments = typed(arguments.clone())?;
        let id = arguments.id()?;
        Ok(format!("delete the {} with id {id}", noun(arguments.store)))
    }

    async fn subject(
        &self,
        arguments: &Value,
        context: &CallContext,
    ) -> Result<Option<String>, ToolError> {
        let arguments: Arguments = typed(arguments.clone())?;
        let id = arguments.id()?;
        let found = self.store.read(context.person.id, id).await?;
        let page = noun(KnowledgeKind::Scratchpad);
        Ok(Some(match found.filter(|entry| entry.kind == arguments.store) {
            Some(entry) if entry.title.is_empty() => format!("forget {}", quoted(&entry.body)),
            Some(entry) => {
                format!("delete the {page} {}: {}", quoted(&entry.title), quoted(&entry.body))
            }
            None => {
                format!("delete the {} with id {id}, which is not there", noun(arguments.store))
            }
        }))
    }

    async fn run(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = typed(arguments)?;
        match arguments.action {
            Action::Upsert => self.upsert(arguments, context).await,
            Action::Read => self.read(&arguments, context).await,
            Action::List => self.list(&arguments, context).await,
            Action::Delete => self.delete(&arguments, context).await,
        }
    }
}

impl ManageKnowledge {
    async fn upsert(
        &self,
        arguments: Arguments,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let id = arguments.id.is_some().then(|| arguments.id()).transpose()?;
        let kind = arguments.store;
        let (title, body) = arguments.texts()?;
        let entry = Upsert { id, kind, title, body };
        let saved = self.store.upsert(context.person.id, context.key, entry).await?;
        let saved = saved.ok_or_else(|| unknown(kind, id))?;
        json(&json!({"id": saved.id, "saved": if id.is_some() { "replaced" } else { "added" }}))
    }

    async fn read(
        &self,
        arguments: &Arguments,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let id = arguments.id()?;
        let found = self.store.read(context.person.id, id).await?;
        let entry = found
            .filter(|entry| entry.kind == arguments.store)
            .ok_or_else(|| unknown(arguments.store, Some(id)))?;
        let (piece, next) = paging::text(&entry.body, arguments.offset.unwrap_or(0));
        let mut shown = heading(&entry, context);
        shown[text_field(entry.kind)] = piece.into();
        if let Some(next) = next {
            shown["next_offset"] = next.into();
        }
        json(&shown)
    }

    async fn list(
        &self,
        arguments: &Arguments,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let all = self.store.digest(context.person.id).await?;
        let shown = all
            .iter()
            .filter(|entry| entry.kind == arguments.store)
            .map(|entry| {
                let mut shown = heading(entry, context);
                if entry.kind == KnowledgeKind::Memory {
                    shown["content"] = entry.body.as_str().into();
                }
                shown
            })
            .collect();
        let (entries, next) = paging::entries(shown, arguments.offset.unwrap_or(0));
        let mut answer = json!({ "entries": entries });
        if let Some(next) = next {
            answer["next_offset"] = next.into();
        }
        json(&answer)
    }

    async fn delete(
        &self,
        arguments: &Arguments,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let id = arguments.id()?;
        let there = self.store.read(context.person.id, id).await?;
        if there.is_some_and(|entry| entry.kind != arguments.store) {
            // Somebody was asked about an entry of the other store.
            return Err(unknown(arguments.store, Some(id)));
        }
        if !self.store.delete(context.person.id, context.key, id).await? {
            return Err(unknown(arguments.store, Some(id)));
        }
        json(&json!({"id": id, "deleted": true}))
    }
}

impl Arguments {
    fn id(&self) -> Result<KnowledgeId, ToolError> {
        let text = self.id.as_deref().map(str::trim);
        let text = text.ok_or_else(|| ToolError::call("`id` is missing; `list` shows the ids"))?;
        text.parse()
            .map_err(|_| ToolError::call(format!("`{text}` is not an id; `list` shows the ids")))
    }

    /// Title and body of the entry to be stored.
    fn texts(self) -> Result<(String, String), ToolError> {
        match self.store {
            KnowledgeKind::Memory => {
                absent("title", self.title.as_ref(), "a memory has `content` only")?;
                absent("body", self.body.as_ref(), "a memory has `content` only")?;
                let content = present("content", self.content)?;
                let length = content.chars().count();
                if length > LONGEST_MEMORY {
                    return Err(ToolError::Call(format!(
                        "`content` has {length} characters, a memory at most {LONGEST_MEMORY}; shorten it or write a scratchpad page"
                    )));
                }
                Ok((String::new(), content))
            }
            KnowledgeKind::Scratchpad => {
                absent("content", self.content.as_ref(), "a page has `title` and `body`")?;
                let title = present("title", self.title)?.trim().to_owned();
                let body = present("body", self.body)?;
                let length = title.chars().count();
                if length > LONGEST_TITLE || title.chars().any(char::is_control) {
                    return Err(ToolError::Call(format!(
                        "`title` must be a single line of at most {LONGEST_TITLE} characters"
                    )));
                }
                if body.len() > LONGEST_PAGE {
                    return Err(ToolError::Call(format!(
                        "`body` has {} bytes, a page at most {LONGEST_PAGE}; split it into several pages",
                        body.len()
                    )));
                }
                Ok((title, body))
            }
        }
    }
}

fn present(field: &str, text: Option<String>) -> Result<String, ToolError> {
    let text = text.ok_or_else(|| ToolError::Call(format!("`{field}` is missing or blank")))?;
    if text.contains('\0') {
        return Err(ToolError::Call(format!(
            "`{field}` contains the character U+0000; leave it out"
        )));
    }
    Ok(text)
}

fn absent(field: &str, text: Option<&String>, why: &str) -> Result<(), ToolError> {
    match text {
        None => Ok(()),
        Some(_) => Err(ToolError::Call(format!("`{field}` does not belong here: {why}"))),
    }
}

fn unknown(kind: KnowledgeKind, id: Option<KnowledgeId>) -> ToolError {
    let id = id.map(|id| id.to_string()).unwrap_or_default();
    ToolError::Call(format!("there is no {} with id {id}; `list` shows the ids", noun(kind)))
}

fn noun(kind: KnowledgeKind) -> &'static str {
    match kind {
        KnowledgeKind::Memory => "memory",
        KnowledgeKind::Scratchpad => "scratchpad page",
    }
}

/// The beginning of a text in one line, its line breaks and quotes written as in the arguments.
fn quoted(text: &str) -> String {
    let length = text.chars().count();
    let beginning: String = text.chars().take(QUOTED).collect();
    let quoted = Value::from(beginning);
    if length > QUOTED {
        format!("{quoted}… (the first {QUOTED} of {length} characters)")
    } else {
        quoted.to_string()
    }
}

fn text_field(kind: KnowledgeKind) -> &'static str {
    match kind {
        KnowledgeKind::Memory => "content",
        KnowledgeKind::Scratchpad => "body",
    }
}

/// An entry without its text.
fn heading(entry: &Knowledge, context: &CallContext) -> Value {
    let updated = moment::written(entry.updated_at, &context.person.time_zone);
    match entry.kind {
        KnowledgeKind::Memory => json!({"id": entry.id, "updated": updated}),
        KnowledgeKind::Scratchpad => {
            json!({"id": entry.id, "title": entry.title, "updated": updated})
        }
    }
}

#[cfg(test)]
mod tests;
