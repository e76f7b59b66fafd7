//! The OpenAPI 3.1 document and the schema of events, made from the table of routes and the types.

use crate::{
    path,
    problem::Document,
    routes::{Payload, Route, lookup::Access, table},
};
use axum::http::Method;
use famulus_core::event::Envelope;
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::OnceLock};

const DEFINITIONS: &str = "/components/schemas";

/// The document as it is committed and served.
pub fn document() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| pretty(&build(&table())))
}

/// The JSON Schema of an event's `data`.
pub fn events() -> String {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Envelope>();
    pretty(schema.as_value())
}

fn pretty(value: &Value) -> String {
    // JSON that was made here always serialises.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

fn build(table: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = DEFINITIONS.into());
    let mut schemas = settings.into_generator();
    let problem = schemas.subschema_for::<Document<'_>>();
    let mut paths: Map<String, Value> = Map::new();
    for route in table {
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        item[route.method.as_str().to_lowercase()] = operation(route, &mut schemas);
    }
    let definitions: Map<String, Value> = schemas.take_definitions(true).into_iter().collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Famulus",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Every refusal is a problem document (RFC 9457) whose `remedy` says what to do. A token is sent as `Authorization: Bearer`, or as the password of HTTP Basic; never in an address.",
        },
        "security": [{"bearer": []}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
            "responses": {
                "Problem": {
                    "description": "A refusal",
                    "content": {"application/problem+json": {"schema": problem}},
                },
            },
        },
    })
}

fn operation(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let mut operation = json!({ "summary": route.summary });
    match route.access {
        Access::Public => operation["security"] = json!([]),
        Access::Chat => {}
        Access::Owner => operation["x-scope"] = json!("owner"),
    }
    let mut parameters: Vec<Value> = path::parameters(route.path)
        .map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
        })
        .collect();
    if let Some(query) = route.query {
        parameters.extend(query_parameters(query, schemas));
    }
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(content) = content(route.request, schemas) {
        operation["requestBody"] = json!({ "content": content });
    }
    let mut answer = json!({ "description": "Done" });
    if let Some(content) = content(route.response, schemas) {
        answer["content"] = content;
    }
    let mut responses = Map::new();
    responses.insert(route.status.to_string(), answer);
    for status in refusals(route) {
        let problem = json!({ "$ref": "#/components/responses/Problem" });
        responses.insert(status.to_string(), problem);
    }
    operation["responses"] = Value::Object(responses);
    operation
}

/// The statuses with which a route may refuse: what every route of its kind shares, and its own.
fn refusals(route: &Route) -> BTreeSet<u16> {
    let guarded: &[u16] = match route.access {
        Access::Public => &[400],
        Access::Chat => &[400, 401, 429, 500, 503],
        Access::Owner => &[400, 401, 403, 429, 500, 503],
    };
    // A page of another site must not change anything; and a disk may be full.
    let changes: &[u16] = if route.method == Method::GET { &[] } else { &[403, 507] };
    // It may come too slowly, or be too large.
    let body: &[u16] = match route.request {
        Payload::Nothing => &[],
        Payload::Json(_) | Payload::Raw(_) => &[408, 413],
    };
    [guarded, changes, body, route.errors].into_iter().flatten().copied().collect()
}

/// The fields of a query's struct are its parameters.
fn query_parameters(
    query: fn(&mut SchemaGenerator) -> schemars::Schema,
    schemas: &mut SchemaGenerator,
) -> Vec<Value> {
    let reference = query(schemas);
    let schema = reference
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|name| name.rsplit('/').next())
        .and_then(|name| schemas.definitions().get(name).cloned())
        .unwrap_or_else(|| reference.to_value());
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    properties
        .iter()
        .map(|(name, schema)| json!({"name": name, "in": "query", "schema": schema}))
        .collect()
}

fn content(payload: Payload, schemas: &mut SchemaGenerator) -> Option<Value> {
    match payload {
        Payload::Nothing => None,
        Payload::Json(schema) => Some(json!({"application/json": {"schema": schema(schemas)}})),
        Payload::Raw(media) => Some(json!({ media: {} })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says how to bring a committed file up to date.
    fn check(committed: &str, made: &str, example: &str) {
        assert!(
            committed == made,
            "the committed file is out of date: run `cargo run -p famulus-api --example {example}`"
        );
    }

    #[test]
    fn the_committed_document_is_the_one_that_is_served() {
        check(include_str!("../openapi.json"), document(), "openapi > app/api/openapi.json");
    }

    #[test]
    fn the_committed_schema_of_events_is_the_types() {
        check(
            include_str!("../events.schema.json"),
            &events(),
            "openapi -- events > app/api/events.schema.json",
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    for (name, field) in fields {
                        match (name.as_str(), field) {
                            ("$ref", Value::String(target)) => found.push(target.clone()),
                            _ => references(field, found),
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document: Value = serde_json::from_str(document()).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for target in found {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
    }
}
