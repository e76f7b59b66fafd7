//! A plugin as data: the files of two revisions, and what is to come of calls of them.
//!
//! ```text
//! plugins/NAME/first    the files of the first revision
//! plugins/NAME/second   those of the second that differ from the first's
//! plugins/NAME/packages  packages that its revisions need, for indexes that tests serve
//! plugins/NAME/uses.json  values, rights, calls with their answers
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::guide;
use crate::source::SourceKind;

/// A plugin in two revisions.
#[derive(Clone, Debug)]
pub struct Plugin {
    pub name: String,
    pub first: Vec<File>,
    pub second: Vec<File>,
    pub uses: Uses,
    /// What it needs of an index: `python/NAME/VERSION.py`, `npm/NAME/VERSION.js`.
    pub packages: Option<PathBuf>,
}

/// A file, as the API takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    pub path: String,
    pub content: String,
}

/// How it is used.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uses {
    /// Where a home has its files from.
    #[serde(default)]
    pub source: SourceKind,
    /// What is permitted.
    #[serde(default = "everything")]
    pub tools: Vec<String>,
    /// Its configuration.
    #[serde(default)]
    pub values: BTreeMap<String, Value>,
    /// Calls of the first revision.
    pub before: Vec<Step>,
    /// Calls of the first revision while the second waits for a yes; left out, the same again.
    #[serde(default)]
    pub meanwhile: Option<Vec<Step>>,
    /// Calls of the second revision.
    pub after: Vec<Step>,
    /// Calls of the first revision that serves again; left out, the same again.
    #[serde(default)]
    pub back: Option<Vec<Step>>,
}

fn everything() -> Vec<String> {
    vec!["*".to_owned()]
}

impl Uses {
    pub fn meanwhile(&self) -> &[Step] {
        self.meanwhile.as_deref().unwrap_or(&self.before)
    }

    pub fn back(&self) -> &[Step] {
        self.back.as_deref().unwrap_or(&self.before)
    }
}

/// A call, or several at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    One(Call),
    Together(Vec<Call>),
}

impl Step {
    pub fn calls(&self) -> &[Call] {
        match self {
            Self::One(call) => std::slice::from_ref(call),
            Self::Together(calls) => calls,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub tool: String,
    pub parameters: Value,
    pub answer: Answer,
    /// What it leaves: names with bytes.
    #[serde(default)]
    pub files: BTreeMap<String, u64>,
}

/// What is to come of a call.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Json(Value),
    /// To the letter.
    Text(String),
    /// It ran and failed, with words that hold this.
    Failed(String),
    /// It did not run, with words that hold this.
    Refused(String),
    /// One for each item of a list.
    Each(Vec<Answer>),
}

impl Plugin {
    /// The key of its manifest without which no tool runs, if there is one.
    pub fn required_key(&self) -> Option<String> {
        let manifest = manifest(&self.first);
        let mut keys = manifest["config"].as_object().into_iter().flatten();
        let found = keys.find(|(_, entry)| entry["required"] == true && entry["default"].is_null());
        found.map(|(key, _)| key.clone())
    }

    /// Texts of its configuration that nobody may be shown.
    pub fn secrets(&self) -> Vec<&str> {
        let manifest = manifest(&self.first);
        let is_secret = |key: &str| manifest["config"][key]["secret"] != false;
        let given = self.uses.values.iter().filter(|(key, _)| is_secret(key));
        given.filter_map(|(_, value)| value.as_str()).collect()
    }

    /// Whether it is of no use in a home that nothing stands beside.
    pub fn comes_from_outside(&self) -> bool {
        self.uses.source == SourceKind::Git || self.packages.is_some()
    }

    /// A call that is to run.
    pub fn call(&self) -> Option<&Call> {
        let mut calls = self.uses.before.iter().flat_map(Step::calls);
        calls.find(|call| !matches!(call.answer, Answer::Refused(_)))
    }
}

/// The manifest of a plugin of these files.
pub(crate) fn manifest(files: &[File]) -> Value {
    serde_json::from_str(content(files, "manifest.json")).unwrap()
}

pub(crate) fn content<'a>(files: &'a [File], path: &str) -> &'a str {
    &files.iter().find(|file| file.path == path).unwrap().content
}

