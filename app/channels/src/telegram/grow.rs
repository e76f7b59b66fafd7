//! A reply that grows while it is written: a draft, where there are drafts, and else *typing*.

use super::NAME;
use super::client::{CallError, Client};
use super::html::html;
use super::send::{TEXT, failed, number};
use crate::styled::{read, split};
use famulus_core::{ids::TurnId, inbound::Address, outbound::SendError};
use serde_json::json;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Whether this Telegram has drafts: a Bot API server of one's own may be older.
#[derive(Debug)]
pub(super) struct Drafts {
    are_there: AtomicBool,
}

impl Default for Drafts {
    fn default() -> Self {
        Self { are_there: AtomicBool::new(true) }
    }
}

impl Drafts {
    pub(super) async fn grow(
        &self,
        client: &Client,
        to: &Address,
        turn: TurnId,
        so_far: &str,
    ) -> Result<(), SendError> {
        let styled = read(so_far);
        // What does not fit is shown from its last piece on.
        let last = split(&styled, TEXT).pop().filter(|piece| !piece.text().trim().is_empty());
        let is_direct = !to.chat.starts_with('-');
        let Some(piece) = last.filter(|_| is_direct && self.are_there.load(Ordering::Relaxed))
        else {
            return typing(client, to).await;
        };
        let mut asked = json!({
            "chat_id": number(&to.chat),
            "draft_id": draft_of(turn),
            "text": html(&piece),
            "parse_mode": "HTML",
        });
        if let Some(thread) = &to.thread {
            asked["message_thread_id"] = number(thread);
        }
        let shown: Result<bool, _> = client.call("sendMessageDraft", &asked, Duration::ZERO).await;
        match shown {
            Ok(_) => Ok(()),
            Err(CallError::Refused { code: 404, .. }) => {
                tracing::info!(
                    channel = NAME,
                    "this Bot API server has no drafts: replies do not grow"
                );
                self.are_there.store(false, Ordering::Relaxed);
                typing(client, to).await
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

async fn typing(client: &Client, to: &Address) -> Result<(), SendError> {
    let mut asked = json!({"chat_id": number(&to.chat), "action": "typing"});
    if let Some(thread) = &to.thread {
        asked["message_thread_id"] = number(thread);
    }
    let done: Result<bool, _> = client.call("sendChatAction", &asked, Duration::ZERO).await;
    done.map(drop).map_err(|error| failed(&error))
}

/// One for each turn, and never 0.
fn draft_of(turn: TurnId) -> i64 {
    let [.., a, b, c, d] = turn.0.into_bytes();
    i64::from(u32::from_be_bytes([a & 0x7f, b, c, d | 1]))
}
