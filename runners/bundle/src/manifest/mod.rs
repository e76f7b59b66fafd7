//! Manifests: raw JSON becomes a checked type, and every complaint names file, key and remedy.

mod fields;
mod plugin;
mod tool;

use std::io;

pub use fields::kind;
pub use plugin::PluginManifest;
pub use tool::{Parameter, ParameterType, ToolManifest};

use crate::tree::Tree;

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}; {remedy}")]
pub struct ManifestError {
    /// Relative to the plugin's folder.
    pub file: String,
    pub what: String,
    pub remedy: String,
}

impl ManifestError {
    fn unreadable(file: &str, error: &io::Error) -> Self {
        let remedy = if error.kind() == io::ErrorKind::NotFound {
            "add it, as the plugin guide describes"
        } else {
            "make it a readable file of the plugin"
        };
        Self {
            file: file.to_owned(),
            what: format!("the file cannot be read: {error}"),
            remedy: remedy.to_owned(),
        }
    }
}

/// Reads the plugin's manifest.
pub fn plugin(tree: &Tree) -> Result<PluginManifest, ManifestError> {
    let file = "manifest.json";
    let text = tree.read(file).map_err(|error| ManifestError::unreadable(file, &error))?;
    PluginManifest::read(file, &text)
}

/// Reads the manifest of a tool, whose folder has its name.
pub fn tool(tree: &Tree, name: &str) -> Result<ToolManifest, ManifestError> {
    let file = format!("{name}/manifest.json");
    let text = tree.read(&file).map_err(|error| ManifestError::unreadable(&file, &error))?;
    ToolManifest::read(&file, name, &text)
}
