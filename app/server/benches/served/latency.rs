//! Latencies, all of them kept.

use serde_json::{Value, json};
use std::time::Duration;

/// Milliseconds at the quantiles that are reported; each is one that was measured.
pub(crate) fn report(mut all: Vec<Duration>) -> Value {
    all.sort_unstable();
    let at = |quantile: f64| {
        let place = (all.len() as f64 * quantile).ceil() as usize;
        all.get(place.saturating_sub(1)).map_or(0.0, |one| one.as_secs_f64() * 1e3)
    };
    json!({
        "p50_ms": at(0.5),
        "p90_ms": at(0.9),
        "p99_ms": at(0.99),
        "max_ms": at(1.0),
        "count": all.len(),
    })
}
