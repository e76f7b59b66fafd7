//! Plugins as a model may see them: those of which the owner permits something.

use crate::tool::ToolError;
use famulus_core::blob::Blobs;
use famulus_core::plugin::{
    self, Description, LateCalls, ManagedPlugins, Revisions, ToolDescription,
};
use famulus_core::sandbox::{PluginState, SandboxError, Sandboxes};
use std::sync::Arc;

/// What the tools about plugins reach.
#[derive(Clone)]
pub struct PluginPorts {
    pub sandboxes: Arc<dyn Sandboxes>,
    pub revisions: Arc<dyn Revisions>,
    pub late: Arc<dyn LateCalls>,
    pub blobs: Arc<dyn Blobs>,
    pub managed: Arc<dyn ManagedPlugins>,
}

impl PluginPorts {
    /// The plugins by name. One of which nothing is permitted does not exist for a model; one that
    /// was never built does, and says why it is not there.
    pub(crate) async fn visible(&self) -> Result<Vec<PluginState>, ToolError> {
        let plugins = self.sandboxes.plugins().await.map_err(|error| tool_error(&error))?;
        let is_visible =
            |plugin: &PluginState| !plugin.tools.is_empty() || plugin.revision.is_none();
        Ok(plugins.into_iter().filter(is_visible).collect())
    }

    pub(crate) async fn find(&self, name: &str) -> Result<PluginState, ToolError> {
        let mut plugins = self.visible().await?;
        if let Some(place) = plugins.iter().position(|plugin| plugin.name == name) {
            return Ok(plugins.swap_remove(place));
        }
        let known: Vec<&str> = plugins.iter().map(|p| p.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(tool_error(&SandboxError::NoPlugin { plugin: short(name), known }))
    }

    /// What the plugin's revision says of itself; nothing when it says nothing.
    pub(crate) async fn described(
        &self,
        plugin: &PluginState,
    ) -> Result<Option<Description>, ToolError> {
        let Some(revision) = &plugin.revision else { return Ok(None) };
        Ok(self.revisions.described(revision).await?)
    }
}

/// Whether the owner permits the tool of this name; what is not permitted is not found.
pub(crate) fn permitted(
    plugin: &PluginState,
    description: Option<&Description>,
    tool: &str,
) -> Result<(), ToolError> {
    if !plugin.tools.iter().any(|permitted| permitted == tool) {
        let tools: Vec<String> = plugin
            .tools
            .iter()
            .map(|name| {
                let described = described(description, name);
                described.map_or_else(|| name.clone(), ToolDescription::signature)
            })
            .collect();
        let (name, tool) = (&plugin.name, short(tool));
        return Err(ToolError::Call(format!(
            "the plugin `{name}` has no tool `{tool}`; its tools are: {}",
            tools.join(", ")
        )));
    }
    Ok(())
}

pub(crate) fn described<'a>(
    description: Option<&'a Description>,
    tool: &str,
) -> Option<&'a ToolDescription> {
    description?.tools.iter().find(|described| described.name == tool)
}

/// An error of the sandboxes, for the model.
pub(crate) fn tool_error(error: &SandboxError) -> ToolError {
    ToolError::Call(plugin::not_run(error))
}

fn short(name: &str) -> String {
    name.chars().take(80).collect()
}
