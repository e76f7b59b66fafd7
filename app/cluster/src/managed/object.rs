//! Plugin objects, read and written: by server-side apply, and without force.

use std::future::Future;
use std::time::Duration;

use famulus_core::plugin::ManageError;
use famulus_core::plugin::rules::invalid;
use famulus_crds::plugin::Plugin;
use famulus_errors::chain;
use famulus_sandbox::Home as _;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use tokio::time::timeout;

use super::draft::Draft;
use crate::cluster::Cluster;

/// The manager of the fields that the app writes.
pub(crate) const APP: &str = "famulus-app";

/// One request.
const REQUEST: Duration = Duration::from_secs(15);

/// How often a change is tried of which somebody was ahead.
const TRIES: u32 = 5;

const CONFLICT: u16 = 409;

/// # Errors
/// Somebody else wrote a part of its spec.
pub(crate) fn owned(plugin: &Plugin) -> Result<(), ManageError> {
    let other = match managers(plugin).as_slice() {
        [] => "somebody who is not named".to_owned(),
        all => match all.iter().find(|manager| *manager != APP) {
            None => return Ok(()),
            Some(other) => other.clone(),
        },
    };
    let object = plugin.name_any();
    let namespace = plugin.namespace().unwrap_or_default();
    Err(invalid(format!(
        "the plugin `{}` is managed by {other}: the Plugin {object} in the namespace {namespace} is changed \
         and deleted there",
        plugin.spec.name
    )))
}

/// Whoever wrote a field of the spec. How many runners there are is another thing.
fn managers(plugin: &Plugin) -> Vec<String> {
    let mut all = Vec::new();
    for entry in plugin.metadata.managed_fields.iter().flatten() {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let has_spec = fields.is_some_and(|fields| fields.get("f:spec").is_some());
        let is_whole = entry.subresource.as_deref().unwrap_or_default().is_empty();
        if has_spec && is_whole {
            all.push(entry.manager.clone().unwrap_or_default());
        }
    }
    all
}

impl Cluster {
    /// The Plugin of this name, as it is now.
    pub(super) async fn find(&self, name: &str) -> Result<Plugin, ManageError> {
        let object =
            self.plugin(name).map_or_else(|| name.to_owned(), |known| known.object.clone());
        let missing = || ManageError::NoPlugin(name.chars().take(64).collect());
        let is_one = !object.is_empty() && object.len() <= 253 && !object.contains('/');
        if !is_one {
            return Err(missing());
        }
        let found = asked("read", self.objects().get_opt(&object)).await?;
        found.filter(|plugin| plugin.spec.name == name).ok_or_else(missing)
    }

    /// Changes what is the app's of a Plugin that is the app's, and gives it with what `change` says, which may be
    /// called again.
    pub(super) async fn change<T>(
        &self,
        name: &str,
        change: impl Fn(&Plugin, &mut Draft) -> Result<T, ManageError> + Send + Sync,
    ) -> Result<(Plugin, T), ManageError> {
        let mut tries = 0;
        loop {
            let plugin = self.find(name).await?;
            owned(&plugin)?;
            let mut draft = Draft::of(&plugin);
            let said = change(&plugin, &mut draft)?;
            tries += 1;
            match self.write(&draft).await {
                Err(ManageError::Failed { reason, .. }) if reason == CHANGED && tries < TRIES => {}
                written => return Ok((written?, said)),
            }
        }
    }

    pub(super) async fn write(&self, draft: &Draft) -> Result<Plugin, ManageError> {
        let (apply, object) = (PatchParams::apply(APP), draft.object());
        asked("write", self.objects().patch(&draft.object, &apply, &Patch::Apply(&object))).await
    }

    /// Deletes this one, and none that took its name since.
    pub(super) async fn delete(&self, plugin: &Plugin) -> Result<(), ManageError> {
        let preconditions = Some(Preconditions { uid: plugin.uid(), resource_version: None });
        let which = DeleteParams { preconditions, ..DeleteParams::background() };
        let (objects, object) = (self.objects(), plugin.name_any());
        let deleted = async {
            match objects.delete(&object, &which).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
                deleted => deleted.map(drop),
            }
        };
        asked("delete", deleted).await
    }

    fn objects(&self) -> Api<Plugin> {
        Api::namespaced(self.kube.clone(), &self.namespace)
    }
}

/// Somebody was ahead.
const CHANGED: &str = "Changed";

/// The answer to a request about Plugins.
pub(super) async fn asked<T>(
    what: &str,
    request: impl Future<Output = kube::Result<T>> + Send,
) -> Result<T, ManageError> {
    let failed =
        |reason: &str, message: String| ManageError::Failed { reason: reason.to_owned(), message };
    let answer = timeout(REQUEST, request).await.map_err(|_elapsed| {
        failed(
            "ClusterAway",
            format!("the API server did not {what} the Plugin in time; try again"),
        )
    })?;
    answer.map_err(|error| {
        let kube::Error::Api(status) = &error else {
            let why = chain(&error);
            return failed("ClusterAway", format!("the API server did not {what} the Plugin: {why}"));
        };
        let said = &status.message;
        match status.code {
            CONFLICT => failed(
                CHANGED,
                format!("the Plugin was changed by somebody else meanwhile ({said}); try again"),
            ),
            // A rule of the schema names the field, the cause and the remedy.
            422 => invalid(said.clone()),
            403 => failed(
                "NotAllowed",
                format!(
                    "the app may not {what} Plugins here ({said}); see the Role of its ServiceAccount"
                ),
            ),
            _ => failed(
                "ClusterAway",
                format!("the API server did not {what} the Plugin: {said}; try again"),
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plugin(fields: &Value) -> Plugin {
        serde_json::from_value(json!({
            "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "weather", "namespace": "sandbox", "managedFields": fields},
            "spec": {"name": "weather", "source": {"inline": {"files": []}}},
        }))
        .unwrap()
    }

    fn entry(manager: &str, subresource: &str, field: &str) -> Value {
        let mut entry = json!({"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1",
            "fieldsV1": {field: {"f:source": {}}}});
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    }

    #[test]
    fn whoever_wrote_a_part_of_the_spec_owns_it() {
        let ours = entry(APP, "", "f:spec");
        let check = |others: &[Value], refused: Option<&str>| {
            let all = [std::slice::from_ref(&ours), others].concat();
            let said = owned(&plugin(&all.into())).err().map(|error| error.to_string());
            assert_eq!(said.is_some(), refused.is_some(), "{others:?}: {said:?}");
            let part = format!("managed by {}", refused.unwrap_or_default());
            assert!(said.is_none_or(|said| said.contains(&part)), "{others:?}");
        };
        check(&[], None);
        check(&[entry("famulus", "scale", "f:spec")], None);
        check(&[entry("famulus-operator", "status", "f:status")], None);
        check(&[entry("kubectl", "", "f:metadata")], None);
        check(&[entry("kubectl-edit", "", "f:spec")], Some("kubectl-edit"));
        check(
            &[entry("argocd", "", "f:spec"), entry("famulus", "scale", "f:spec")],
            Some("argocd"),
        );
        let nobody = owned(&plugin(&json!([]))).unwrap_err();
        assert!(nobody.to_string().contains("somebody who is not named"), "{nobody}");
    }
}
