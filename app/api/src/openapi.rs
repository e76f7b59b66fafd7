//! The OpenAPI 3.1 document and the schema of events, made from the table of routes and the types.

use crate::{
    handlers::agents,
    path,
    problem::Document,
    routes::{Payload, Route, lookup::Access, table},
    words::ConversationName,
};
use axum::http::Method;
use famulus_core::{event::Envelope, place};
use schemars::{JsonSchema as _, Schema, SchemaGenerator, generate::SchemaSettings};
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

/// What is read and what is written: a field with a default may be left out of one and not of the other.
struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = DEFINITIONS.into());
        Self {
            requests: settings.clone().into_generator(),
            answers: settings.for_serialize().into_generator(),
        }
    }

    /// The definitions of requests, and those of answers.
    fn definitions(mut self) -> [Map<String, Value>; 2] {
        [&mut self.requests, &mut self.answers]
            .map(|schemas| schemas.take_definitions(true).into_iter().collect())
    }
}

fn build(table: &[Route]) -> Value {
    let mut schemas = Schemas::new();
    let problem = schemas.answers.subschema_for::<Document<'_>>();
    let paths = paths(table, &mut schemas);
    // A name that stands in both means the same in both.
    let [mut definitions, mut of_answers] = schemas.definitions();
    definitions.append(&mut of_answers);
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

fn paths(table: &[Route], schemas: &mut Schemas) -> Map<String, Value> {
    let mut paths: Map<String, Value> = Map::new();
    for route in table {
        let item = paths.entry(path::plain(route.path)).or_insert_with(|| json!({}));
        item[route.method.as_str().to_lowercase()] = operation(route, schemas);
    }
    paths
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({ "summary": route.summary });
    match route.access {
        Access::Public => operation["security"] = json!([]),
        Access::Chat => {}
        Access::Owner => operation["x-scope"] = json!("owner"),
    }
    let named = path::parameters(route.path).map(|name| {
        let schema = path_parameter(route.path, name, &mut schemas.requests);
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    });
    let mut parameters: Vec<Value> = named.collect();
    if let Some(query) = route.query {
        parameters.extend(query_parameters(&query(&mut schemas.requests)));
    }
    parameters.extend(route.headers.iter().map(|header| {
        let schema =
            json!({"type": "string", "pattern": header.pattern, "description": header.what});
        json!({"name": header.name, "in": "header", "schema": schema})
    }));
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(content) = content(route.request, &mut schemas.requests) {
        let required = is_needed(route.request, &content, &schemas.requests);
        operation["requestBody"] = json!({ "content": content, "required": required });
    }
    let mut responses = Map::new();
    for status in refusals(route) {
        let problem = json!({ "$ref": "#/components/responses/Problem" });
        responses.insert(status.to_string(), problem);
    }
    for (status, payload) in route.answers() {
        let mut answer = json!({ "description": if status < 400 { "Done" } else { "Not now" } });
        if let Some(content) = content(payload, &mut schemas.answers) {
            answer["content"] = content;
        }
        responses.insert(status.to_string(), answer);
    }
    operation["responses"] = Value::Object(responses);
    operation
}

/// What stands in a path: an id, or a name.
fn path_parameter(path: &str, name: &str, schemas: &mut SchemaGenerator) -> Value {
    match name {
        "id" if path.starts_with("/v1/conversations/") => {
            ConversationName::json_schema(schemas).to_value()
        }
        "id" => json!({"type": "string", "format": "uuid"}),
        "name" if path.starts_with("/v1/agents/") => {
            json!({"type": "string", "pattern": agents::PLAIN})
        }
        _ => json!({"type": "string", "pattern": r"^[^\u0000]+$"}),
    }
}

/// Whether a request needs a body. Without one a JSON request is an object without fields, and a file
/// is empty.
fn is_needed(payload: Payload, content: &Value, schemas: &SchemaGenerator) -> bool {
    match payload {
        Payload::Form(_) => true,
        Payload::Nothing | Payload::Raw(_) | Payload::Events => false,
        Payload::Json(_) => {
            let schema = &content["application/json"]["schema"];
            let name = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
            let schema = name.and_then(|name| schemas.definitions().get(name)).unwrap_or(schema);
            ["required", "anyOf", "oneOf", "allOf"].iter().any(|word| schema.get(*word).is_some())
        }
    }
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
        Payload::Json(_) | Payload::Form(_) | Payload::Raw(_) | Payload::Events => &[408, 413],
    };
    [guarded, changes, body, route.errors].into_iter().flatten().copied().collect()
}

/// The fields of a query's struct are its parameters. One that may be left out is not sent as null.
fn query_parameters(query: &Schema) -> Vec<Value> {
    let fields = query.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let parameter =
        |(name, schema)| json!({"name": name, "in": "query", "schema": without_null(schema)});
    fields.into_iter().map(parameter).collect()
}

fn without_null(mut schema: Value) -> Value {
    let is_null = |value: &Value| *value == "null" || value["type"] == "null";
    for word in ["type", "anyOf"] {
        if let Some(Value::Array(choices)) = schema.get_mut(word) {
            choices.retain(|choice| !is_null(choice));
        }
    }
    if let Some([one]) = schema["type"].as_array().map(Vec::as_slice) {
        schema["type"] = one.clone();
    }
    schema
}

fn content(payload: Payload, schemas: &mut SchemaGenerator) -> Option<Value> {
    match payload {
        Payload::Nothing => None,
        Payload::Json(schema) => Some(json!({"application/json": {"schema": schema(schemas)}})),
        Payload::Form(schema) => Some(json!({"multipart/form-data": {"schema": schema(schemas)}})),
        Payload::Raw(media) => Some(json!({ media: {} })),
        Payload::Events => Some(json!({"text/event-stream": {"schema": event(schemas)}})),
    }
}

/// One event of a stream.
fn event(schemas: &mut SchemaGenerator) -> Value {
    let envelope = schemas.subschema_for::<Envelope>();
    json!({
        "type": "object",
        "anyOf": [
            {
                "description": "Something has happened.",
                "properties": {
                    "event": {"enum": [
                        "delta", "status", "usage", "resumed", "message", "complete", "list_changed",
                    ]},
                    "id": {"type": "string", "pattern": place::PATTERN},
                    "data": {
                        "type": "string",
                        "contentMediaType": "application/json",
                        "contentSchema": envelope,
                    },
                },
            },
            {
                "description": "What was seen is too long ago: fetch everything again.",
                "properties": {"event": {"const": "reset"}, "data": {"const": "{}"}},
            },
        ],
        "required": ["event", "data"],
    })
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
    fn a_name_means_the_same_in_requests_and_in_answers() {
        let mut schemas = Schemas::new();
        paths(&table(), &mut schemas);
        let [requests, answers] = schemas.definitions();
        for (name, schema) in &requests {
            assert_eq!(schema, answers.get(name).unwrap_or(schema), "{name}");
        }
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
