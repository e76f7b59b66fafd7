//! JSON Schema from a tool's argument type, stripped of what the model pays for and does not need.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

/// The schema of `T`: inlined, without titles, formats and defaults, and without `null` as an
/// alternative, because a `null` field is dropped before the arguments are checked.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(root) = &mut schema {
        // The documentation of the type is for us.
        root.remove("description");
        strip(root);
    }
    schema
}

fn strip(schema: &mut Map<String, Value>) {
    for key in ["title", "format", "default"] {
        schema.remove(key);
    }
    drop_null_alternative(schema);
    join_constants(schema);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            if let Value::Object(property) = property {
                strip(property);
            }
        }
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        strip(items);
    }
}

fn drop_null_alternative(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(alternatives)) = schema.get("anyOf")
        && let [Value::Object(only), null] = &alternatives[..]
        && null.get("type").is_some_and(|kind| kind == "null")
    {
        let only = only.clone();
        schema.remove("anyOf");
        for (key, value) in only {
            // What the field says of itself goes before what its type says.
            schema.entry(key).or_insert(value);
        }
    }
}

/// An enum whose values are documented one by one is still an enum.
fn join_constants(schema: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = schema.get("oneOf") else { return };
    let constants: Option<Vec<Value>> = alternatives
        .iter()
        .map(|one| one.get("const").filter(|c| c.is_string()).cloned())
        .collect();
    if let Some(constants) = constants {
        schema.remove("oneOf");
        schema.insert("type".into(), "string".into());
        schema.insert("enum".into(), constants.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Action {
        Read,
        List,
    }

    /// For us.
    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Missed {
        /// For us.
        RunOnce,
        /// For us.
        Skip,
    }

    /// For us.
    #[expect(dead_code, reason = "only its schema is of interest")]
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        action: Action,
        /// Of the page.
        title: Option<String>,
        #[serde(default)]
        other: Option<Action>,
        seconds: Option<i64>,
        /// When it was late.
        missed: Option<Missed>,
    }

    #[test]
    fn a_schema_is_small() {
        assert_eq!(
            schema_of::<Arguments>(),
            json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["read", "list"]},
                    "title": {"description": "Of the page.", "type": "string"},
                    "other": {"type": "string", "enum": ["read", "list"]},
                    "seconds": {"type": "integer"},
                    "missed": {
                        "description": "When it was late.",
                        "type": "string",
                        "enum": ["run_once", "skip"]
                    }
                },
                "additionalProperties": false,
                "required": ["action"]
            })
        );
    }
}
