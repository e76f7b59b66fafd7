//! What came of a command, as callers of the API are told.

use famulus_reception::Outcome;

pub(crate) fn said(outcome: &Outcome) -> String {
    if *outcome == Outcome::NoQuestion {
        return "There is no question with this code; GET /v1/approvals lists what waits."
            .to_owned();
    }
    outcome.to_string()
}
