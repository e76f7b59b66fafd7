//! docs/PLUGINS.md, as tests read it.
//!
//! A fenced block whose first line names a path is that file, and a block of the kind `console` is calls
//! with their answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A call of the guide, and what it says that comes back.
#[derive(Debug)]
pub struct Example {
    pub tool: String,
    pub parameters: Value,
    pub answer: String,
}

/// A plugin as the guide has it.
#[derive(Debug, Default)]
pub struct Written {
    pub files: Vec<(String, String)>,
    pub config: Option<Value>,
    pub examples: Vec<Example>,
}

/// The plugins of the guide by their names.
pub fn guide() -> BTreeMap<String, Written> {
    let text = fs::read_to_string(root().join("docs/PLUGINS.md")).unwrap();
    let mut plugins: BTreeMap<String, Written> = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match kind.split_once(' ') {
            Some((_, path)) => {
                let (plugin, path) = path.split_once('/').unwrap();
                let content = format!("{}\n", block.join("\n"));
                let plugin = plugins.entry(plugin.to_owned()).or_default();
                if path == "config.json" {
                    plugin.config = Some(serde_json::from_str(&content).unwrap());
                } else {
                    plugin.files.push((path.to_owned(), content));
                }
            }
            None if kind == "console" => {
                for (plugin, example) in examples(&block) {
                    plugins.get_mut(&plugin).unwrap().examples.push(example);
                }
            }
            None => {}
        }
    }
    plugins
}

/// Reads `$ cd PLUGIN/TOOL && echo 'JSON' | ./ENTRYPOINT` and what follows.
fn examples(block: &[&str]) -> Vec<(String, Example)> {
    let mut found: Vec<(String, Example)> = Vec::new();
    for line in block {
        let Some(command) = line.strip_prefix("$ ") else {
            let (_, example) = found.last_mut().unwrap();
            example.answer.push_str(line);
            example.answer.push('\n');
            continue;
        };
        let parts = command.strip_prefix("cd ").and_then(|rest| rest.split_once(" && echo '"));
        let (folder, rest) = parts.unwrap();
        let (plugin, tool) = folder.split_once('/').unwrap();
        let (parameters, _entrypoint) = rest.split_once("' | ./").unwrap();
        let parameters = serde_json::from_str(parameters).unwrap();
        let example = Example { tool: tool.to_owned(), parameters, answer: String::new() };
        found.push((plugin.to_owned(), example));
    }
    found
}
