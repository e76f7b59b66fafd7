//! Whose numbers stand in a list of whom the owner lets in.
//!
//! A number passes from one to another, and counts for nothing by itself: it is looked up, and the account
//! that has it now is let in.

use super::client::{CallError, Client};
use super::wire::Standing;
use famulus_core::linking::is_number;
use serde_json::json;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Signal lets nobody look up much, and strangers may be many.
const GOOD_FOR: Duration = Duration::from_hours(1);
/// Who was refused asks again after this.
const REFUSED_FOR: Duration = Duration::from_mins(1);

/// The accounts that have the numbers, once they were looked up.
#[derive(Default)]
pub(super) struct Numbers(Mutex<Option<Known>>);

struct Known {
    until: Instant,
    ids: Vec<String>,
}

impl Known {
    fn has(&self, id: &str) -> bool {
        self.ids.iter().any(|known| known == id)
    }
}

impl Numbers {
    /// Whether one of the numbers in the list is that account's. Where it cannot be found out, none is that
    /// was not before.
    ///
    /// # Errors
    /// The daemon did not answer.
    pub(super) async fn are_of(
        &self,
        client: &Client,
        listed: &[String],
        id: &str,
    ) -> Result<bool, CallError> {
        let numbers: Vec<&String> = listed.iter().filter(|listed| is_number(listed)).collect();
        if numbers.is_empty() {
            return Ok(false);
        }
        let mut known = self.0.lock().await;
        let before = match &*known {
            Some(known) if known.until > Instant::now() => return Ok(known.has(id)),
            Some(known) => known.ids.clone(),
            None => Vec::new(),
        };
        let asked = json!({ "recipient": numbers });
        let (ids, good_for) = match client.call::<Vec<Standing>>("getUserStatus", asked).await {
            Ok(found) => (accounts(found), GOOD_FOR),
            Err(error @ CallError::Refused { .. }) => {
                tracing::warn!(%error, "whose the numbers in `channels.signal.allow` are is not known");
                (before, REFUSED_FOR)
            }
            Err(error) => return Err(error),
        };
        Ok(known.insert(Known { until: Instant::now() + good_for, ids }).has(id))
    }
}

fn accounts(found: Vec<Standing>) -> Vec<String> {
    let of = |Standing { recipient, uuid }| {
        if uuid.is_none() {
            tracing::warn!(
                number = recipient,
                "a number in `channels.signal.allow` lets nobody in: its holder is not on Signal, or is not \
                 found by it; list the account's id, which `famulus people` shows"
            );
        }
        uuid
    };
    found.into_iter().filter_map(of).collect()
}
