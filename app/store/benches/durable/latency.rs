//! Latencies as a histogram that keeps three digits.

use anyhow::Result;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Duration;

/// From a microsecond to two minutes, in nanoseconds.
const BOUNDS: (u64, u64) = (1_000, 120_000_000_000);
const DIGITS: u8 = 3;

pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(BOUNDS.0, BOUNDS.1, DIGITS)?))
    }

    pub(crate) fn of(all: impl IntoIterator<Item = Duration>) -> Result<Self> {
        let mut latencies = Self::new()?;
        for one in all {
            latencies.record(one);
        }
        Ok(latencies)
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Milliseconds at the quantiles that are reported, and the whole histogram in microseconds.
    pub(crate) fn report(&self) -> Value {
        let at = |quantile: f64| self.0.value_at_quantile(quantile) as f64 / 1e6;
        let buckets: Vec<(f64, u64)> = self
            .0
            .iter_recorded()
            .map(|step| (step.value_iterated_to() as f64 / 1e3, step.count_at_value()))
            .collect();
        json!({
            "p50_ms": at(0.5),
            "p90_ms": at(0.9),
            "p99_ms": at(0.99),
            "max_ms": self.0.max() as f64 / 1e6,
            "count": self.0.len(),
            "buckets_us": buckets,
        })
    }
}
