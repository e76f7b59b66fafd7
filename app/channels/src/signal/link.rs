//! Linking an account to the daemon, which so becomes one of its devices.

use super::client::{CallError, Client};
use async_trait::async_trait;
use famulus_core::linking::{LinkError, Linker};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The name under which phones list the device.
const DEVICE: &str = "famulus";
/// Signal itself gives up sooner.
const PATIENCE: Duration = Duration::from_mins(3);
/// A method that the daemon does not have, since it was started for one account.
const NO_METHOD: i64 = -32601;
/// What went wrong is the user's: it stands in the message.
const USER_ERROR: i64 = -1;

pub(super) struct SignalLinker {
    client: Arc<Client>,
}

impl SignalLinker {
    pub(super) fn new(client: Arc<Client>) -> Self {
        Self { client }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Begun {
    device_link_uri: String,
}

#[derive(Deserialize)]
struct Linked {
    number: String,
}

#[async_trait]
impl Linker for SignalLinker {
    async fn begin(&self) -> Result<String, LinkError> {
        let begun = self.client.ask::<Begun>("startLink", json!({})).await;
        Ok(begun.map_err(|error| refused(&error))?.device_link_uri)
    }

    async fn finish(&self, link: &str) -> Result<String, LinkError> {
        let asked = json!({"deviceLinkUri": link, "deviceName": DEVICE});
        let linked = self.client.ask_within::<Linked>("finishLink", asked, PATIENCE).await;
        Ok(linked.map_err(|error| refused(&error))?.number)
    }
}

fn refused(error: &CallError) -> LinkError {
    match error {
        CallError::Refused { code: USER_ERROR, message, .. } if message.contains("timed out") => {
            LinkError::Late
        }
        CallError::Refused { code: NO_METHOD, .. } => LinkError::Refused(
            "the daemon serves one account alone; start it without -a".to_owned(),
        ),
        CallError::Refused { message, .. } => LinkError::Refused(message.clone()),
        CallError::Unreached(_)
        | CallError::Unanswered(_)
        | CallError::Other(_)
        | CallError::Account(_) => LinkError::Away(error.to_string()),
    }
}
