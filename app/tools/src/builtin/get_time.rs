//! `get_time`: the present time in a zone.

use crate::builtin::Ports;
use crate::moment;
use crate::schema::schema_of;
use crate::tool::{Policy, Tool, ToolError, filled, json, typed};
use async_trait::async_trait;
use famulus_core::Clock;
use famulus_core::tool::{CallContext, Effect, Repeat, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

pub(super) struct GetTime {
    clock: Arc<dyn Clock>,
}

impl GetTime {
    pub(super) fn new(ports: &Ports) -> Self {
        Self { clock: Arc::clone(&ports.clock) }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// IANA name such as Europe/Berlin; the person's zone if left out.
    #[serde(default, deserialize_with = "filled")]
    zone: Option<String>,
}

const POLICY: [Policy; 1] = [Policy::new(None, Effect::Read, Repeat::Safe)];

#[async_trait]
impl Tool for GetTime {
    fn name(&self) -> &'static str {
        "get_time"
    }

    fn description(&self) -> &'static str {
        "The present date, time and weekday."
    }

    fn schema(&self) -> Value {
        schema_of::<Arguments>()
    }

    fn policy(&self) -> &[Policy] {
        &POLICY
    }

    async fn run(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = typed(arguments)?;
        let wanted = arguments.zone.as_deref().unwrap_or(&context.person.time_zone);
        let (tz, zone) = moment::zone(wanted.trim())?;
        let now = self.clock.now();
        json(&serde_json::json!({
            "time": moment::written_in(now, &tz),
            "zone": zone,
            "weekday": now.to_zoned(tz).strftime("%A").to_string(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Bench;
    use serde_json::json;

    #[tokio::test]
    async fn the_time_is_told_in_the_zone_that_was_asked_for() {
        // The bench stands at 2026-05-01T10:00:00Z, its person lives in Berlin.
        let mut bench = Bench::new();
        let told = bench.done("get_time", json!({})).await;
        assert_eq!(
            told,
            json!({"time": "2026-05-01T12:00:00+02:00", "zone": "Europe/Berlin", "weekday": "Friday"})
        );
        let told = bench.done("get_time", json!({"zone": "pacific/auckland"})).await;
        assert_eq!(
            told,
            json!({"time": "2026-05-01T22:00:00+12:00", "zone": "Pacific/Auckland", "weekday": "Friday"})
        );
        let told = bench.done("get_time", json!({"zone": " "})).await;
        assert_eq!(told["zone"], "Europe/Berlin");
        let error = bench.error("get_time", json!({"zone": "Berlin"})).await;
        assert_eq!(error, "`Berlin` is not a time zone; use an IANA name such as `Europe/Berlin`");
    }
}
