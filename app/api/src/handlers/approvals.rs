//! Questions, and their answers.

use crate::{
    app::App,
    body::{Authenticated, Json, QueryParams, id},
    handlers::{Answer, ok, page},
    problem::{Kind, Problem},
};
use axum::extract::{Path, State};
use famulus_core::{
    approval::{Approval, ApprovalState, Asked, Decide, Decided, Rights},
    ids::ApprovalId,
    person::Caller,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIST: &str = "GET /v1/approvals";
/// Questions that one request lists.
const LISTED: i64 = 200;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    state: Option<ApprovalState>,
    /// At most this many, 50 unless told.
    #[schemars(range(min = 1, max = LISTED))]
    limit: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Approvals {
    approvals: Vec<Question>,
}

/// A question, as the caller sees it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Question {
    #[serde(flatten)]
    approval: Approval,
    /// What the caller's token may do with it.
    may: Rights,
}

impl Question {
    pub(crate) fn of(approval: Approval, caller: &Caller) -> Self {
        let may = approval.rights(caller);
        Self { approval, may }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    decision: Verdict,
}

#[derive(Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Approve,
    Deny,
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    QueryParams(asked): QueryParams<ListQuery>,
) -> Answer {
    let limit = page(asked.limit, LISTED)?;
    let approvals = app.api.store.approvals(&caller, asked.state, limit).await?;
    let questions = approvals.into_iter().map(|approval| Question::of(approval, &caller));
    ok(&Approvals { approvals: questions.collect() })
}

pub(crate) async fn decide(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(approval): Path<String>,
    Json(decision, _held): Json<Decision>,
) -> Answer {
    let which = Decide::Id(id::<ApprovalId>("approval", &approval, LIST)?);
    let yes = decision.decision == Verdict::Approve;
    match app.api.reception.decide(&caller, &which, yes, "api").await? {
        Decided::Done(approval) => ok(&Question::of(approval, &caller)),
        Decided::NotTheirs(approval) => Err(not_theirs(&approval)),
        Decided::Closed(state) => Err(Problem::new(
            Kind::Conflict,
            format!("the question is {}", state.word()),
            "see GET /v1/approvals?state=pending for what is open",
        )),
        Decided::Missing => Err(Problem::missing("this approval", LIST)),
    }
}

/// Why a caller who sees a question may not answer it so.
pub(crate) fn not_theirs(approval: &Approval) -> Problem {
    match approval.asked {
        Asked::Owner => Problem::new(
            Kind::OwnerOnly,
            "the owner is asked, and answers with a token of the scope `owner`",
            "use the owner's token, which `famulus token` shows on the server",
        ),
        Asked::Person => Problem::new(
            Kind::NotAsked,
            format!("{} is asked, and nobody else says yes", approval.person_name),
            "deny it with the owner's token, or leave it to them",
        ),
    }
}
