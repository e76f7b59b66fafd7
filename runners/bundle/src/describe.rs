//! Manifests, validated all together, become what the app is told of a revision.

use std::io;
use std::path::Path;

use famulus_protocol::revision::{Description, INSTRUCTION_LETTERS, ToolDescription};
use serde_json::{Map, json};

use crate::contents;
use crate::manifest::{self, PluginManifest, ToolManifest};
use crate::tree::{Tree, executable};

/// Complaints that are named at once.
const MOST_COMPLAINTS: usize = 8;

/// Why a tree is not described.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// A line for each thing that is wrong, with file, key and remedy.
    #[error("{0}")]
    Manifest(String),
    #[error("the plugin's tree cannot be read: {0}")]
    Disk(#[from] io::Error),
}

/// Reads the manifests of a tree of the plugin `expected`. Everything that is wrong is said at once.
pub fn describe(
    root: &Path,
    expected: &str,
    commit: Option<String>,
) -> Result<Description, DescribeError> {
    let tree = Tree::open(root)?;
    let mut complaints = Vec::new();
    let plugin = match manifest::plugin(&tree) {
        Ok(plugin) => {
            complaints.extend(name(&plugin, expected));
            complaints.extend(init(&tree, &plugin));
            Some(plugin)
        }
        Err(complaint) => {
            complaints.push(complaint.to_string());
            None
        }
    };
    let (mut tools, mut scripts) = (Vec::new(), Vec::new());
    let has_init = plugin.as_ref().is_some_and(|plugin| plugin.init.is_some());
    for name in tree.tools()? {
        match manifest::tool(&tree, &name) {
            Ok(tool) => {
                complaints.extend(entrypoint(&tree, &tool, has_init));
                scripts.push(format!("{}/{}", tool.name, tool.entrypoint));
                tools.push(describe_tool(tool));
            }
            Err(complaint) => complaints.push(complaint.to_string()),
        }
    }
    let Some(plugin) = plugin.filter(|_| complaints.is_empty()) else {
        let more = complaints.len().saturating_sub(MOST_COMPLAINTS);
        complaints.truncate(MOST_COMPLAINTS);
        if more > 0 {
            complaints.push(format!("and {more} more"));
        }
        return Err(DescribeError::Manifest(complaints.join("\n")));
    };
    scripts.extend(plugin.init.as_ref().map(|init| init.entrypoint.clone()));
    let contents = contents::of(&tree, &scripts)?;
    Ok(Description {
        plugin: plugin.name,
        description: plugin.description,
        instructions: plugin
            .instructions
            .map(|text| text.chars().take(INSTRUCTION_LETTERS).collect()),
        commit,
        config: plugin.config,
        tools,
        contents: Some(contents),
    })
}

fn name(plugin: &PluginManifest, expected: &str) -> Option<String> {
    (plugin.name != expected).then(|| {
        format!(
            "manifest.json: key `name` is `{}`, but the Plugin's spec.name is `{}`; give both the \
             same name",
            plugin.name,
            expected.escape_debug()
        )
    })
}

fn init(tree: &Tree, plugin: &PluginManifest) -> Option<String> {
    let entrypoint = &plugin.init.as_ref()?.entrypoint;
    let what = runnable(tree, entrypoint).err()?;
    Some(format!(
        "manifest.json: key `init.entrypoint` names {entrypoint}, which cannot be run: {what}"
    ))
}

/// What is to be run must be there and executable; an init script may still make it.
fn entrypoint(tree: &Tree, tool: &ToolManifest, has_init: bool) -> Option<String> {
    let path = format!("{}/{}", tool.name, tool.entrypoint);
    if has_init && !tree.root().join(&path).exists() {
        return None;
    }
    let what = runnable(tree, &path).err()?;
    Some(format!(
        "{}/manifest.json: key `entrypoint` names {path}, which cannot be run: {what}",
        tool.name
    ))
}

