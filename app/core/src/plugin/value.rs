//! What a value of a plugin's configuration is that somebody wrote as a text. Pure.

use serde_json::Value;

/// JSON, where the text reads as a truth, a number, an array or an object; else text. A number stays one only
/// where JSON writes it the same: a token such as `12e5` is text.
pub fn value_of(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Bool(_) | Value::Array(_) | Value::Object(_))) => value,
        Ok(Value::Number(number)) if number.to_string() == text => Value::Number(number),
        Ok(Value::Number(_) | Value::String(_) | Value::Null) | Err(_) => {
            Value::String(text.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_json_where_it_reads_as_such() {
        let check = |text: &str, expected: Value| assert_eq!(value_of(text), expected, "{text}");
        check("7", json!(7));
        check("-1.5", json!(-1.5));
        check("true", json!(true));
        check("[1, \"a\"]", json!([1, "a"]));
        check("{\"a\": null}", json!({"a": null}));
        for text in ["Berlin", "", "null", "\"quoted\"", "12e5", "007", "1.50", " 7", "[1", "truth"]
        {
            check(text, json!(text));
        }
        check("123456789012345678901234567890", json!("123456789012345678901234567890"));
    }
}
