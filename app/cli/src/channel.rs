//! `famulus channel`: how the chat channels stand.

use famulus_core::clock::{Clock as _, SystemClock};
use serde_json::Value;

use crate::clean::one_line;
use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::table::{duration, table};
use crate::wire::Channels;

#[derive(Clone, Debug, clap::Args)]
pub struct ChannelArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Show which are heard, and why one is not (what happens without a subcommand)
    Status,
}

pub(crate) async fn run(
    args: ChannelArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let ChannelArgs { action: None | Some(Action::Status), json } = args;
    let path = ["v1", "channels"];
    if json {
        let raw: Value = client.get(&path, &[], "a list of channels").await?;
        return output.print(&format!("{raw:#}"));
    }
    let found: Channels = client.get(&path, &[], "a list of channels").await?;
    if found.channels.is_empty() {
        return output.print("no chat channel is configured; docs/CHANNELS.md says how");
    }
    let now = SystemClock.now();
    let rows: Vec<Vec<String>> = found
        .channels
        .iter()
        .map(|one| {
            let since = duration(now.duration_since(one.since).as_secs_f64().max(0.0));
            let state = match (&one.down, one.listening) {
                (Some(why), _) => format!("down for {since}: {}", one_line(why)),
                (None, true) => format!("heard for {since}"),
                (None, false) => "nobody listens".to_owned(),
            };
            let account = one.account.as_deref().unwrap_or("not known yet").to_owned();
            vec![one.channel.clone(), account, state]
        })
        .collect();
    output.print(&table(&["channel", "account", "state"], &rows))
}
