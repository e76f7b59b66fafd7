//! `send_message`: words and files to whoever asks, or to somebody else whom the installation knows.
//!
//! Nobody is written to for the first time unless the owner says yes: `send` is refused then by the
//! store, and `send_first` asks. What goes to somebody else begins with whose words they are.
//!
//! No model sees it where no channel could carry anything.

use crate::builtin::Ports;
use crate::schema::schema_of;
use crate::tool::{Policy, Tool, ToolError, filled, json, typed};
use async_trait::async_trait;
use famulus_core::ids::BlobId;
use famulus_core::message::Provenance;
use famulus_core::post::{Enclosed, Letter, Post, PostError, Recipient, Way};
use famulus_core::tool::{CallContext, Effect, Repeat, ToolOutput};
use famulus_core::visible::shortened;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// Characters of a text.
const LONGEST_TEXT: usize = 20_000;
const MOST_FILES: usize = 10;
/// Characters by which a text is known in a question.
const BEGINNING: usize = 80;

pub(super) struct SendMessage {
    post: Arc<dyn Post>,
    ways: Vec<Way>,
}

impl SendMessage {
    pub(super) fn new(ports: &Ports) -> Self {
        Self { post: Arc::clone(&ports.post), ways: ports.ways.clone() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Send,
    SendFirst,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    action: Action,
    /// A person's name; without it, whoever you talk to.
    #[serde(default, deserialize_with = "filled")]
    to: Option<String>,
    /// Only there, for example telegram.
    #[serde(default, deserialize_with = "filled")]
    channel: Option<String>,
    #[serde(default, deserialize_with = "filled")]
    text: Option<String>,
    files: Option<Vec<FileArgument>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileArgument {
    /// Of an attached file.
    id: String,
    #[serde(default, deserialize_with = "filled")]
    name: Option<String>,
}

const POLICY: [Policy; 2] = [
    Policy::new(Some("send"), Effect::External, Repeat::Safe),
    Policy::new(Some("send_first"), Effect::External, Repeat::Safe).asks(),
];

#[async_trait]
impl Tool for SendMessage {
    fn name(&self) -> &'static str {
        "send_message"
    }

    fn description(&self) -> &'static str {
        "Send files, or words to somebody else. What you answer reaches whoever you talk to without \
         it. send_first is for somebody who was never written to: the owner is asked."
    }

    fn schema(&self) -> Value {
        schema_of::<Arguments>()
    }

    fn policy(&self) -> &[Policy] {
        &POLICY
    }

    fn is_of_use(&self) -> bool {
        !self.ways.is_empty()
    }

    fn summary(&self, arguments: &Value) -> Result<String, ToolError> {
        let arguments: Arguments = typed(arguments.clone())?;
        let to = arguments.to.as_deref().ok_or_else(|| {
            ToolError::call("`to` is missing; whoever you talk to is written to by `send`")
        })?;
        let text = arguments.text.as_deref().unwrap_or_default();
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let files = match arguments.files.as_ref().map_or(0, Vec::len) {
            0 => String::new(),
            1 => " with a file".to_owned(),
            many => format!(" with {many} files"),
        };
        let beginning = shortened(&line, BEGINNING);
        Ok(format!("write to {to} for the first time{files}: \"{beginning}\""))
    }

    async fn run(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = typed(arguments)?;
        let Arguments { action, to, channel, text, files } = arguments;
        let files = enclosed(files.unwrap_or_default())?;
        let markdown = checked_text(text, &files)?;
        let ways = self.ways(channel.as_deref(), !files.is_empty())?;
        let here = context.origin.as_ref();
        let here = here.filter(|origin| ways.iter().any(|way| way.channel == origin.channel));
        let to = match (to, here) {
            (Some(name), _) if context.began_by == Provenance::Contact => {
                return Err(ToolError::Call(format!(
                    "for a contact nobody else is written to; tell them to write to {name} themselves"
                )));
            }
            (Some(name), _) => Recipient::Other(name),
            (None, Some(origin)) => Recipient::Here(origin.clone()),
            (None, None) => Recipient::Themselves,
        };
        let letter = Letter {
            key: context.key,
            from: context.person.clone(),
            conversation: context.conversation,
            to,
            markdown,
            files,
            ways,
            may_be_first: action == Action::SendFirst,
        };
        match self.post.post(&letter).await {
            Ok(posted) => json(&serde_json::json!({ "on_its_way": posted })),
            Err(PostError::Store(error)) => Err(error.into()),
            Err(error) => Err(ToolError::Call(error.to_string())),
        }
    }
}

impl SendMessage {
    /// The channels that may carry it.
    fn ways(&self, channel: Option<&str>, with_files: bool) -> Result<Vec<Way>, ToolError> {
        let channel = channel.map(str::trim);
        let of_name = |way: &&Way| channel.is_none_or(|name| way.channel == name);
        let named: Vec<&Way> = self.ways.iter().filter(of_name).collect();
        if named.is_empty() {
            let names: Vec<&str> = self.ways.iter().map(|way| way.channel.as_str()).collect();
            return Err(ToolError::Call(format!(
                "there is no channel `{}`; the channels are: {}",
                channel.unwrap_or_default(),
                names.join(", ")
            )));
        }
        let ways = named.into_iter().filter(|way| way.takes_files || !with_files);
        let ways: Vec<Way> = ways.cloned().collect();
        if ways.is_empty() {
            return Err(ToolError::call("no file can go there; say in words what it holds"));
        }
        Ok(ways)
    }
}

fn enclosed(files: Vec<FileArgument>) -> Result<Vec<Enclosed>, ToolError> {
    if files.len() > MOST_FILES {
        return Err(ToolError::Call(format!(
            "{} files are too many for one message; send {MOST_FILES} at a time",
            files.len()
        )));
    }
    let read = |FileArgument { id, name }: FileArgument| {
        let id: BlobId = id.trim().parse().map_err(|_| {
            ToolError::Call(format!("`{id}` is no id of a file; it stands behind its name"))
        })?;
        Ok(Enclosed { id, name })
    };
    files.into_iter().map(read).collect()
}

fn checked_text(text: Option<String>, files: &[Enclosed]) -> Result<String, ToolError> {
    let text = text.unwrap_or_default();
    if text.is_empty() && files.is_empty() {
        return Err(ToolError::call("there is nothing to send; give `text`, `files`, or both"));
    }
    let length = text.chars().count();
    if length > LONGEST_TEXT {
        return Err(ToolError::Call(format!(
            "`text` has {length} characters, at most {LONGEST_TEXT} are sent; shorten it"
        )));
    }
    if text.contains('\0') {
        return Err(ToolError::call("`text` contains the character U+0000; leave it out"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
