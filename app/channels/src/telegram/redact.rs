//! Updates in which `/configure` stands, as they may be stored.

use crate::redact::Fields;
use serde_json::Value;

const FIELDS: Fields = Fields {
    texts: &["text", "caption"],
    kept: &[
        "message_id",
        "date",
        "edit_date",
        "chat",
        "from",
        "sender_chat",
        "message_thread_id",
        "is_topic_message",
        "forward_origin",
    ],
};
/// Where messages stand in updates.
const MESSAGES: [&str; 2] = ["message", "edited_message"];

/// The update without the values; `None` of one that has none.
pub(super) fn redacted(update: &[u8]) -> Option<Vec<u8>> {
    let mut update: Value = serde_json::from_slice(update).ok()?;
    for name in MESSAGES {
        let message = update.get_mut(name).and_then(Value::as_object_mut);
        let Some(message) = message else { continue };
        let answered = message.get_mut("reply_to_message");
        // What is quoted of it may be the value alone.
        if answered.is_some_and(|answered| FIELDS.redact(answered)) {
            message.remove("quote");
        }
    }
    FIELDS.redact(&mut update).then(|| update.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET: &str = "s3cret";

    fn stored(update: &Value) -> Option<Value> {
        let stored = redacted(update.to_string().as_bytes())?;
        Some(serde_json::from_slice(&stored).unwrap())
    }

    fn message(more: &Value) -> Value {
        let mut message = json!({
            "message_id": 5, "date": 1_700_000_000,
            "chat": {"id": 7, "type": "private", "first_name": "Ada"},
            "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
        });
        let fields = message.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        message
    }

    fn assigns() -> String {
        format!("/Configure weather api_key {SECRET}")
    }

    #[test]
    fn of_a_message_nothing_is_stored_but_the_word_and_whose_it_is() {
        let check = |kind: &str, fields: Value, kept: &Value| {
            let update = json!({"update_id": 1, kind: message(&fields)});
            let expected = json!({"update_id": 1, kind: message(kept)});
            assert_eq!(stored(&update), Some(expected), "{update}");
        };
        let word = json!({"text": "/configure"});
        check("message", json!({"text": assigns()}), &word);
        check("message", json!({"text": format!("/configure {SECRET}")}), &word);
        check("message", json!({"text": format!("/configure@bot\n{SECRET}")}), &word);
        let elsewhere = json!({
            "text": assigns(),
            "entities": [{"type": "text_link", "offset": 0, "length": 1, "url": SECRET}],
            "link_preview_options": {"url": SECRET},
            "whatever_comes": {"deep": [SECRET]},
        });
        check("message", elsewhere, &word);
        check(
            "edited_message",
            json!({"text": assigns(), "edit_date": 1_700_000_009}),
            &json!({"text": "/configure", "edit_date": 1_700_000_009}),
        );
        let picture = json!([{"file_id": "a", "file_unique_id": "b", "width": 1, "height": 1}]);
        let captioned = json!({"caption": assigns(), "photo": picture, "caption_entities": [
            {"type": "text_link", "offset": 0, "length": 1, "url": SECRET}]});
        check("message", captioned, &json!({"caption": "/configure"}));
        let origin = json!({"type": "hidden_user", "sender_user_name": "Eve"});
        check(
            "message",
            json!({"text": assigns(), "forward_origin": origin}),
            &json!({"text": "/configure", "forward_origin": origin}),
        );
    }

    #[test]
    fn an_answer_to_it_is_stored_without_what_it_quotes() {
        let answered = message(&json!({"text": assigns()}));
        let quote = json!({"text": SECRET, "position": 30});
        let update = json!({"update_id": 1, "message": message(&json!({
            "text": "is it right?", "reply_to_message": answered, "quote": quote}))});
        let expected = json!({"update_id": 1, "message": message(&json!({
            "text": "is it right?", "reply_to_message": message(&json!({"text": "/configure"}))}))});
        assert_eq!(stored(&update), Some(expected));
    }

    #[test]
    fn what_is_none_is_stored_as_it_came() {
        for text in ["hello", "/stop", "what does /configure do?", ""] {
            let answered = message(&json!({"text": "tea?"}));
            let update = json!({"update_id": 1, "message": message(&json!({
                "text": text, "reply_to_message": answered, "quote": {"text": "tea"}}))});
            assert_eq!(stored(&update), None, "{update}");
        }
        assert_eq!(redacted(b"no JSON"), None);
    }
}
