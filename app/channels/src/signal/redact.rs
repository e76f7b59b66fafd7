//! Events in which `/configure` stands, as they may be stored.

use crate::redact::Fields;
use serde_json::Value;

const FIELDS: Fields = Fields {
    texts: &["message", "text"],
    kept: &[
        "timestamp",
        "groupInfo",
        // Of what was written on another device.
        "destination",
        "destinationNumber",
        "destinationUuid",
        // Of what is quoted.
        "id",
        "author",
        "authorNumber",
        "authorUuid",
    ],
};

/// The event without the values; `None` of one that has none.
pub(super) fn redacted(event: &[u8]) -> Option<Vec<u8>> {
    let mut event: Value = serde_json::from_slice(event).ok()?;
    FIELDS.redact(&mut event).then(|| event.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET: &str = "s3cret";
    const ADA: &str = "00000000-0000-4000-8000-000000000007";

    fn event(fields: &Value) -> Value {
        let mut envelope = json!({"sourceUuid": ADA, "sourceName": "Ada", "timestamp": 9});
        envelope.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"account": "+1", "envelope": envelope})
    }

    fn stored(fields: &Value) -> Option<Value> {
        let stored = redacted(event(fields).to_string().as_bytes())?;
        Some(serde_json::from_slice(&stored).unwrap())
    }

    /// All that a platform may make of the text, beside it.
    fn message() -> Value {
        json!({
            "timestamp": 9, "message": format!("/configure weather api_key {SECRET}"),
            "textStyles": [{"style": "BOLD", "start": 0, "length": 3}],
            "previews": [{"url": SECRET}], "attachments": [{"id": "a", "filename": SECRET}],
            "groupInfo": {"groupId": "g="},
        })
    }

    fn kept() -> Value {
        json!({"timestamp": 9, "message": "/configure", "groupInfo": {"groupId": "g="}})
    }

    #[test]
    fn of_a_message_nothing_is_stored_but_the_word_and_whose_it_is() {
        let check = |fields: Value, kept: &Value| {
            assert_eq!(stored(&fields), Some(event(kept)), "{fields}");
        };
        check(json!({"dataMessage": message()}), &json!({"dataMessage": kept()}));
        let edit = |data: Value| json!({"targetSentTimestamp": 8, "dataMessage": data});
        check(json!({"editMessage": edit(message())}), &json!({"editMessage": edit(kept())}));
        let to_oneself = |mut data: Value| {
            data["destinationUuid"] = json!(ADA);
            json!({"syncMessage": {"sentMessage": data}})
        };
        check(to_oneself(message()), &to_oneself(kept()));
        let changed = |data: Value| {
            json!({"syncMessage": {"sentMessage": {"destinationUuid": ADA, "message": null,
                "editMessage": edit(data)}}})
        };
        check(changed(message()), &changed(kept()));
    }

    #[test]
    fn an_answer_to_it_is_stored_without_what_it_quotes() {
        let answer = |quoted: &str| {
            json!({"dataMessage": {"timestamp": 9, "message": "is it right?", "quote": {
                "id": 8, "authorUuid": ADA, "text": quoted}}})
        };
        let quoting = answer(&format!("/configure weather api_key {SECRET}"));
        assert_eq!(stored(&quoting), Some(event(&answer("/configure"))));
        assert_eq!(stored(&answer("tea?")), None);
    }

    #[test]
    fn what_is_none_is_stored_as_it_came() {
        for text in [json!("hello"), json!("what does /configure do?"), json!(null)] {
            let told = json!({"dataMessage": {"timestamp": 9, "message": text}});
            assert_eq!(stored(&told), None, "{told}");
        }
        assert_eq!(redacted(b"no JSON"), None);
    }
}
