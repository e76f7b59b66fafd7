//! The results of calls that end later: each becomes a message of the conversation that began the
//! call, once, however often it comes.
//!
//! ```text
//! token fits the call ─► files stored ─► message accepted (key: the call) ─► noted ─► let go
//! ```
//!
//! After each arrow the process may die: the runner comes again, and what is done is found done.

use super::{CALL_TOKEN, Runner};
use crate::{
    app::App,
    body::collect,
    handlers::{Answer, gone, plugins::refused},
    problem::{Kind, Problem},
};
use axum::{
    extract::{Path, Request, State},
    http::HeaderMap,
};
use famulus_core::{
    accept::AcceptError,
    inbound::{Attachment, ChatKind, Inbound, Meeting, Source, Target},
    message::Provenance,
    plugin::{LateCall, for_model},
    runner::DELIVERY_BYTES,
    sandbox::SandboxResult,
    visible::file_name,
};
use famulus_store::{ExpectedCall, LateState, nowhere};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

pub(super) async fn take(
    State(app): State<Arc<App>>,
    runner: Runner,
    Path(id): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    let now = app.api.clock.now();
    let expected = expected(&app, &runner, &id, &headers, now).await?;
    let whole = collect(request, DELIVERY_BYTES, "nothing: it is fixed", &app).await?;
    let (plugin, person) = (expected.call.plugin.as_str(), expected.call.person);
    let collected = app.api.runners.collect(plugin, &id, &whole.bytes, person).await;
    drop(whole);
    let message = inbound(&expected, collected.map_err(|error| refused(&error))?, now);
    match app.api.reception.take(message).await {
        Ok(_accepted) => {}
        Err(AcceptError::NoConversation { .. }) => return Err(over("its conversation is gone")),
        Err(
            error @ (AcceptError::KeyReused { .. }
            | AcceptError::NoAttachment { .. }
            | AcceptError::Store(_)),
        ) => return Err(error.into()),
    }
    app.api.store.late_call_delivered(person, &id).await?;
    app.api.sandboxes.acknowledge(plugin, &id).await;
    gone()
}

/// The call that this result belongs to, if whoever brings it holds its token.
async fn expected(
    app: &App,
    runner: &Runner,
    id: &str,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<ExpectedCall, Problem> {
    let token = headers.get(CALL_TOKEN).map(|token| Sha256::digest(token.as_bytes()));
    let found = app.api.store.late_call(id).await?;
    let (Some(found), Some(hash)) = (found, token) else { return Err(foreign()) };
    // Hashes of secrets may be compared byte by byte: who sees how far they agree learns nothing.
    if found.call.plugin != runner.plugin || found.call.token_hash[..] != hash[..] {
        return Err(foreign());
    }
    match found.state {
        LateState::Delivered => Err(over("it was delivered before")),
        LateState::Expected if found.call.expires_at <= now => Err(over("its time is over")),
        LateState::Expected => Ok(found),
    }
}

/// The same for a call that there is not, that is another plugin's, and that has another token.
fn foreign() -> Problem {
    Problem::new(
        Kind::WrongCall,
        "no result of this call is expected from here",
        "deliver each result with the token that came with its call",
    )
}

fn over(why: &'static str) -> Problem {
    Problem::new(Kind::Gone, format!("the result is not taken: {why}"), "let the result go")
}

fn inbound(expected: &ExpectedCall, mut result: SandboxResult, now: Timestamp) -> Inbound {
    let LateCall { id, plugin, tool, person, agent, conversation, origin, .. } = &expected.call;
    let files = result.runs.iter_mut().flat_map(|run| std::mem::take(&mut run.files));
    let attachments =
        files.map(|(name, blob)| Attachment { blob, name: file_name(&name) }).collect();
    let text =
        format!("The result of call {id} has come.\n{}", for_model(plugin, tool, &result).text);
    Inbound {
        source: Source::Callback(id.clone()),
        person: *person,
        host: expected.host,
        sender: format!("{plugin}/{tool}"),
        time_zone: expected.time_zone.clone(),
        agent: *agent,
        target: Target::Existing(*conversation),
        // A blank, which no key of a person's message has.
        external_id: Some(format!("callback {id}")),
        keyed_by: None,
        body_hash: Sha256::digest(id.as_bytes()).into(),
        reply: origin.clone().unwrap_or_else(|| nowhere(id.clone())),
        chat: ChatKind::Direct,
        sent_at: None,
        arrived_at: now,
        text,
        attachments,
        provenance: Provenance::Tool,
        meeting: Meeting::Queue,
    }
}
