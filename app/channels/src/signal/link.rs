//! How the daemon comes to an account: it becomes a device of one, or registers a number.

use super::client::{CallError, Client};
use async_trait::async_trait;
use famulus_core::linking::{LinkError, Linker, Proof, Registration};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The name under which phones list the device.
const DEVICE: &str = "famulus";
/// Signal itself gives up sooner.
const PATIENCE: Duration = Duration::from_mins(3);
/// Keys are made, and servers asked several times.
const REGISTERED: Duration = Duration::from_mins(1);
/// Where a captcha for a number is solved.
const CAPTCHA: &str = "https://signalcaptchas.org/registration/generate.html";
/// A method that the daemon does not have, since it was started for one account.
const NO_METHOD: i64 = -32601;
/// What went wrong is the user's: it stands in the message.
const USER_ERROR: i64 = -1;
const RATE_LIMIT: i64 = -5;
const CAPTCHA_REJECTED: i64 = -6;

pub(super) struct SignalLinker {
    client: Arc<Client>,
}

impl SignalLinker {
    pub(super) fn new(client: Arc<Client>) -> Self {
        Self { client }
    }

    /// Of a number that is no account of the daemon yet.
    async fn ask(&self, method: &str, asked: serde_json::Value) -> Result<(), LinkError> {
        let done = self.client.ask_within::<IgnoredAny>(method, asked, REGISTERED).await;
        done.map(drop).map_err(|error| refused(&error))
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

    async fn register(&self, new: &Registration) -> Result<(), LinkError> {
        let Registration { number, captcha, by_call } = new;
        let asked = json!({"account": number, "voice": by_call, "captcha": captcha});
        self.ask("register", asked).await
    }

    async fn verify(&self, number: &str, proof: &Proof) -> Result<(), LinkError> {
        let Proof { code, pin } = proof;
        let asked = json!({"account": number, "verificationCode": code, "pin": pin});
        self.ask("verify", asked).await
    }
}

fn refused(error: &CallError) -> LinkError {
    match error {
        CallError::Refused { code: USER_ERROR, message, .. } if message.contains("timed out") => {
            LinkError::Late
        }
        CallError::Refused { code: CAPTCHA_REJECTED, .. } => LinkError::Captcha { at: CAPTCHA },
        CallError::Refused { code: USER_ERROR, message, .. }
            if message.to_lowercase().contains("captcha") =>
        {
            LinkError::Captcha { at: CAPTCHA }
        }
        CallError::Refused { code: RATE_LIMIT, message, .. } => {
            LinkError::TooOften(message.clone())
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