fn runnable(tree: &Tree, path: &str) -> Result<(), String> {
    let place =
        tree.inside(path).map_err(|error| format!("{error}; add it, or correct the key"))?;
    executable(&place)
}

fn describe_tool(tool: ToolManifest) -> ToolDescription {
    let mut parameters = Map::new();
    for parameter in tool.parameters {
        let kind = parameter.kind.word();
        parameters
            .insert(parameter.name, json!({"type": kind, "description": parameter.description}));
    }
    ToolDescription {
        name: tool.name,
        description: tool.description,
        r#async: tool.is_async,
        concurrent: tool.is_concurrent,
        parameters,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(root: &Path, path: &str, text: &str, mode: u32) {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    const TOOL: &str = r#"{"name":"t","description":"Does it.","entrypoint":"run","async":true,
        "parameters":{"z":{"type":"file","description":"Last."},"a":{"type":"integer","description":"First."}}}"#;

    #[test]
    fn a_plugin_is_described_with_parameters_in_the_manifests_order() {
        let base = tempfile::tempdir().unwrap();
        let long = "ä".repeat(INSTRUCTION_LETTERS + 1);
        let manifest = format!(
            r#"{{"name":"p","description":"It helps.","instructions":"{long}","config":{{"k":{{"description":"d"}}}}}}"#
        );
        write(base.path(), "manifest.json", &manifest, 0o644);
        write(base.path(), "t/manifest.json", TOOL, 0o644);
        write(base.path(), "t/run", "#!/bin/sh\n", 0o755);
        let description = describe(base.path(), "p", Some("c0ffee".into())).unwrap();
        assert_eq!(description.instructions.unwrap().chars().count(), INSTRUCTION_LETTERS);
        assert_eq!(description.config[0].key, "k");
        let [tool] = &description.tools[..] else { panic!("{:?}", description.tools) };
        assert!(tool.r#async && !tool.concurrent);
        let names: Vec<&String> = tool.parameters.keys().collect();
        assert_eq!(names, ["z", "a"]);
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let base = tempfile::tempdir().unwrap();
        let init = r#"{"name":"q","description":"d","init":{"entrypoint":"init.sh"}}"#;
        write(base.path(), "manifest.json", init, 0o644);
        write(base.path(), "init.sh", "#!/bin/sh\n", 0o644);
        write(base.path(), "t/manifest.json", TOOL, 0o644);
        write(base.path(), "t/run", "#!/bin/sh\n", 0o644);
        write(base.path(), "u/manifest.json", "{}", 0o644);
        let failure = describe(base.path(), "p", None).unwrap_err();
        let message = failure.to_string();
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(
            lines,
            [
                "manifest.json: key `name` is `q`, but the Plugin's spec.name is `p`; give both the same name",
                "manifest.json: key `init.entrypoint` names init.sh, which cannot be run: it is not executable; run `chmod +x` on it",
                "t/manifest.json: key `entrypoint` names t/run, which cannot be run: it is not executable; run `chmod +x` on it",
                "u/manifest.json: key `name` is missing; add it: `\"name\": \"u\"`",
            ]
        );
        let empty = tempfile::tempdir().unwrap();
        let failure = describe(empty.path(), "p", None).unwrap_err();
        assert!(matches!(&failure, DescribeError::Manifest(_)), "{failure:?}");
        assert!(failure.to_string().contains("manifest.json: the file cannot be read"));
    }

    #[test]
    fn an_init_script_may_make_what_a_tool_runs() {
        let base = tempfile::tempdir().unwrap();
        write(base.path(), "t/manifest.json", TOOL, 0o644);
        write(base.path(), "manifest.json", r#"{"name":"p","description":"d"}"#, 0o644);
        assert!(describe(base.path(), "p", None).is_err());
        let init = r#"{"name":"p","description":"d","init":{"entrypoint":"make.sh"}}"#;
        write(base.path(), "manifest.json", init, 0o644);
        write(base.path(), "make.sh", "#!/bin/sh\n", 0o755);
        describe(base.path(), "p", None).unwrap();
    }
}
