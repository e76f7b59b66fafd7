//! `famulus plugin create` and `famulus plugin files`: a plugin that is written here. What was saved is shown, and runs
//! once it is permitted.

use std::path::PathBuf;

use famulus_core::plugin::{
    Edit, Template,
    editing::{self, FileContent, FileEntry, FileList},
};
use serde_json::{Value, json};

use super::install::{FETCHED, WHAT, settle};
use super::permit::Yes;
use super::source;
use crate::clean::one_line;
use crate::client::Client;
use crate::error::Error;
use crate::input::Lines;
use crate::output::Output;
use crate::table::table;
use crate::wire::Offer;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Lowercase letters, digits and hyphens
    name: String,
    /// What it does, in one sentence
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// What it has at first
    #[arg(long, default_value = "python")]
    template: Beginning,
    #[command(flatten)]
    yes: Yes,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Beginning {
    /// One tool, in Python
    Python,
    /// No tool yet
    Empty,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Files {
    /// List the files of a plugin, as they were saved last
    List {
        name: String,
        /// Print the server's answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a file, as it was saved last
    Read { name: String, path: String },
    /// Save a file of this machine, or what comes on the standard input, as a file of a plugin
    Write {
        name: String,
        path: String,
        /// The file of this machine; else the standard input
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// The SHA-256 of the content that you changed: if somebody saved another since, nothing is written
        #[arg(long, value_name = "SHA256")]
        before: Option<String>,
        #[command(flatten)]
        yes: Yes,
    },
    /// Delete a file of a plugin
    Delete {
        name: String,
        path: String,
        #[command(flatten)]
        yes: Yes,
    },
    /// Give a file of a plugin another path
    Move {
        name: String,
        path: String,
        to: String,
        #[command(flatten)]
        yes: Yes,
    },
}

pub(crate) async fn create(
    args: CreateArgs,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let CreateArgs { name, description, template, yes } = args;
    let template = match template {
        Beginning::Python => Template::Python,
        Beginning::Empty => Template::Empty,
    };
    let body = json!({ "description": description, "template": template });
    let path = ["v1", "plugins", &name, "create"];
    let offer: Offer = client.wait_for(&path, &body, FETCHED, WHAT).await?;
    output.note(&format!("· made; `famulus plugin files list {name}` names its files"));
    settle(&offer, yes, client, output).await
}

/// Whether everything went well.
pub(crate) async fn run(
    action: Files,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    match action {
        Files::List { name, json } => list(&name, json, client, output).await.map(|()| true),
        Files::Read { name, path } => read(&name, &path, client, output).await.map(|()| true),
        Files::Write { name, path, from, before, yes } => {
            let content = match from {
                Some(from) => source::content(&from, editing::MOST_BYTES)?,
                None => Lines::stdin()?.whole().await?,
            };
            save(&name, Edit::Write { path, content, before }, yes, client, output).await
        }
        Files::Delete { name, path, yes } => {
            save(&name, Edit::Delete { path }, yes, client, output).await
        }
        Files::Move { name, path, to, yes } => {
            save(&name, Edit::Move { path, to }, yes, client, output).await
        }
    }
}

async fn save(
    name: &str,
    edit: Edit,
    yes: Yes,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let body = json!({ "edits": [edit] });
    let path = ["v1", "plugins", name, "files"];
    let offer: Offer = client.wait_for(&path, &body, FETCHED, WHAT).await?;
    output.note("· saved and checked");
    settle(&offer, yes, client, output).await
}

async fn list(name: &str, json: bool, client: &Client, output: &mut Output) -> Result<(), Error> {
    const WHAT: &str = "a list of files";
    let raw: Value = client.get(&["v1", "plugins", name, "files"], &[], WHAT).await?;
    if json {
        return output.print(&format!("{raw:#}"));
    }
    let list: FileList =
        serde_json::from_value(raw).map_err(|source| client.malformed(WHAT, Some(source)))?;
    let row = |file: &FileEntry| {
        vec![one_line(&file.path), file.bytes.to_string(), one_line(&file.sha256)]
    };
    let rows: Vec<Vec<String>> = list.files.iter().map(row).collect();
    output.print(&table(&["path", "bytes", "sha256"], &rows))
}

/// To the byte, unless somebody reads it on a terminal.
async fn read(name: &str, path: &str, client: &Client, output: &mut Output) -> Result<(), Error> {
    // An address takes `.` and `..` for something else.
    editing::check_path(path).map_err(|error| Error::Parameter {
        given: one_line(path),
        why: format!("names no file: {error}"),
    })?;
    let address = ["v1", "plugins", name, "files", path];
    let file: FileContent = client.get(&address, &[], "a file of a plugin").await?;
    output.note(&format!("· sha256 {}", file.sha256));
    if output.screen().is_some() {
        return output.print(&file.content);
    }
    output.write(&file.content)
}
