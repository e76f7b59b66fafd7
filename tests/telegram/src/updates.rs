//! Long polls: what is to be told, each until it is confirmed.

use crate::methods::Reply;
use crate::parameters::Parameters;
use crate::people::{Chat, User};
use crate::server::Shared;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout_at};

/// Seconds that a poll waits at most; more is cut in silence.
const LONGEST: i64 = 50;

#[expect(clippy::disallowed_methods, reason = "a platform has a clock of its own")]
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// A message of somebody.
pub(crate) fn message(user: &User, chat: &Chat, id: i64, fields: Value) -> Value {
    let mut message = json!({
        "message_id": id, "date": now(), "chat": chat.json(), "from": user.json(),
    });
    if let (Some(message), Value::Object(fields)) = (message.as_object_mut(), fields) {
        message.extend(fields);
    }
    message
}

pub(crate) async fn get(shared: &Shared, parameters: &Parameters) -> Reply {
    let offset = parameters.number("offset").unwrap_or(0);
    let limit = parameters.number("limit").unwrap_or(100).clamp(1, 100) as usize;
    let seconds = parameters.number("timeout").unwrap_or(0).clamp(0, LONGEST) as u64;
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mine = {
        let mut world = shared.world();
        // All before it are confirmed.
        world.updates.retain(|number, _| *number >= offset);
        world.poll += 1;
        world.poll
    };
    shared.news.notify_waiters();
    loop {
        let news = shared.news.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        {
            let world = shared.world();
            if world.webhook.is_some() {
                return Reply::refused(
                    409,
                    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
                );
            }
            if world.poll != mine {
                return Reply::refused(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                );
            }
            if !world.updates.is_empty() {
                let told: Vec<&Value> = world.updates.values().take(limit).collect();
                return Reply::Done(json!(told));
            }
        }
        if timeout_at(deadline, news).await.is_err() {
            return Reply::Done(json!([]));
        }
    }
}
