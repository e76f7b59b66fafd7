//! Linking: a link that a phone scans, or nobody.

use crate::people::User;
use crate::rpc::{Refusal, refusal};
use crate::server::{Shared, Signal};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(10);
/// As Signal's servers have it.
const PATIENCE: Duration = Duration::from_secs(100);

/// Links that were made, and what came of them.
#[derive(Default)]
pub(crate) struct Links {
    /// Each for one use.
    open: Vec<String>,
    scanned: HashMap<String, User>,
    pub(crate) patience: Option<Duration>,
}

impl Links {
    pub(crate) fn make(&mut self, now: i64) -> String {
        let link = format!("sgnl://linkdevice?uuid=u{now}&pub_key=BQ");
        self.open.push(link.clone());
        link
    }

    pub(crate) fn scan(&mut self, link: &str, user: &User) {
        self.scanned.insert(link.to_owned(), user.clone());
    }

    fn take(&mut self, link: &str) -> bool {
        let place = self.open.iter().position(|open| open == link);
        place.map(|place| self.open.remove(place)).is_some()
    }
}

impl Signal {
    /// A phone that has this account scans a link.
    pub fn scan(&self, link: &str, user: &User) {
        self.world().links.scan(link, user);
    }

    /// How long a link waits for a phone.
    pub fn set_link_patience(&self, patience: Duration) {
        self.world().links.patience = Some(patience);
    }
}

/// Waits until a phone scans the link.
pub(crate) async fn finish(shared: &Shared, asked: &Value) -> Result<Value, Refusal> {
    let known = ["deviceLinkUri", "deviceName"];
    let names = asked.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    if names.into_iter().any(|name| !known.contains(&name)) {
        return Err(refusal(-32600, "Unrecognized field"));
    }
    let link = asked["deviceLinkUri"].as_str().unwrap_or_default();
    let patience = {
        let mut world = shared.world();
        if !world.links.take(link) {
            return Err(refusal(-1, "Unknown device link uri."));
        }
        world.links.patience.unwrap_or(PATIENCE)
    };
    let begun = Instant::now();
    let user = loop {
        if let Some(user) = shared.world().links.scanned.remove(link) {
            break user;
        }
        if begun.elapsed() > patience {
            return Err(refusal(-1, "Link request timed out, please try again."));
        }
        sleep(LOOK).await;
    };
    let number = user.number.unwrap_or_default();
    let mut world = shared.world();
    if world.accounts.iter().any(|(other, _)| *other == number) {
        let why = format!("The user {number} already exists on this machine.");
        return Err(refusal(-1, why));
    }
    let kept = world.add_account(number.clone(), user.id);
    kept.map_err(|error| refusal(-32603, error.to_string()))?;
    Ok(json!({ "number": number }))
}
