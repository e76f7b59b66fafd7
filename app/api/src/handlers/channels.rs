//! How the chat channels stand, whichever process listens to them.

use crate::{
    app::App,
    handlers::{Answer, ok},
};
use axum::extract::State;
use famulus_core::clock::Rfc3339;
use famulus_store::AccountStanding;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Channels {
    channels: Vec<ChannelStanding>,
}

#[derive(Serialize, JsonSchema)]
struct ChannelStanding {
    channel: String,
    /// Ours, by the platform's id; null while the platform has not told it.
    account: Option<String>,
    /// Whether a process listens to it now.
    listening: bool,
    /// Why nothing is heard.
    down: Option<String>,
    #[schemars(with = "Rfc3339")]
    since: Timestamp,
}

impl From<AccountStanding> for ChannelStanding {
    fn from(standing: AccountStanding) -> Self {
        Self {
            channel: standing.channel,
            account: Some(standing.account).filter(|account| !account.is_empty()),
            listening: standing.is_listened_to,
            down: standing.down,
            since: standing.since,
        }
    }
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer {
    let accounts = app.api.store.accounts().await?;
    ok(&Channels { channels: accounts.into_iter().map(Into::into).collect() })
}
