//! What takes the place of a message that was sent.

use super::client::{CallError, Client};
use super::html::html;
use super::send::{failed, number, pieces, refused};
use crate::pieces::Piece;
use famulus_core::outbound::{Outbound, SendError};
use serde_json::json;
use std::time::Duration;

/// What is there as it is to be.
const SAME: &str = "message is not modified";

/// Changes the last message of those that there are, which has the buttons.
pub(super) async fn edit(
    client: &Client,
    message: &Outbound,
    ids: &[String],
) -> Result<(), SendError> {
    let Some(id) = ids.last() else { return Ok(()) };
    let all = pieces(message);
    let Some(Piece::Text(styled)) = all.first() else {
        return Err(refused("a message there is changed by words alone".to_owned()));
    };
    let asked = json!({
        "chat_id": number(&message.to.chat),
        "message_id": number(id),
        "text": html(styled),
        "parse_mode": "HTML",
        "reply_markup": {"inline_keyboard": []},
    });
    let changed: Result<serde_json::Value, _> =
        client.call("editMessageText", &asked, Duration::ZERO).await;
    match changed {
        Ok(_) => Ok(()),
        Err(CallError::Refused { description, .. }) if description.contains(SAME) => Ok(()),
        Err(error) => Err(failed(&error)),
    }
}
