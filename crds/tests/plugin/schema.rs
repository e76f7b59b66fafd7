//! The schema is structural, bounded and explained.

use serde_json::{Value, json};

use crate::judge::schema;

/// Every fault of a schema and of those below it, with its place.
fn faults(path: &str, schema: &Value, found: &mut Vec<String>) {
    let mut fault = |what: &str| found.push(format!("{path}: {what}"));
    let has = |key: &str| schema.get(key).is_some();
    const NEVER: [&str; 8] = [
        "$ref",
        "allOf",
        "anyOf",
        "not",
        "nullable",
        "oneOf",
        "uniqueItems",
        "x-kubernetes-preserve-unknown-fields",
    ];
    for key in NEVER.into_iter().filter(|key| has(key)) {
        fault(&format!("has {key}"));
    }
    if !has("description") && !path.ends_with("[]") {
        fault("is not described");
    }
    let any_length = !has("maxLength") && !has("enum") && schema["format"] != "date-time";
    match schema["type"].as_str() {
        Some("string") if any_length => fault("is a text of any length"),
        Some("array") => {
            if !has("maxItems") {
                fault("is a list of any length");
            }
            if !has("x-kubernetes-list-type") {
                fault("is a list that does not say how it is merged");
            }
            faults(&format!("{path}[]"), &schema["items"], found);
        }
        Some("object") => {
            if !has("properties") && !has("additionalProperties") {
                fault("is an object of anything");
            }
            if has("additionalProperties") && !has("maxProperties") {
                fault("is a map of any size");
            }
            if schema["additionalProperties"].is_object() {
                faults(&format!("{path}[]"), &schema["additionalProperties"], found);
            } else if has("additionalProperties") {
                fault("is a map of anything");
            }
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                faults(&format!("{path}.{name}"), field, found);
            }
        }
        Some("string" | "integer" | "boolean") => {}
        None if schema["x-kubernetes-int-or-string"] == true => {
            if !has("maxLength") {
                fault("is a text of any length");
            }
        }
        other => fault(&format!("has the type {other:?}")),
    }
}

fn faults_of(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    faults("", schema, &mut found);
    found
}

#[test]
fn every_text_list_and_map_is_bounded() {
    assert_eq!(faults_of(&schema()), Vec::<String>::new());
}

#[test]
fn what_is_unbounded_or_not_structural_is_found() {
    let text = json!({"type": "string", "description": "", "maxLength": 1});
    let table = [
        (json!({"type": "string"}), "is a text of any length"),
        (json!({"type": "array", "items": text}), "is a list of any length"),
        (json!({"type": "array", "maxItems": 1, "items": text}), "how it is merged"),
        (json!({"type": "object"}), "is an object of anything"),
        (json!({"type": "object", "additionalProperties": text}), "is a map of any size"),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": true}),
            "is a map of anything",
        ),
        (json!({"type": "string", "maxLength": 1, "nullable": true}), "has nullable"),
        (json!({"type": "object", "properties": {"a": text}, "anyOf": []}), "has anyOf"),
        (json!({"x-kubernetes-int-or-string": true}), "is a text of any length"),
        (json!({"description": "anything"}), "has the type None"),
        (json!({"type": "boolean"}), "is not described"),
    ];
    for (field, expected) in table {
        let found = faults_of(&json!({
            "type": "object", "description": "", "properties": {"field": field},
        }));
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:?}");
    }
    let in_a_list = json!({"type": "string"});
    let list = json!({"type": "array", "items": in_a_list});
    assert!(faults_of(&list).contains(&"[]: is a text of any length".to_owned()));
}

#[test]
fn columns_and_scale_lead_to_fields() {
    let definition = famulus_crds::definitions().remove(0);
    let version = &definition.spec.versions[0];
    let scale = version.subresources.as_ref().unwrap().scale.as_ref().unwrap();
    let columns = version.additional_printer_columns.iter().flatten();
    let columns = columns.filter(|column| !column.json_path.starts_with(".metadata."));
    let mut paths: Vec<&str> = columns.map(|column| column.json_path.as_str()).collect();
    paths.extend([scale.spec_replicas_path.as_str(), scale.status_replicas_path.as_str()]);
    paths.extend(scale.label_selector_path.as_deref());
    let schema = schema();
    for path in paths {
        let mut field = &schema;
        let filter = "[?(@.type==\"Ready\")]";
        for name in path.replace(filter, "").trim_start_matches('.').split('.') {
            let parent = if field["type"] == "array" { &field["items"] } else { field };
            field = &parent["properties"][name];
        }
        assert!(field["type"].is_string(), "{path} leads nowhere");
    }
}

#[test]
fn one_line_tells_the_case() {
    let definition = famulus_crds::definitions().remove(0);
    let columns = definition.spec.versions[0].additional_printer_columns.iter().flatten();
    let narrow: Vec<&str> = columns
        .filter(|column| column.priority.is_none())
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(narrow, ["Plugin", "Ready", "Because", "Runners", "Egress", "Age"]);
    assert_eq!(definition.spec.names.categories, Some(vec!["famulus".to_owned()]));
    assert_eq!(definition.spec.names.short_names, Some(vec!["fplug".to_owned()]));
    assert_eq!(definition.spec.scope, "Namespaced");
}
