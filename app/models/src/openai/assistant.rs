//! An assistant message as it stands in a request, and how it is written for the first time.
//!
//! Once written it is replayed as bytes, so its form is decided here and only here.

use super::calls::WholeCall;
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

#[derive(Default)]
pub(crate) struct Assistant<'a> {
    pub(crate) content: Option<&'a str>,
    pub(crate) reasoning_content: Option<&'a str>,
    pub(crate) reasoning: Option<&'a str>,
    pub(crate) reasoning_details: &'a [Value],
    pub(crate) tool_calls: &'a [WholeCall],
}

impl Assistant<'_> {
    /// Whether it holds fields that only the server which sent them is sure to accept.
    pub(crate) fn is_of_vendor(&self) -> bool {
        self.reasoning_content.is_some()
            || self.reasoning.is_some()
            || !self.reasoning_details.is_empty()
            || self.tool_calls.iter().any(|call| !call.extra.is_empty())
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Strings and maps with string keys always encode.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Serialize for Assistant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", "assistant")?;
        map.serialize_entry("content", &self.content)?;
        if let Some(text) = self.reasoning_content {
            map.serialize_entry("reasoning_content", text)?;
        }
        if let Some(text) = self.reasoning {
            map.serialize_entry("reasoning", text)?;
        }
        if !self.reasoning_details.is_empty() {
            map.serialize_entry("reasoning_details", self.reasoning_details)?;
        }
        if !self.tool_calls.is_empty() {
            let calls: Vec<Call<'_>> = self.tool_calls.iter().map(Call).collect();
            map.serialize_entry("tool_calls", &calls)?;
        }
        map.end()
    }
}

struct Call<'a>(&'a WholeCall);

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: Cow<'a, str>,
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.0.id)?;
        map.serialize_entry("type", "function")?;
        let arguments = acceptable(&self.0.arguments);
        map.serialize_entry("function", &Function { name: &self.0.name, arguments })?;
        for (name, value) in &self.0.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Arguments that every server accepts in a history.
///
/// Servers that render a chat template parse the arguments of earlier calls and fail the whole
/// request when they are no JSON object: one malformed call would close the conversation. What
/// the model wrote goes back inside a string, where it can still read its mistake.
pub(crate) fn acceptable(arguments: &str) -> Cow<'_, str> {
    if arguments.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    if serde_json::from_str::<Map<String, Value>>(arguments).is_ok() {
        return Cow::Borrowed(arguments);
    }
    let wrapped = Map::from_iter([("malformed".to_owned(), Value::String(arguments.to_owned()))]);
    Cow::Owned(Value::Object(wrapped).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_written_in_one_order() {
        let calls = [WholeCall {
            id: "c1".into(),
            name: "f".into(),
            arguments: "{\"b\":1, \"a\":2}".into(),
            extra: json!({"extra_content": {"s": "x"}}).as_object().unwrap().clone(),
        }];
        let details = [json!({"z": 1, "a": 2})];
        let message = Assistant {
            content: None,
            reasoning_content: Some("r"),
            reasoning: None,
            reasoning_details: &details,
            tool_calls: &calls,
        };
        assert_eq!(
            String::from_utf8(message.to_bytes()).unwrap(),
            r#"{"role":"assistant","content":null,"reasoning_content":"r","reasoning_details":[{"z":1,"a":2}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"b\":1, \"a\":2}"},"extra_content":{"s":"x"}}]}"#
        );
        assert!(message.is_of_vendor());
        let plain = Assistant { content: Some("hi"), ..Assistant::default() };
        assert_eq!(plain.to_bytes(), br#"{"role":"assistant","content":"hi"}"#);
        assert!(!plain.is_of_vendor());
    }

    #[test]
    fn only_objects_go_back_as_arguments() {
        let check = |given: &str, expected: &str| assert_eq!(acceptable(given), expected);
        check("", "{}");
        check(" ", "{}");
        check("{ }", "{ }");
        check("{\"a\":", r#"{"malformed":"{\"a\":"}"#);
        check("[1]", r#"{"malformed":"[1]"}"#);
        check("null", r#"{"malformed":"null"}"#);
    }
}
