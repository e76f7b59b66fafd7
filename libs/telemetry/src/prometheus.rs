//! Metrics of the `metrics` facade, rendered for Prometheus.

use std::fmt;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::Error;

/// From a warm tool call (1 ms) to the longest turn that is still normal (5 min).
const SECONDS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// From a short message to a large upload.
const BYTES: [f64; 8] =
    [256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 33_554_432.0];

/// For histograms of counts, such as the size of a batch.
const COUNTS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, 10_000.0];

/// Renders what the process has counted. Clones share one recorder.
///
/// Histograms named `*_seconds` and `*_bytes` get buckets of that unit. Labels must come from
/// small closed sets, never from a person, a chat or a message.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    pub(crate) fn install() -> Result<Self, Error> {
        let with_buckets = PrometheusBuilder::new()
            .set_buckets(&COUNTS)
            .and_then(|b| b.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS))
            .and_then(|b| b.set_buckets_for_metric(Matcher::Suffix("_bytes".into()), &BYTES));
        #[expect(clippy::expect_used, reason = "an empty list is the only refusal")]
        let builder = with_buckets.expect("the bucket lists are not empty");
        let handle = builder.install_recorder().map_err(|_| Error::AlreadyInstalled)?;
        Ok(Self { handle })
    }

    /// All metrics in the Prometheus text format.
    pub fn text(&self) -> String {
        self.handle.render()
    }

    /// Folds recorded samples into their buckets. [`Metrics::text`] does it too; where nobody
    /// scrapes, call this once a minute or the samples pile up.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
