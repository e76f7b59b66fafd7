//! What `POST /chat` takes, as it is described. Bridges send fields of every type, and what a field
//! cannot be counts as absent: so a type is only said where it decides something.

use super::messages::ATTACHMENTS;
use crate::words::WRITTEN;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The body of `POST /chat`.
pub(crate) struct ChatRequest;

impl JsonSchema for ChatRequest {
    fn schema_name() -> Cow<'static, str> {
        "ChatRequest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "What is not of the type that is said counts as absent, but for `async`.",
            "properties": {
                "message": said("A string: the text. `/stop`, `/approve CODE`, `/deny CODE` and `/configure PLUGIN KEY VALUE` are commands."),
                "source": said("`cli` or anything else, which is `http`."),
                "sender": said("A string: whom the caller speaks for; shown to the model, never an identity."),
                "attachments": {
                    "description": "An array of files that were stored with `POST /v1/blobs`.",
                    "contains": stored(),
                    "minContains": 0,
                    "maxContains": ATTACHMENTS,
                },
                "files": {
                    "description": "An array of files.",
                    "items": {"if": file(), "then": good_file()},
                    "contains": file(),
                    "minContains": 0,
                    "maxContains": ATTACHMENTS,
                },
                "audio": said("A string: a spoken message, in base64."),
                "audioContentType": said("A string: its media type; unless told, what its first bytes say."),
                "async": {"type": ["boolean", "null"], "description": "Answer at once with 202."},
                "conversation_id": said("A string: `main` or an id; the main conversation unless told."),
            },
            "allOf": [{"anyOf": contents()}, {"anyOf": audio()}],
        })
    }
}

fn said(description: &str) -> Value {
    json!({ "description": description })
}

/// There must be something: a text, or a file of one kind or another.
fn contents() -> Value {
    json!([
        {
            "required": ["message"],
            "properties": {"message": {"type": "string", "pattern": WRITTEN}},
        },
        {
            "required": ["attachments"],
            "properties": {"attachments": {"type": "array", "contains": stored()}},
        },
        {
            "required": ["files"],
            "properties": {"files": {"type": "array", "contains": file()}},
        },
        {
            "required": ["audio"],
            "properties": {"audio": {"type": "string", "minLength": 1}},
        },
    ])
}

/// What is spoken must be base64 of a kind that is named, or that its first bytes tell.
fn audio() -> Value {
    let no_text = json!(["null", "boolean", "number", "array", "object"]);
    json!([
        {"properties": {"audio": {"anyOf": [{"type": no_text}, {"const": ""}]}}},
        {
            "required": ["audio", "audioContentType"],
            "properties": {
                "audio": {"type": "string", "pattern": BASE64},
                "audioContentType": {"type": "string", "pattern": AUDIO_TYPE},
            },
        },
        {
            "required": ["audio"],
            "properties": {
                "audio": {"type": "string", "pattern": TELLING},
                "audioContentType": {"type": no_text},
            },
        },
    ])
}

/// A file that was stored.
fn stored() -> Value {
    json!({
        "type": "object",
        "properties": {
            "blob": {
                "type": "object",
                "properties": {"id": {"type": "string", "format": "uuid"}},
                "required": ["id"],
            },
            "name": {"type": "string", "description": "How it is shown; never a path."},
        },
        "required": ["blob"],
    })
}

/// A file that comes along.
fn file() -> Value {
    json!({
        "type": "object",
        "properties": {
            "data": {"type": "string", "description": "Base64."},
            "filename": {"type": "string"},
            "mimeType": {"type": "string"},
        },
        "required": ["data"],
    })
}

fn good_file() -> Value {
    json!({"properties": {"data": {"pattern": BASE64}}})
}

/// The standard alphabet in one line, with padding or without.
const BASE64: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]={0,2}|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=?)?$";

/// A kind of audio, whatever its parameters.
const AUDIO_TYPE: &str = r"^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*[Aa][Uu][Dd][Ii][Oo]/[A-Za-z0-9!#$&^_.+-]{1,121}[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*(;[\s\S]*)?$";

/// Base64 of at least twelve bytes, of which the first say that they are audio: RIFF, OggS, fLaC, ID3,
/// MPEG and AAC frames, ISO media, Matroska.
const TELLING: &str = "^(UklGR[g-v][A-Za-z0-9+/]{6}|T2dnU[w-z0-9+/][A-Za-z0-9+/]{6}|ZkxhQ[w-z0-9+/][A-Za-z0-9+/]{6}|SUQz[A-Za-z0-9+/]{8}|//[s-vE-H][A-Za-z0-9+/]{9}|[A-Za-z0-9+/]{5}[GWm2]Z0eX[A-D][A-Za-z0-9+/]|GkXfo[w-z0-9+/][A-Za-z0-9+/]{6})([A-Za-z0-9+/]{4}([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]={0,2}|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=?)?|[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)$";
