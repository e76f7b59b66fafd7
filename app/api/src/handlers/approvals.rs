//! Questions to the owner, and their answers.

use crate::{
    app::App,
    body::{Authenticated, Json, QueryParams, id},
    handlers::{Answer, commands::word, ok, page},
    problem::{Kind, Problem},
};
use axum::extract::{Path, State};
use famulus_core::{
    approval::{Approval, ApprovalState},
    event::List,
    ids::ApprovalId,
};
use famulus_store::{Decide, Decided};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIST: &str = "GET /v1/approvals";

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    state: Option<ApprovalState>,
    /// At most this many, 50 unless told.
    limit: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Approvals {
    approvals: Vec<Approval>,
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
    let limit = page(asked.limit, 50, 200);
    let approvals = app.api.store.approvals(caller.person.id, asked.state, limit).await?;
    ok(&Approvals { approvals })
}

pub(crate) async fn decide(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(approval): Path<String>,
    Json(decision, _held): Json<Decision>,
) -> Answer {
    let which = Decide::Id(id::<ApprovalId>("approval", &approval, LIST)?);
    let yes = decision.decision == Verdict::Approve;
    let person = caller.person.id;
    match app.api.store.decide(person, &which, yes, caller.token, "api").await? {
        Decided::Done(approval) => {
            app.api.hub.list_changed(person, List::Approvals);
            ok(&approval)
        }
        Decided::Closed(state) => Err(Problem::new(
            Kind::Conflict,
            format!("the question is {}", word(state)),
            "see GET /v1/approvals?state=pending for what is open",
        )),
        Decided::Missing => Err(Problem::missing("this approval", LIST)),
    }
}
