//! What an API server would say to an object, as far as that can be known without one.

use kube::core::cel::{Validator, apply_defaults};
use serde_json::Value;

/// The schema of the one version of Plugin.
pub(crate) fn schema() -> Value {
    let definition = famulus_crds::definitions().remove(0);
    let schema = definition.spec.versions[0].schema.clone().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.unwrap()).unwrap()
}

/// Why the object is refused: as a new one, or in the place of `before`. First what is against the
/// schema; when nothing is, what is against a rule.
pub(crate) fn refusals(object: &Value, before: Option<&Value>) -> Vec<String> {
    let schema = schema();
    let [object, before] = [Some(object), before]
        .map(|object| object.map(|object| apply_defaults(&schema, &without_nulls(object.clone()))));
    let object = object.unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let against_schema: Vec<String> = validator
        .iter_errors(&object)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if !against_schema.is_empty() {
        return against_schema;
    }
    let against_rules = match Validator::new().validate(&schema, &object, before.as_ref()) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_vec(),
    };
    against_rules.iter().map(ToString::to_string).collect()
}

/// What the API server makes of `null` where a field is not nullable.
pub(crate) fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            for field in fields.values_mut() {
                *field = without_nulls(field.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_nulls(item.take());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}
