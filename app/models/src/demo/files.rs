//! A file that was sent goes back, and words go as a recording.

use super::ask::File;
use super::memo::{Halt, Memo};
use serde_json::json;

pub(crate) fn send_back(file: Option<&File>, memo: &Memo<'_>) -> Result<String, Halt> {
    let Some(File { id, name }) = file else {
        return Ok("I have no file of yours. Send me one first.".to_owned());
    };
    let files = json!([{"id": id, "name": name}]);
    memo.call("send_message", json!({"action": "send", "files": files}))?;
    Ok(format!("I have sent you {name}."))
}

pub(crate) fn say(words: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    let made = memo.call("text_to_speech", json!({ "text": words }))?;
    let files = json!([{"id": made["id"], "name": made["name"]}]);
    memo.call("send_message", json!({"action": "send", "files": files}))?;
    Ok("I have said it.".to_owned())
}
