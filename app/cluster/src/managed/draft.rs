//! What the app writes of a Plugin, and nothing else of it.

use std::collections::BTreeMap;

use famulus_core::plugin::rules::invalid;
use famulus_core::plugin::{ManageError, PluginEvent, PluginFile, PluginSource};
use famulus_crds::labels::{HISTORY, REFRESH, RESTORED_FROM, RETRY, VALUES};
use famulus_crds::plugin::{
    EgressMode, GitSource, InlineFile, InlineSource, Plugin, Rollout, Source,
};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::history;

/// The annotations that the app writes, or that are left to it.
const ANNOTATIONS: [&str; 5] = [HISTORY, REFRESH, RESTORED_FROM, RETRY, VALUES];

/// Fields of a Plugin that are the app's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    /// The object's name.
    pub(super) object: String,
    name: String,
    pub(super) source: Source,
    pub(super) revision: Option<String>,
    pub(super) tools: Vec<String>,
    pub(super) egress: EgressMode,
    pub(super) annotations: BTreeMap<String, String>,
    /// Only if the object is still of this version.
    version: Option<String>,
}

impl Draft {
    /// A Plugin of which nothing may run.
    pub(super) fn new(name: String, source: Source) -> Self {
        Self {
            object: name.clone(),
            name,
            source,
            revision: None,
            tools: Vec::new(),
            egress: EgressMode::None,
            annotations: BTreeMap::new(),
            version: None,
        }
    }

    pub(crate) fn of(plugin: &Plugin) -> Self {
        let spec = &plugin.spec;
        let ours =
            plugin.annotations().iter().filter(|(key, _)| ANNOTATIONS.contains(&key.as_str()));
        Self {
            object: plugin.name_any(),
            name: spec.name.clone(),
            source: spec.source.clone(),
            revision: spec.revision.clone(),
            tools: spec.permissions.tools.clone(),
            egress: spec.egress.mode,
            annotations: ours.map(|(key, value)| (key.clone(), value.clone())).collect(),
            version: plugin.resource_version(),
        }
    }

    pub(super) fn note(&mut self, event: &PluginEvent) {
        let before = self.annotations.get(HISTORY).map(String::as_str);
        self.annotations.insert(HISTORY.to_owned(), history::with(before, event));
    }

    pub(super) fn try_again(&mut self, when: &str) {
        self.annotations.insert(RETRY.to_owned(), when.to_owned());
    }

    /// As it is applied.
    pub(crate) fn object(&self) -> Value {
        let mut object = json!({
            "apiVersion": Plugin::api_version(&()),
            "kind": Plugin::kind(&()),
            "metadata": {"name": self.object, "annotations": self.annotations},
            "spec": {
                "name": self.name,
                "source": self.source,
                "rollout": Rollout::Manual,
                "egress": {"mode": self.egress},
            },
        });
        if let Some(version) = &self.version {
            object["metadata"]["resourceVersion"] = version.as_str().into();
        }
        if let Some(revision) = &self.revision {
            object["spec"]["revision"] = revision.as_str().into();
        }
        if !self.tools.is_empty() {
            object["spec"]["permissions"] = json!({"tools": self.tools});
        }
        object
    }
}

/// As a Plugin has it.
pub(super) fn wanted_source(source: PluginSource) -> Result<Source, ManageError> {
    match source {
        PluginSource::Git { url, r#ref } => {
            Ok(Source { git: Some(GitSource { url, reference: r#ref }), inline: None })
        }
        PluginSource::Inline { files } => {
            let bytes: usize = files.iter().map(|file| file.content.len()).sum();
            if bytes > famulus_crds::plugin::MOST_INLINE_BYTES {
                return Err(invalid(format!(
                    "its files hold {bytes} bytes in all, and a Plugin of a cluster keeps {} at most; put \
                     it into a git repository, and install its address",
                    famulus_crds::plugin::MOST_INLINE_BYTES
                )));
            }
            let file = |PluginFile { path, content }| InlineFile { path, content };
            let files = files.into_iter().map(file).collect();
            Ok(Source { inline: Some(InlineSource { files }), git: None })
        }
    }
}

/// As everybody else has it.
pub(super) fn source(source: &Source) -> Result<PluginSource, ManageError> {
    match (&source.git, &source.inline) {
        (Some(git), _) => {
            Ok(PluginSource::Git { url: git.url.clone(), r#ref: git.reference.clone() })
        }
        (None, Some(inline)) => {
            let file = |file: &InlineFile| PluginFile {
                path: file.path.clone(),
                content: file.content.clone(),
            };
            Ok(PluginSource::Inline { files: inline.files.iter().map(file).collect() })
        }
        (None, None) => Err(invalid("its source is of a kind that this version does not know")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_the_apps_is_written() {
        let plugin: Plugin = serde_json::from_value(json!({
            "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "weather", "resourceVersion": "7",
                "annotations": {"mine": "1", REFRESH: "2"}, "labels": {"mine": "1"}},
            "spec": {"name": "weather", "rollout": "Manual", "revision": "r",
                "source": {"git": {"url": "https://git.example/weather"}},
                "permissions": {"tools": ["*"]}, "egress": {"mode": "Internet"},
                "runner": {"replicas": 1, "idleSeconds": 7}, "suspend": true},
        }))
        .unwrap();
        let expected = json!({
            "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "weather", "resourceVersion": "7", "annotations": {REFRESH: "2"}},
            "spec": {"name": "weather", "rollout": "Manual", "revision": "r",
                "source": {"git": {"url": "https://git.example/weather", "ref": "HEAD"}},
                "permissions": {"tools": ["*"]}, "egress": {"mode": "Internet"}},
        });
        assert_eq!(Draft::of(&plugin).object(), expected);
    }

    #[test]
    fn a_source_is_the_same_on_both_sides() {
        let files = vec![PluginFile { path: "a".to_owned(), content: "b".to_owned() }];
        let git = PluginSource::Git { url: "https://x/y".to_owned(), r#ref: "v1".to_owned() };
        for one in [PluginSource::Inline { files }, git] {
            assert_eq!(source(&wanted_source(one.clone()).unwrap()).unwrap(), one);
        }
        let large = PluginFile { path: "a".to_owned(), content: "x".repeat(65_537) };
        let refused = wanted_source(PluginSource::Inline { files: vec![large] }).unwrap_err();
        assert!(refused.to_string().contains("65537 bytes"), "{refused}");
    }
}
