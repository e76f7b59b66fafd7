//! Commands: messages that are obeyed before anything is queued, and never kept.

use crate::{
    app::App,
    handlers::{approvals, conversations},
    problem::Problem,
};
use famulus_core::{
    approval::ApprovalState, ids::ConversationId, inbound::Command, person::Caller, turn::STOPPED,
};
use famulus_store::{Decide, Decided};

/// Does what a command says, before anything is queued.
pub(crate) async fn obey(
    app: &App,
    caller: &Caller,
    conversation: Option<ConversationId>,
    command: Command,
) -> Result<(ConversationId, String), Problem> {
    let person = &caller.person;
    let id = match conversation {
        Some(id) => conversations::existing(app, person, &id.to_string()).await?,
        None => conversations::main(app, person).await?,
    };
    let notice = match command {
        Command::Stop => {
            let stopped = app.api.store.stop_conversation(person.id, None, id).await?;
            if stopped.turns.is_empty() { "Nothing was running." } else { STOPPED }.to_owned()
        }
        Command::Approve(code) => answer(app, caller, code, true).await?,
        Command::Deny(code) => answer(app, caller, code, false).await?,
    };
    Ok((id, notice))
}

async fn answer(app: &App, caller: &Caller, code: String, yes: bool) -> Result<String, Problem> {
    let decided = app.api.store.decide(caller, &Decide::Code(code), yes, "command").await?;
    Ok(match decided {
        Decided::Done(approval) => {
            approvals::changed(app, caller, &approval);
            let done = if yes { "Approved" } else { "Denied" };
            format!("{done}: {}", approval.summary)
        }
        Decided::NotTheirs(approval) => return Err(approvals::not_theirs(&approval)),
        Decided::Closed(state) => format!("Too late: it is {}.", word(state)),
        Decided::Missing => {
            "There is no question with this code; GET /v1/approvals lists what waits.".to_owned()
        }
    })
}

pub(crate) fn word(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending => "still open",
        ApprovalState::Approved | ApprovalState::Consumed => "already approved",
        ApprovalState::Denied => "already denied",
        ApprovalState::Expired => "expired",
        ApprovalState::Superseded => "withdrawn",
    }
}
