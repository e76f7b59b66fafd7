//! `famulus plugin install` and `famulus plugin update`: what was fetched is shown, and runs once it is permitted.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::permit::{Proposal, Rights, RightsArgs, Yes, propose};
use super::{change, offer, source};
use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::wire::Offer;

/// How long the server may take to fetch a plugin.
pub(super) const FETCHED: Duration = Duration::from_mins(10);
pub(super) const WHAT: &str = "an offer of a plugin";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InstallArgs {
    /// The address of a repository, or a folder of this machine
    source: String,
    /// A branch, a tag or a commit of the repository
    #[arg(long)]
    r#ref: Option<String>,
    /// The name in its manifest, where the address says another
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    rights: RightsArgs,
    #[command(flatten)]
    yes: Yes,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UpdateArgs {
    name: String,
    /// Another branch, tag or commit of its repository
    #[arg(long, conflicts_with = "from")]
    r#ref: Option<String>,
    /// The folder with its new files, where it came from a folder
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    #[command(flatten)]
    yes: Yes,
}

pub(crate) async fn install(
    args: InstallArgs,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let InstallArgs { source, r#ref, name, rights, yes } = args;
    let source = source::read(&source, r#ref.as_deref())?;
    let body = json!({ "source": source, "name": name });
    output.note("· fetching it");
    let offer: Offer = client.wait_for(&["v1", "plugins"], &body, FETCHED, WHAT).await?;
    output.print(&offer::render(&offer))?;
    ask(&offer, rights.or(Rights::all_tools()), yes, client, output).await
}

pub(crate) async fn update(
    args: UpdateArgs,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let UpdateArgs { name, r#ref, from, yes } = args;
    let files = from.map(|folder| source::folder(&folder)).transpose()?;
    let body = json!({ "ref": r#ref, "files": files });
    output.note("· fetching it");
    let path = ["v1", "plugins", &name, "update"];
    let offer: Offer = client.wait_for(&path, &body, FETCHED, WHAT).await?;
    settle(&offer, yes, client, output).await
}

/// Shows what is new of a plugin that is there, and has it serve once it is permitted.
pub(super) async fn settle(
    offer: &Offer,
    yes: Yes,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    if !offer.changed {
        output.print(&format!("nothing new: {} serves what is there", offer.plugin))?;
        return Ok(true);
    }
    let (text, rights) = match &offer.before {
        Some(before) => {
            let Offer { permitted, egress, .. } = offer;
            (change::render(offer, before), Rights { tools: permitted.clone(), egress: *egress })
        }
        // Nothing of it was permitted yet.
        None => (offer::render(offer), Rights::all_tools()),
    };
    output.print(&text)?;
    ask(offer, rights, yes, client, output).await
}

async fn ask(
    offer: &Offer,
    rights: Rights,
    yes: Yes,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let Offer { plugin, revision, description, .. } = offer;
    let description = Some(description);
    let proposal = Proposal { plugin, revision, rights, description, is_all: false };
    Box::pin(propose(&proposal, yes, client, output)).await
}
