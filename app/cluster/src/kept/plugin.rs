//! One Plugin as a backup keeps it, and as it is made again. Pure.

use std::collections::BTreeMap;

use famulus_crds::labels::{CHANGES, CONFIG_FOR, RESTORED_FROM, VALUES};
use famulus_crds::names::{Child, child, stem};
use famulus_crds::plugin::{Plugin, PluginSpec, Rollout, State};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{Keeps, Rest};
use crate::managed::object::owned;

/// The annotation in which kubectl keeps what it applied last.
const OF_KUBECTL: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A Plugin without what belongs to the cluster that it was in.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptPlugin {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    spec: PluginSpec,
    /// The revision that served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    /// All of its spec was written by the app.
    #[serde(default)]
    pub(super) managed: bool,
}

impl Keeps {
    pub(super) fn of(plugin: &Plugin) -> Self {
        let spec = &plugin.spec;
        // What was never built has written nothing.
        let status = plugin.status.as_ref();
        let serves = status.is_some_and(|status| status.revision.is_some());
        let has_values = status.is_some_and(|status| !status.config_keys.is_empty());
        Self {
            plugin: plugin.name_any(),
            files: serves && spec.state == State::Persistent,
            configuration: serves && (spec.config_secret_ref.is_some() || has_values),
            suspended: spec.suspend,
        }
    }
}

impl KeptPlugin {
    pub(super) fn of(plugin: Plugin) -> Self {
        let managed = owned(&plugin).is_ok();
        let Plugin { metadata, spec, status } = plugin;
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.remove(OF_KUBECTL);
        annotations.remove(RESTORED_FROM);
        Self {
            name: metadata.name.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations,
            spec,
            revision: status.and_then(|status| status.revision),
            managed,
        }
    }

