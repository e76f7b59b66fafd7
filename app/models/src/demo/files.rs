//! A file that was sent goes back.

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
