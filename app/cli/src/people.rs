//! `famulus people`: who asked to be let in, and letting one in.

use famulus_core::clock::{Clock as _, SystemClock};
use reqwest::Method;
use serde_json::{Value, json};

use crate::clean::one_line;
use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::table::{duration, table};
use crate::wire::{Known, Me, Pairings, People, Person};

#[derive(Clone, Debug, clap::Args)]
pub struct PeopleArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// List who wrote to the assistant and is not known (what happens without a subcommand)
    Waiting,
    /// Let somebody in by the code that they were told
    Pair {
        code: String,
        /// It is your own account there
        #[arg(long, conflicts_with_all = ["person", "contact", "name"])]
        me: bool,
        /// It is another account of somebody who is known: their name, or their id
        #[arg(long, value_name = "WHO", conflicts_with_all = ["contact", "name"])]
        person: Option<String>,
        /// As a contact: somebody outside, who is no member of the household
        #[arg(long)]
        contact: bool,
        /// How they are called here
        #[arg(long)]
        name: Option<String>,
    },
}

pub(crate) async fn run(
    args: PeopleArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let path = ["v1", "pairings"];
    match args.action {
        None | Some(Action::Waiting) if args.json => {
            let raw: Value = client.get(&path, &[], "a list of pairings").await?;
            output.print(&format!("{raw:#}"))
        }
        None | Some(Action::Waiting) => {
            let found: Pairings = client.get(&path, &[], "a list of pairings").await?;
            if found.pairings.is_empty() {
                return output.print("nobody waits; a stranger who writes is told a code");
            }
            let now = SystemClock.now();
            let rows: Vec<Vec<String>> = found
                .pairings
                .iter()
                .map(|one| {
                    let left = one.until.duration_since(now).as_secs_f64().max(0.0);
                    vec![
                        one.channel.clone(),
                        one_line(&one.name),
                        one.external_id.clone(),
                        duration(left),
                    ]
                })
                .collect();
            output.print(&table(&["channel", "shows as", "id", "code good for"], &rows))
        }
        Some(Action::Pair { code, me, person, contact, name }) => {
            let mut body = json!({ "code": code });
            if me {
                let me: Me = client.get(&["v1", "me"], &[], "who the token belongs to").await?;
                body["becomes"] = json!({ "person": me.person.id });
            } else if let Some(person) = person {
                body["becomes"] = json!({ "person": find(&person, client).await? });
            } else {
                let role = if contact { "contact" } else { "member" };
                body["becomes"] = json!({ "role": role });
                if let Some(name) = name {
                    body["becomes"]["name"] = json!(name);
                }
            }
            let known: Known = client.send(Method::POST, &path, &body, "who was let in").await?;
            let Known { person, channel, external_id } = known;
            output.print(&format!(
                "{} may write on {channel} now, from the account {external_id}",
                one_line(&person.name)
            ))
        }
    }
}

/// Somebody by their id, or by a name that is nobody else's.
pub(crate) async fn find(given: &str, client: &Client) -> Result<String, Error> {
    let all: People = client.get(&["v1", "people"], &[], "a list of people").await?;
    let is_meant =
        |person: &&Person| person.id == given || person.name.to_lowercase() == given.to_lowercase();
    let mut meant = all.people.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(person), None) => Ok(person.id.clone()),
        (None, _) => Err(Error::NoPerson { given: one_line(given) }),
        (Some(one), Some(other)) => Err(Error::TwoPeople {
            given: one_line(given),
            ids: one_line(&format!("{} {}", one.id, other.id)),
        }),
    }
}
