//! `famulus approvals`: what waits for an answer, and the answer.

use famulus_core::approval::{Asked, Rights};
use famulus_core::clock::{Clock as _, SystemClock};
use famulus_core::ids::ApprovalId;
use famulus_core::visible::make_visible;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::Value;

use crate::clean::one_line;
use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::table::duration;
use crate::wire::{Approval, Approvals, Decision, Verdict};

#[derive(Clone, Debug, clap::Args)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print the server's answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// List the approvals that wait (what happens without a subcommand)
    List,
    /// Allow the call once, exactly as it is shown
    Approve {
        /// The code that is shown with it, or its id
        code: String,
    },
    /// Refuse the call
    Deny {
        /// The code that is shown with it, or its id
        code: String,
    },
}

pub(crate) async fn run(
    args: ApprovalsArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    match args.action {
        None | Some(Action::List) if args.json => {
            output.print(&format!("{:#}", read::<Value>(client).await?))
        }
        None | Some(Action::List) => list(client, output).await,
        Some(Action::Approve { code }) => answer(client, output, &code, Verdict::Approve).await,
        Some(Action::Deny { code }) => answer(client, output, &code, Verdict::Deny).await,
    }
}

pub(crate) async fn list(client: &Client, output: &mut Output) -> Result<(), Error> {
    let pending = pending(client).await?;
    if pending.is_empty() {
        return output.print("nothing waits for approval");
    }
    let now = SystemClock.now();
    for approval in &pending {
        output.print(&described(approval, now))?;
    }
    Ok(())
}

/// Finds the approval by its code or id and answers it.
pub(crate) async fn answer(
    client: &Client,
    output: &mut Output,
    given: &str,
    verdict: Verdict,
) -> Result<(), Error> {
    let given = given.trim();
    let found = pending(client).await?.into_iter().find(|approval| {
        approval.code.eq_ignore_ascii_case(given) || approval.id.to_string() == given
    });
    let Some(approval) = found else {
        return Err(Error::NoApproval { given: one_line(given) });
    };
    let decided = decide(client, approval.id, verdict).await?;
    output.print(&format!("{}: {}", decided.state.as_str(), make_visible(&approval.summary)))
}

pub(crate) async fn pending(client: &Client) -> Result<Vec<Approval>, Error> {
    Ok(read::<Approvals>(client).await?.approvals)
}

pub(crate) async fn decide(
    client: &Client,
    approval: ApprovalId,
    decision: Verdict,
) -> Result<Approval, Error> {
    let path = ["v1", "approvals", &approval.to_string()];
    client.send(Method::POST, &path, &Decision { decision }, "an approval").await
}

async fn read<T: serde::de::DeserializeOwned>(client: &Client) -> Result<T, Error> {
    client.get(&["v1", "approvals"], &[("state", "pending")], "a list of approvals").await
}

fn described(approval: &Approval, now: Timestamp) -> String {
    let whose = whose(approval).map_or_else(String::new, |whose| format!("; {whose}"));
    format!(
        "{}  {} (expires in {}{whose})\n    {}",
        approval.code,
        make_visible(&approval.summary),
        duration(approval.expires_at.duration_since(now).as_secs_f64()),
        make_visible(&approval.shown).replace('\n', "\n    "),
    )
}

/// Who is asked, where it is not who reads this.
pub(crate) fn whose(approval: &Approval) -> Option<String> {
    let name = one_line(&approval.person_name);
    match (approval.may, approval.asked) {
        (Rights::Answer, _) => None,
        (Rights::Deny, _) => Some(format!("{name} is asked, you may deny it")),
        (Rights::See, Asked::Owner) => Some("the owner is asked".to_owned()),
        (Rights::See, Asked::Person) => Some(format!("{name} is asked")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::approval::ApprovalState;

    #[test]
    fn the_exact_call_is_shown() {
        let mut approval = Approval {
            id: ApprovalId::new(),
            code: "ABCD2345".to_owned(),
            summary: "delete a memory\u{200b}".to_owned(),
            shown: "manage_knowledge {\n\"id\":1}".to_owned(),
            state: ApprovalState::Pending,
            expires_at: "2026-11-21T10:05:00Z".parse().unwrap(),
            person_name: "Ada".to_owned(),
            asked: Asked::Person,
            may: Rights::Answer,
        };
        let now = "2026-11-21T10:01:30Z".parse().unwrap();
        assert_eq!(
            described(&approval, now),
            "ABCD2345  delete a memory⟨U+200B⟩ (expires in 3 min 30 s)\n    manage_knowledge {\n    \"id\":1}"
        );
        approval.may = Rights::Deny;
        assert!(described(&approval, now).contains("30 s; Ada is asked, you may deny it)\n"));
        (approval.may, approval.asked) = (Rights::See, Asked::Owner);
        assert!(described(&approval, now).contains("30 s; the owner is asked)\n"));
    }
}