/// The names of the tools of a plugin of these files.
pub(crate) fn tools(files: &[File]) -> BTreeSet<&str> {
    let folders = files.iter().filter_map(|file| file.path.strip_suffix("/manifest.json"));
    folders.filter(|folder| !folder.contains('/')).collect()
}

/// Every plugin: the guide's, and those that stand here.
pub fn all() -> Vec<Plugin> {
    guide::plugins().into_iter().chain(kept()).collect()
}

fn kept() -> Vec<Plugin> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins");
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(folder: &Path) -> Plugin {
    let mut files = BTreeMap::new();
    gather(&folder.join("first"), "", &mut files);
    let first = listed(&files);
    gather(&folder.join("second"), "", &mut files);
    let second = listed(&files);
    let uses = fs::read_to_string(folder.join("uses.json")).unwrap();
    let uses =
        serde_json::from_str(&uses).map_err(|error| format!("{}: {error}", folder.display()));
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let packages = Some(folder.join("packages")).filter(|packages| packages.is_dir());
    Plugin { name, first, second, uses: uses.unwrap(), packages }
}

/// Reads what is below a folder, by paths.
fn gather(folder: &Path, below: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{below}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            gather(&entry.path(), &format!("{path}/"), files);
        } else {
            files.insert(path, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

fn listed(files: &BTreeMap<String, String>) -> Vec<File> {
    let file =
        |(path, content): (&String, &String)| File { path: path.clone(), content: content.clone() };
    files.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Writes files as a home does: what begins with `#!` can be executed.
    fn written(files: &[File]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for File { path, content } in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            let mode = if content.starts_with("#!") { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    #[test]
    fn there_are_twelve_plugins_of_different_make_beside_the_guides() {
        let kept = kept();
        assert!(kept.len() >= 12, "{}", kept.len());
        let names: BTreeSet<String> = all().into_iter().map(|plugin| plugin.name).collect();
        assert_eq!(names.len(), guide::plugins().len() + kept.len(), "two have one name");
    }

    #[test]
    fn both_revisions_of_each_are_plugins_that_can_be_told_apart() {
        for plugin in all() {
            let Plugin { name, first, second, .. } = &plugin;
            for files in [first, second] {
                let folder = written(files);
                let described = famulus_bundle::describe(folder.path(), name, None);
                let described = described.unwrap_or_else(|error| panic!("{name}: {error}"));
                let named: BTreeSet<&str> =
                    described.tools.iter().map(|tool| tool.name.as_str()).collect();
                assert_eq!(named, tools(files), "{name}");
            }
            let changes = format!("{:?}", plugin.uses.before) != format!("{:?}", plugin.uses.after);
            assert!(changes || manifest(first) != manifest(second), "{name}: no change is visible");
        }
    }

    #[test]
    fn each_is_called_by_tools_that_it_has_and_given_keys_that_it_has() {
        for plugin in all() {
            let Plugin { name, first, second, uses, .. } = &plugin;
            assert!(plugin.call().is_some(), "{name} is never called");
            let phases = [
                (first, uses.before.as_slice()),
                (first, uses.meanwhile()),
                (second, &uses.after),
                (first, uses.back()),
            ];
            for (files, steps) in phases {
                assert!(!steps.is_empty(), "{name}");
                for Call { tool, .. } in steps.iter().flat_map(Step::calls) {
                    assert!(tools(files).contains(tool.as_str()), "{name} has no tool {tool}");
                }
            }
            let permitted = uses.tools.iter().map(String::as_str);
            let strange: Vec<&str> =
                permitted.filter(|tool| *tool != "*" && !tools(first).contains(tool)).collect();
            assert!(strange.is_empty(), "{name} has no {strange:?}");
            let manifest = manifest(first);
            for key in uses.values.keys() {
                assert!(manifest["config"][key].is_object(), "{name} has no key {key}");
            }
            let needed = plugin.required_key();
            assert!(needed.is_none_or(|key| uses.values.contains_key(&key)), "{name}");
        }
    }
}
