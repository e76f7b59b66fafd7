//! The files with which a plugin begins that is written here.

use super::PluginFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a new plugin has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// One tool, in Python, with nothing but the standard library.
    #[default]
    Python,
    /// A manifest, and no tool yet.
    Empty,
}

/// What stands in a manifest that nobody gave a description.
const UNDESCRIBED: &str = "A plugin that is being written.";

const RUN: &str = r#"#!/usr/bin/env python3
import json
import sys

given = json.load(sys.stdin)
name = given.get("name", "world")
json.dump({"greeting": f"Hello, {name}!"}, sys.stdout)
"#;

impl Template {
    /// The files of the plugin `name`.
    pub fn files(self, name: &str, description: Option<&str>) -> Vec<PluginFile> {
        let file = |path: &str, content: String| PluginFile { path: path.to_owned(), content };
        let plugin = json!({"name": name, "description": description.unwrap_or(UNDESCRIBED)});
        let mut files = vec![file("manifest.json", format!("{plugin:#}\n"))];
        match self {
            Self::Empty => {}
            Self::Python => {
                let tool = json!({
                    "name": "hello",
                    "description": "Says hello to somebody.",
                    "entrypoint": "run.py",
                    "parameters": {"name": {"type": "string", "description": "Who is greeted."}},
                });
                files.push(file("hello/manifest.json", format!("{tool:#}\n")));
                files.push(file("hello/run.py", RUN.to_owned()));
            }
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::editing::edited;
    use serde_json::Value;

    #[test]
    fn a_new_plugin_has_its_name_and_whole_manifests() {
        let check = |template: Template, description: Option<&str>, paths: &[&str]| {
            let files = template.files("dice", description);
            let found: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(found, paths);
            let manifest: Value = serde_json::from_str(&files[0].content).unwrap();
            assert_eq!(manifest["name"], "dice");
            let said = manifest["description"].as_str().unwrap();
            assert_eq!(said, description.unwrap_or("A plugin that is being written."));
            assert!(edited(files, Vec::new()).is_ok());
        };
        let odd = "Throws \"dice\",\nand more.";
        check(Template::Empty, Some(odd), &["manifest.json"]);
        check(Template::default(), None, &["manifest.json", "hello/manifest.json", "hello/run.py"]);
    }

    #[test]
    fn the_tool_of_a_template_names_the_program_beside_it() {
        let files = Template::Python.files("dice", None);
        let manifest: Value = serde_json::from_str(&files[1].content).unwrap();
        assert_eq!(
            (&manifest["name"], &manifest["entrypoint"]),
            (&json!("hello"), &json!("run.py"))
        );
        assert!(files[2].content.starts_with("#!"), "or it could not be executed");
    }
}
