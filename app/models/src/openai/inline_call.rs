//! One inline call: its text becomes a name and JSON arguments.

use famulus_core::tool::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";
/// A longer name is no name.
const LONGEST_NAME: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InlineCall {
    pub(crate) name: String,
    /// JSON, or what the model wrote in its place.
    pub(crate) arguments: String,
}

pub(crate) enum Reading {
    /// A call, and the bytes that it takes.
    Whole(InlineCall, usize),
    /// The text ends within a string of the JSON: what ends it may be part of that string.
    Unfinished,
    /// No JSON. If a name can be made out, the call is reported with its text as arguments, so
    /// that the model reads what was wrong with it.
    Broken(Option<InlineCall>),
}

#[derive(Deserialize)]
struct JsonCall<'a> {
    name: String,
    #[serde(borrow, alias = "parameters")]
    arguments: Option<&'a RawValue>,
}

pub(crate) fn read_json(text: &str) -> Reading {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let object = match stream.next() {
        Some(Ok(object)) => object,
        Some(Err(error)) if error.is_eof() && ends_in_string(text) => return Reading::Unfinished,
        Some(Err(_)) | None => return Reading::Broken(broken(text)),
    };
    let length = stream.byte_offset();
    let Ok(call) = serde_json::from_str::<JsonCall<'_>>(object.get()) else {
        return Reading::Broken(broken(text));
    };
    let arguments = call.arguments.map_or("{}", RawValue::get);
    // Some models write the arguments as a string that holds JSON.
    let arguments =
        serde_json::from_str::<String>(arguments).unwrap_or_else(|_| arguments.to_owned());
    Reading::Whole(InlineCall { name: call.name, arguments }, length)
}

fn ends_in_string(json: &str) -> bool {
    let (mut inside, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            _ => {}
        }
    }
    inside
}

fn broken(text: &str) -> Option<InlineCall> {
    let (_, after) = text.split_once("\"name\"")?;
    let after = after.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (name, _) = after.split_once('"')?;
    Some(InlineCall { name: name.to_owned(), arguments: text.trim().to_owned() })
}

/// The name in front of `>`: `None` if there cannot be one, `Some(None)` if it has not ended.
#[expect(clippy::option_option, reason = "no name, and none yet, are two answers")]
pub(crate) fn function_name(text: &str) -> Option<Option<&str>> {
    let end = text.find(['>', '\n', '<']);
    match end {
        Some(end) if (1..=LONGEST_NAME).contains(&end) && text[end..].starts_with('>') => {
            Some(Some(unquoted(&text[..end])))
        }
        Some(_) => None,
        None if text.len() > LONGEST_NAME => None,
        None => Some(None),
    }
}

/// Reads `name>` and its parameters; the text ends before the closing tag.
pub(crate) fn read_function(text: &str, tools: &[ToolSpec]) -> InlineCall {
    let (name, mut body) = text.split_once('>').unwrap_or((text, ""));
    let name = unquoted(name).to_owned();
    let schema = tools.iter().find(|tool| tool.name == name).map(|tool| &tool.schema);
    let mut arguments = Map::new();
    while let Some((_, parameter)) = body.split_once(PARAMETER) {
        let Some((key, rest)) = parameter.split_once('>') else { break };
        // A forgotten closing tag ends where the next parameter begins.
        let close = rest.find(PARAMETER_END);
        let next = rest.find(PARAMETER);
        let (value, rest) = match (close, next) {
            (Some(close), next) if next.is_none_or(|next| close < next) => {
                (&rest[..close], &rest[close + PARAMETER_END.len()..])
            }
            (_, Some(next)) => (&rest[..next], &rest[next..]),
            (_, None) => (rest, ""),
        };
        let key = unquoted(key);
        arguments.insert(key.to_owned(), typed(unframed(value), key, schema));
        body = rest;
    }
    InlineCall { name, arguments: Value::Object(arguments).to_string() }
}

fn unquoted(name: &str) -> &str {
    name.trim().trim_matches('"')
}

/// Without the one line break that frames a value on each side.
fn unframed(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

/// XML knows only text; the tool's schema says what it stands for.
fn typed(text: &str, key: &str, schema: Option<&Value>) -> Value {
    let property = schema.and_then(|schema| schema.get("properties")?.get(key));
    let mut kinds = Kinds::default();
    if let (Some(property), Some(schema)) = (property, schema) {
        kinds.collect(property, schema, 0);
    }
    let json = serde_json::from_str::<Value>(text.trim()).ok();
    match json {
        Some(value) if value.is_null() && kinds.null => value,
        Some(value) if !kinds.string && kinds.any && !value.is_string() => value,
        // Nothing is known of the parameter: only what is plainly structured is.
        Some(value) if !kinds.any && (value.is_object() || value.is_array()) => value,
        Some(_) | None => Value::String(text.to_owned()),
    }
}

/// The types that a schema allows.
#[derive(Default)]
struct Kinds {
    any: bool,
    string: bool,
    null: bool,
}

impl Kinds {
    /// Deep enough for every schema that describes a parameter, and an end for circular ones.
    const DEEPEST: u32 = 8;

    fn collect(&mut self, schema: &Value, root: &Value, depth: u32) {
        if depth > Self::DEEPEST {
            return;
        }
        let kind = schema.get("type");
        let one = kind.and_then(Value::as_str);
        let many = kind.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for kind in one.into_iter().chain(many) {
            self.any = true;
            self.string |= kind == "string";
            self.null |= kind == "null";
        }
        for value in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
            self.any = true;
            self.string |= value.is_string();
            self.null |= value.is_null();
        }
        if let Some(value) = schema.get("const") {
            self.any = true;
            self.string |= value.is_string();
        }
        for list in ["anyOf", "oneOf", "allOf"] {
            for part in schema.get(list).and_then(Value::as_array).into_iter().flatten() {
                self.collect(part, root, depth + 1);
            }
        }
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
        if let Some(target) = target.and_then(|pointer| root.pointer(pointer)) {
            self.collect(target, root, depth + 1);
        }
    }
}
