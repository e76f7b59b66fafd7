//! `count_days`: the days from one date to another.

use crate::builtin::Ports;
use crate::schema::schema_of;
use crate::tool::{Policy, Tool, ToolError, json, typed};
use async_trait::async_trait;
use famulus_core::tool::{CallContext, Effect, Repeat, ToolOutput};
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub(super) struct CountDays;

impl CountDays {
    pub(super) fn new(_: &Ports) -> Self {
        Self
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// As 2026-12-24.
    from: String,
    /// As 2026-12-31.
    to: String,
}

const POLICY: [Policy; 1] = [Policy::new(None, Effect::Read, Repeat::Safe)];

#[async_trait]
impl Tool for CountDays {
    fn name(&self) -> &'static str {
        "count_days"
    }

    fn description(&self) -> &'static str {
        "The number of days from one date to another."
    }

    fn schema(&self) -> Value {
        schema_of::<Arguments>()
    }

    fn policy(&self) -> &[Policy] {
        &POLICY
    }

    async fn run(&self, arguments: Value, _: &CallContext) -> Result<ToolOutput, ToolError> {
        let Arguments { from, to } = typed(arguments)?;
        let days = (date(&to)? - date(&from)?).get_days();
        json(&serde_json::json!({ "days": days }))
    }
}

fn date(text: &str) -> Result<Date, ToolError> {
    text.parse().map_err(|_| ToolError::call(format!("`{text}` is not a date; write 2026-12-24")))
}

#[cfg(test)]
mod tests {
    use crate::fixture::Bench;
    use serde_json::json;

    #[tokio::test]
    async fn days_are_counted_from_one_date_to_another() {
        let mut bench = Bench::with(vec![std::sync::Arc::new(super::CountDays)]);
        let told =
            bench.done("count_days", json!({"from": "2026-12-24", "to": "2027-01-01"})).await;
        assert_eq!(told, json!({"days": 8}));
        let error = bench.error("count_days", json!({"from": "today", "to": "2027-01-01"})).await;
        assert_eq!(error, "`today` is not a date; write 2026-12-24");
    }
}
