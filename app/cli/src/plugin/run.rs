//! `famulus plugin run`: one call, its progress on standard error, its output on standard output.
//! Ctrl-C ends the call: the server ends what nobody listens to.

use std::path::Path;

use famulus_core::plugin::ToolDescription;
use famulus_core::sandbox::{RunOutput, SandboxResult, SandboxRun, Stage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::wire::{Plugin, StoredFile};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    plugin: String,
    tool: String,
    /// NAME=VALUE for each parameter; of a file its path on this machine
    #[arg(value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// All parameters as JSON: an object, or an array of objects for one run each
    #[arg(long, value_name = "JSON", conflicts_with = "parameters")]
    json: Option<String>,
}

/// A line of the server's answer.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line {
    Stage(Stage),
    Alive,
    Result { result: SandboxResult },
    Error { message: String },
}

/// Whether every run went well.
pub(crate) async fn run(
    args: RunArgs,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    const WHAT: &str = "the progress of a call";
    let body = body(&args, client).await?;
    let path = ["v1", "plugins", &args.plugin, "tools", &args.tool, "run"];
    let mut response = client.open(&path, &body).await?;
    let mut unread: Vec<u8> = Vec::new();
    while let Some(piece) = client.piece(&mut response).await? {
        unread.extend_from_slice(piece.as_ref());
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            let line: Line = serde_json::from_slice(&line)
                .map_err(|source| client.malformed(WHAT, Some(source)))?;
            match line {
                Line::Alive => {}
                Line::Stage(stage) => output.note(&render(&stage)),
                Line::Error { message } => {
                    output.alert(&message);
                    return Ok(false);
                }
                Line::Result { result } => return show(&result, output),
            }
        }
    }
    // The connection ended without a last line.
    Err(client.malformed(WHAT, None))
}

async fn body(args: &RunArgs, client: &Client) -> Result<Value, Error> {
    if let Some(text) = &args.json {
        let parameters: Value = serde_json::from_str(text).map_err(|error| Error::Parameter {
            given: text.clone(),
            why: format!("is no JSON: {error}"),
        })?;
        return Ok(json!({ "parameters": parameters }));
    }
    let plugin: Plugin = client.get(&["v1", "plugins", &args.plugin], &[], "a plugin").await?;
    let tool: Option<&ToolDescription> = plugin.tool(&args.tool);
    let (mut values, files) = arguments::apart(arguments::read(&args.parameters, tool)?);
    let mut ids = Vec::with_capacity(files.len());
    for (name, path) in files {
        let file = std::fs::read(&path)
            .map_err(|source| Error::ReadFile { path: path.clone(), source })?;
        let stored: StoredFile = client.store(file).await?;
        values.insert(name, json!({ "filename": shown(&path), "upload": ids.len() }));
        ids.push(stored.id);
    }
    Ok(json!({ "parameters": values, "files": ids }))
}

fn shown(path: &Path) -> String {
    path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy()).into_owned()
}

fn render(stage: &Stage) -> String {
    match stage {
        Stage::Starting => "starting a runner".to_owned(),
        Stage::Queued { position } => format!("waiting for {position} other calls"),
        Stage::Started { run: _, runs: 1 } => "running".to_owned(),
        Stage::Started { run, runs } => format!("running item {} of {runs}", run + 1),
        Stage::Said { text } => text.clone(),
    }
}

fn show(result: &SandboxResult, output: &mut Output) -> Result<bool, Error> {
    let mut good = true;
    for (number, SandboxRun { output: said, files, notes, millis }) in
        result.runs.iter().enumerate()
    {
        if result.each {
            output.note(&format!("item {}, {millis} ms", number + 1));
        }
        match said {
            RunOutput::Json(text) | RunOutput::Text(text) => output.print(text)?,
            RunOutput::Failed(text) => {
                good = false;
                output.alert(&format!("failed: {text}"));
            }
            RunOutput::Unknown(text) => {
                good = false;
                output.alert(&format!("nobody knows whether it happened: {text}"));
            }
        }
        for (name, blob) in files {
            output.print(&format!("{name} ({} bytes): GET /v1/blobs/{}", blob.size, blob.id))?;
        }
        for note in notes {
            output.note(note);
        }
    }
    Ok(good)
}
