//! How the chat channels stand, whichever process listens to them.

use crate::{
    app::App,
    handlers::{Answer, ok},
};
use axum::extract::State;
use famulus_core::clock::Rfc3339;
use famulus_store::{AccountStanding, Error};
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
    /// Ours, as the platform shows it.
    name: Option<String>,
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
            name: standing.name,
            listening: standing.is_listened_to,
            down: standing.down,
            since: standing.since,
        }
    }
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer {
    let accounts = accounts(&app).await?;
    ok(&Channels { channels: accounts.into_iter().map(Into::into).collect() })
}

/// Those of the channels that are configured: one that was taken out is not down.
pub(crate) async fn accounts(app: &App) -> Result<Vec<AccountStanding>, Error> {
    let mut accounts = app.api.store.accounts().await?;
    accounts.retain(|one| app.api.hearing.contains(&one.channel));
    Ok(accounts)
}

/// In the Prometheus text format: of the whole installation, whichever process says it.
pub(crate) fn exposition(accounts: &[AccountStanding]) -> String {
    if accounts.is_empty() {
        return String::new();
    }
    let line = |one: &AccountStanding| {
        let up = i32::from(one.down.is_none());
        format!("famulus_channel_up{{channel=\"{}\"}} {up}\n", one.channel)
    };
    let head = "# TYPE famulus_channel_up gauge\n".to_owned();
    [head].into_iter().chain(accounts.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_up_or_not() {
        let standing = |channel: &str, down: Option<&str>| AccountStanding {
            channel: channel.to_owned(),
            account: "99".to_owned(),
            name: None,
            is_listened_to: down.is_none(),
            down: down.map(str::to_owned),
            since: Timestamp::UNIX_EPOCH,
        };
        let all = [standing("signal", Some("away")), standing("telegram", None)];
        let expected = "# TYPE famulus_channel_up gauge\n\
            famulus_channel_up{channel=\"signal\"} 0\n\
            famulus_channel_up{channel=\"telegram\"} 1\n";
        assert_eq!(exposition(&all), expected);
        assert_eq!(exposition(&[]), "");
    }
}