    /// The Secret that it is configured by, or that its values come in.
    pub(super) fn configured_by(&self, rest: &Rest) -> serde_json::Result<Option<Secret>> {
        let Some(values) = rest.configurations.get(&self.name) else { return Ok(None) };
        let (name, values) = match &self.spec.config_secret_ref {
            Some(reference) => (reference.name.clone(), serde_json::from_slice(values)?),
            None if self.managed => {
                let values = String::from_utf8_lossy(values).into_owned();
                (child(&self.name, Child::Values), [(CHANGES.to_owned(), values)].into())
            }
            None => return Ok(None),
        };
        Ok(Some(Secret {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some([(CONFIG_FOR.to_owned(), stem(&self.name))].into()),
                ..ObjectMeta::default()
            },
            string_data: Some(values),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }))
    }

    pub(super) fn into_object(self, rest: &Rest) -> Plugin {
        let Self { name, labels, mut annotations, mut spec, revision, managed } = self;
        if rest.files.contains(&name) && spec.state == State::Persistent {
            annotations.insert(RESTORED_FROM.to_owned(), rest.backup.clone());
        }
        if managed && rest.configurations.contains_key(&name) {
            annotations.insert(VALUES.to_owned(), rest.backup.clone());
        }
        // The newest commit may be another by now, or gone.
        if spec.source.git.is_some() && spec.rollout == Rollout::Automatic {
            spec.revision = spec.revision.or(revision);
        }
        let mut plugin = Plugin::new(&name, spec);
        plugin.metadata.labels = Some(labels).filter(|labels| !labels.is_empty());
        plugin.metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
        plugin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::draft::Draft;
    use crate::managed::object::APP;
    use serde_json::{Value, json};

    fn plugin(source: &Value) -> Plugin {
        let object = json!({
            "apiVersion": "famulus.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {
                "name": "weather", "namespace": "old", "uid": "1", "resourceVersion": "7",
                "labels": {"mine": "yes"},
                "annotations": {OF_KUBECTL: "{}", "famulus.dev/refresh": "2"},
            },
            "spec": {"name": "weather", "source": source, "suspend": true},
            "status": {"revision": format!("sha256:{}", "a".repeat(64))},
        });
        serde_json::from_value(object).unwrap()
    }

    fn kept(plugin: Plugin) -> KeptPlugin {
        let bytes = serde_json::to_vec(&[KeptPlugin::of(plugin)]).unwrap();
        let mut kept: Vec<KeptPlugin> = serde_json::from_slice(&bytes).unwrap();
        kept.remove(0)
    }

    fn again(plugin: Plugin) -> Plugin {
        kept(plugin).into_object(&Rest::default())
    }

    #[test]
    fn a_plugin_waits_for_the_files_that_a_backup_has_and_has_its_configuration_before() {
        let mut before = plugin(&json!({"inline": {"files": []}}));
        before.annotations_mut().insert(RESTORED_FROM.to_owned(), "an older one".to_owned());
        assert_eq!(again(before.clone()).annotations().get(RESTORED_FROM), None);
        let rest = Rest {
            backup: "b".to_owned(),
            files: ["weather".to_owned()].into(),
            configurations: [("weather".to_owned(), br#"{"token": "t"}"#.to_vec())].into(),
        };
        assert_eq!(kept(before.clone()).configured_by(&rest).unwrap(), None, "it asks for none");
        before.spec.config_secret_ref =
            Some(serde_json::from_value(json!({"name": "weather-config"})).unwrap());
        let secret = kept(before.clone()).configured_by(&rest).unwrap().unwrap();
        assert_eq!(secret.name_any(), "weather-config");
        assert_eq!(secret.labels().get(CONFIG_FOR), Some(&stem("weather")));
        assert_eq!(secret.string_data.unwrap()["token"], "t");
        let after = kept(before.clone()).into_object(&rest);
        assert_eq!(after.annotations()[RESTORED_FROM], "b");
        let keeps = |plugin: &Plugin| {
            let Keeps { files, configuration, suspended, .. } = Keeps::of(plugin);
            (files, configuration, suspended)
        };
        assert_eq!(keeps(&before), (true, true, true));
        before.spec.state = State::Ephemeral;
        before.spec.suspend = false;
        assert_eq!(keeps(&before), (false, true, false));
        assert_eq!(kept(before.clone()).into_object(&rest).annotations().get(RESTORED_FROM), None);
        before.status = None;
        assert_eq!(keeps(&before), (false, false, false));
    }

    #[test]
    fn a_plugin_comes_back_as_its_owner_wrote_it() {
        let before = plugin(&json!({"inline": {"files": []}}));
        let after = again(before.clone());
        assert_eq!(after.spec, before.spec);
        assert_eq!(after.metadata.labels, before.metadata.labels);
        let annotations: Vec<String> = after.metadata.annotations.unwrap().into_keys().collect();
        assert_eq!(annotations, ["famulus.dev/refresh"]);
        let of_the_cluster = (after.metadata.uid, after.metadata.resource_version, after.status);
        assert_eq!(of_the_cluster, (None, None, None));
        assert_eq!(after.metadata.namespace, None);
    }

    #[test]
    fn a_plugin_from_git_serves_the_revision_that_served() {
        let source = json!({"git": {"url": "https://git.home.example/weather"}});
        let before = plugin(&source);
        let served = before.status.as_ref().unwrap().revision.clone();
        assert_eq!(again(before.clone()).spec.revision, served);
        let mut pinned = before;
        pinned.spec.revision = Some(format!("sha256:{}", "b".repeat(64)));
        assert_eq!(again(pinned.clone()).spec.revision, pinned.spec.revision);
    }

    #[test]
    fn what_the_app_wrote_comes_back_as_the_apps_with_its_values_and_its_pin() {
        let mut before = plugin(&json!({"git": {"url": "https://git.home.example/weather"}}));
        assert!(!kept(before.clone()).managed, "nobody is named");
        before.spec.rollout = Rollout::Manual;
        before.metadata.managed_fields = serde_json::from_value(json!([
            {"manager": APP, "operation": "Apply", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:source": {}}}},
        ]))
        .unwrap();
        before.status.as_mut().unwrap().config_keys = vec!["token".to_owned()];
        assert!(Keeps::of(&before).configuration);
        let rest = Rest {
            backup: "b".to_owned(),
            configurations: [("weather".to_owned(), br#"{"token": "t"}"#.to_vec())].into(),
            files: ["weather".to_owned()].into(),
        };
        let one = kept(before.clone());
        assert!(one.managed);
        let secret = one.configured_by(&rest).unwrap().unwrap();
        assert_eq!(secret.name_any(), "weather-values");
        assert_eq!(secret.labels().get(CONFIG_FOR), Some(&stem("weather")));
        assert_eq!(secret.string_data.unwrap()[CHANGES], r#"{"token": "t"}"#);
        let after = one.into_object(&rest);
        assert_eq!(after.spec.revision, None, "nothing was permitted of it");
        let object = Draft::of(&after).object();
        let annotations = &object["metadata"]["annotations"];
        assert_eq!((&annotations[VALUES], &annotations[RESTORED_FROM]), (&"b".into(), &"b".into()));
        assert_eq!(object["spec"]["rollout"], "Manual");
        assert_eq!(object["metadata"]["resourceVersion"], Value::Null);
    }
}
