//! What is kept of plugins, read without the product: rows and folders.

use super::owner::Event;
use anyhow::{Context, Result};
use serde::Deserialize;
use sqlx::PgPool;
use std::{fs, io, path::Path};

/// Digits of a plugin's UID by which its folder is named.
const DIGITS: usize = 12;

/// A plugin, with what became of it, at one moment.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    uid: String,
    #[serde(flatten)]
    standing: Standing,
    /// Oldest first.
    pub(crate) events: Vec<Event>,
}

/// What is wanted of a plugin, and how far that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Standing {
    offered: Option<String>,
    wanted: Option<String>,
    serving: Option<String>,
    is_troubled: bool,
}

pub(crate) async fn rows(database: &PgPool) -> Result<Vec<Row>> {
    const ROWS: &str = "select coalesce(json_agg(json_build_object(
            'uid', p.uid, 'offered', p.offered, 'wanted', p.wanted, 'serving', p.revision,
            'is_troubled', p.reason is not null,
            'events', (
                select coalesce(
                    json_agg(json_build_object('what', e.what, 'revision', e.revision) order by e.id),
                    '[]')
                from plugin_event e where e.plugin = p.uid))), '[]')::text
        from plugin p";
    let rows: String = sqlx::query_scalar(ROWS).fetch_one(database).await?;
    serde_json::from_str(&rows).context("the rows of plugins cannot be read")
}

/// What does not fit together; empty where everything does.
pub(crate) fn violations(data: &Path, rows: &[Row]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let plugins = data.join("plugins");
    let mut folders: Vec<String> = names(&plugins)?;
    folders.retain(|name| name != "root");
    let mut expected: Vec<String> = rows.iter().map(Row::folder).collect();
    expected.sort();
    if folders != expected {
        found.push(format!("the folders are {folders:?}, those of plugins {expected:?}"));
    }
    for row in rows {
        let noted = Standing::after(&row.events);
        if noted != row.standing {
            found.push(format!("{:?} is not what was noted: {noted:?}", row.standing));
        }
        let base = plugins.join(row.folder());
        let config = names(&base.join("config"))?;
        if config.iter().any(|name| name != "config.json") {
            found.push(format!("a configuration is half written: {config:?}"));
        }
        if config.is_empty() && row.events.iter().any(|event| event.what == "configured") {
            found.push("what was configured is not kept".to_owned());
        }
        if let Some(serving) = &row.standing.serving {
            let hex = serving.trim_start_matches("sha256:");
            if !base.join(format!("state/revisions/{hex}.json")).is_file() {
                found.push(format!("{serving} serves, and has no tree"));
            }
        }
    }
    Ok(found)
}

impl Row {
    pub(crate) fn folder(&self) -> String {
        let digits = self.uid.replace('-', "");
        digits[digits.len() - DIGITS..].to_owned()
    }
}

impl Standing {
    /// How a plugin is of which this became.
    fn after(events: &[Event]) -> Self {
        let mut now = Self::default();
        for Event { what, revision } in events {
            let revision = revision.clone();
            match what.as_str() {
                "fetched" => now.offered = revision,
                "permitted" => {
                    now.offered = now.offered.filter(|offered| Some(offered) != revision.as_ref());
                    (now.wanted, now.is_troubled) = (revision, false);
                }
                "rolled back" => (now.wanted, now.is_troubled) = (revision, false),
                "serves" => (now.serving, now.is_troubled) = (revision, false),
                "configured" => now.is_troubled = false,
                _failed => {
                    now.offered = now.offered.or(revision);
                    now.is_troubled = true;
                }
            }
        }
        now
    }
}

/// What is in a folder, if it is there; sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}
