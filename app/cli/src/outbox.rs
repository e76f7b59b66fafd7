//! `famulus outbox`: messages that were not delivered, or of which nobody knows, and sending one again.

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::schedules::{moment, zone};
use crate::table::{shorten, table};
use crate::wire::{Leaving, Me, Outbox};

/// Columns that a reason takes in the list.
const REASON: usize = 60;

#[derive(Clone, Debug, clap::Args)]
pub struct OutboxArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// List what was not delivered, and what may not have been (what happens without a subcommand)
    List,
    /// Send one again; where it may have arrived, it may arrive twice
    Retry {
        /// Its id, from `famulus outbox`
        id: String,
    },
}

pub(crate) async fn run(
    args: OutboxArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    match args.action {
        None | Some(Action::List) => list(args.json, client, output).await,
        Some(Action::Retry { id }) => {
            let path = ["v1", "outbox", &id, "retry"];
            let raw: Value =
                client.send(Method::POST, &path, &json!({}), "the answer to a retry").await?;
            let said = if args.json { format!("{raw:#}") } else { "it is sent again".to_owned() };
            output.print(&said)
        }
    }
}

async fn list(json: bool, client: &Client, output: &mut Output) -> Result<(), Error> {
    const WHAT: &str = "a list of messages";
    let mut rows = Vec::new();
    let mut all = Vec::new();
    let me: Me = client.get(&["v1", "me"], &[], "who the token belongs to").await?;
    let zone = zone(&me.person.time_zone);
    for state in ["unknown", "failed"] {
        let raw: Value = client.get(&["v1", "outbox"], &[("state", state)], WHAT).await?;
        all.extend(raw["messages"].as_array().cloned().unwrap_or_default());
        let found: Outbox =
            serde_json::from_value(raw).map_err(|source| client.malformed(WHAT, Some(source)))?;
        rows.extend(found.messages.iter().map(|one: &Leaving| {
            vec![
                one.id.clone(),
                format!("{} {}", one.to.channel, one.to.chat),
                if state == "unknown" { "may have arrived" } else { "not delivered" }.to_owned(),
                moment(one.created_at, &zone),
                shorten(one.error.as_deref().unwrap_or_default(), REASON),
            ]
        }));
    }
    if json {
        return output.print(&format!("{:#}", json!({ "messages": all })));
    }
    if rows.is_empty() {
        return output.print("everything was delivered, or is on its way");
    }
    output.print(&table(&["id", "to", "state", "since", "why"], &rows))?;
    output.print("`famulus outbox retry ID` sends one again")
}
