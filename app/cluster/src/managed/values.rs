//! Values of a configuration, on their way to the operator: in a Secret that the app makes and cannot read.

use std::time::Duration;

use famulus_core::Clock;
use famulus_core::plugin::{ManageError, PluginEvent};
use famulus_crds::labels::{CHANGES, CONFIG_FOR, VALUES};
use famulus_crds::names::{Child, child, stem};
use famulus_crds::plugin::Plugin;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::object::{APP, asked};
use crate::cluster::Cluster;

/// Until the operator took what was brought before.
const TAKEN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(500);

/// What is to change: a value, which a cluster keeps as text, or none any more.
pub(super) fn changes(key: &str, value: Option<Value>) -> Vec<u8> {
    let value = match value {
        None | Some(Value::Null) => Value::Null,
        Some(Value::String(text)) => Value::String(text),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            Value::String(other.to_string())
        }
    };
    Value::Object(Map::from_iter([(key.to_owned(), value)])).to_string().into_bytes()
}

impl Cluster {
    /// Brings changes of its configuration to a Plugin. It goes with the Plugin, if nobody takes it.
    pub(super) async fn bring(
        &self,
        plugin: &Plugin,
        changes: Vec<u8>,
        event: &PluginEvent,
        clock: &dyn Clock,
    ) -> Result<(), ManageError> {
        let secrets: Api<Secret> = Api::namespaced(self.kube.clone(), &self.namespace);
        let secret = secret(plugin, changes);
        let by_app = PostParams { field_manager: Some(APP.to_owned()), ..PostParams::default() };
        let until = Instant::now() + TAKEN;
        loop {
            let made = async {
                match secrets.create(&by_app, &secret).await {
                    Ok(_) => Ok(true),
                    // What was brought before is still there.
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
                    Err(error) => Err(error),
                }
            };
            let is_made = asked("bring a value to", made).await?;
            let told = clock.now().as_microsecond().to_string();
            let changed = self.change(&plugin.spec.name, |_, draft| {
                draft.annotations.insert(VALUES.to_owned(), told.clone());
                if is_made {
                    draft.note(event);
                }
                Ok(())
            });
            changed.await?;
            if is_made {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(ManageError::Failed {
                    reason: "OperatorAway".to_owned(),
                    message: "the operator has not taken the value before this one; see whether it runs, \
                              and try again"
                        .to_owned(),
                });
            }
            sleep(LOOK).await;
        }
    }
}

fn secret(plugin: &Plugin, changes: Vec<u8>) -> Secret {
    let object = plugin.name_any();
    let owner = OwnerReference {
        api_version: Plugin::api_version(&()).into_owned(),
        kind: Plugin::kind(&()).into_owned(),
        name: object.clone(),
        uid: plugin.uid().unwrap_or_default(),
        ..OwnerReference::default()
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(child(&object, Child::Values)),
            labels: Some([(CONFIG_FOR.to_owned(), stem(&object))].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([(CHANGES.to_owned(), ByteString(changes))].into()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_texts_and_none_becomes_null() {
        let check = |value: Option<Value>, expected: Value| {
            let brought: Value = serde_json::from_slice(&changes("k", value)).unwrap();
            assert_eq!(brought, json!({"k": expected}));
        };
        check(None, Value::Null);
        check(Some(json!("a b")), json!("a b"));
        check(Some(json!(2.5)), json!("2.5"));
        check(Some(json!({"a": [1]})), json!("{\"a\":[1]}"));
    }
}
