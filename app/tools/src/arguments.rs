//! A call's arguments, from the text that the model wrote to a value that fits the schema.
//!
//! What does not fit goes back to the model with the place and what was expected there, so that it
//! can write the call again.

use crate::strict_json;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

/// Bytes of arguments; the longest field of any tool is 64 KiB, which escapes to six times that.
const LONGEST_ARGUMENTS: usize = 512 * 1024;
/// Faults that are told at once.
const FAULTS_TOLD: usize = 5;
/// Characters of an offending value that are shown to the model again.
const VALUE_SHOWN: usize = 80;

/// Reads a call's arguments and checks them. The error is for the model.
pub(crate) fn read(tool: &str, text: &str, validator: &Validator) -> Result<Value, String> {
    let arguments = parse(tool, text)?;
    let faults: Vec<String> =
        validator.iter_errors(&arguments).take(FAULTS_TOLD).map(|fault| describe(&fault)).collect();
    if faults.is_empty() {
        return Ok(arguments);
    }
    Err(format!(
        "the arguments do not fit the schema of `{tool}`:\n{}\ncorrect them and call again",
        faults.join("\n")
    ))
}

/// Models send nothing for no arguments, and `null` for a field that they leave out.
fn parse(tool: &str, text: &str) -> Result<Value, String> {
    if text.len() > LONGEST_ARGUMENTS {
        return Err(format!(
            "the arguments are {} bytes long; `{tool}` takes at most {LONGEST_ARGUMENTS}",
            text.len()
        ));
    }
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value = strict_json::from_str(text).map_err(|error| {
        format!(
            "the arguments are not valid JSON: {error}; write one object that fits the schema of `{tool}`"
        )
    })?;
    match value {
        Value::Object(mut map) => {
            map.retain(|_, value| !value.is_null());
            Ok(Value::Object(map))
        }
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(format!(
            "the arguments are not an object; write one object that fits the schema of `{tool}`"
        )),
    }
}

/// Where, what, and which line of the schema says so.
fn describe(fault: &ValidationError<'_>) -> String {
    let what = if fault.instance().to_string().chars().count() <= VALUE_SHOWN {
        fault.to_string()
    } else {
        fault.masked().to_string()
    };
    format!("- at arguments{}: {what} (schema {})", fault.instance_path(), fault.schema_path())
}

/// The complaint about an action that the agent may not use, worded as the schema would.
pub(crate) fn unknown_action(tool: &str, action: &str, granted: &[&str]) -> String {
    let granted: Vec<String> = granted.iter().map(|action| format!("{action:?}")).collect();
    format!(
        "the arguments do not fit the schema of `{tool}`:\n- at arguments/action: {action:?} is not one of {} (schema /properties/action/enum)\ncorrect them and call again",
        granted.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_name_their_place_and_what_was_expected() {
        let validator = jsonschema::validator_for(&json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["read", "list"]},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}}
            },
            "required": ["action"],
            "additionalProperties": false
        }))
        .unwrap();
        let check = |text: &str, expected: &[&str]| {
            let error = read("notes", text, &validator).unwrap_err();
            for part in expected {
                assert!(error.contains(part), "{text} gave {error}");
            }
        };
        check("{", &["not valid JSON", "line 1 column 1"]);
        check("{\"action\":\n oops}", &["line 2 column 2"]);
        check("[1]", &["not an object"]);
        check("{}", &["at arguments: \"action\" is a required property (schema /required)"]);
        check("", &["\"action\" is a required property"]);
        check(
            r#"{"action":"drop"}"#,
            &["at arguments/action: \"drop\" is not one of", "(schema /properties/action/enum)"],
        );
        check(
            r#"{"action":"read","tags":["ab","abcd"],"x":1}"#,
            &[
                "at arguments/tags/1: \"abcd\" is longer than 3 characters",
                "(schema /properties/tags/items/maxLength)",
                "'x' was unexpected",
            ],
        );
        let long = format!(r#"{{"action":"{}"}}"#, "x".repeat(1000));
        let error = read("notes", &long, &validator).unwrap_err();
        assert!(error.len() < 300, "{error}");
        check(&" ".repeat(LONGEST_ARGUMENTS + 1), &["bytes long"]);
        assert_eq!(
            read("notes", r#"{"action":"read","tags":null}"#, &validator).unwrap(),
            json!({"action": "read"})
        );
    }
}
