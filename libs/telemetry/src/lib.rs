//! What the program says about itself: logs, traces and metrics.
//!
//! [`init`] installs all three once per process. Logs go to standard error, as text or as one JSON
//! object a line; traces go to an OTLP/HTTP collector if one is configured; metrics are collected
//! by the `metrics` macros and rendered on demand for a scrape.
//!
//! The crate refuses to know what is worth saying, which values are secret (the owner of a secret
//! adds it to the [`Redactor`]), and where `/metrics` is served.
//!
//! Invariants: a value that was added to the redactor leaves through neither a log line nor an
//! exported span, in any of the spellings of [`Redactor::add`]; what is off is not constructed: without an
//! endpoint there is no exporter, no thread and no buffer.

mod config;
mod prometheus;
mod redact;
mod traces;
mod writer;

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

pub use config::{Config, Format};
pub use prometheus::Metrics;
pub use redact::{Redactor, TooShort};

/// Why telemetry could not be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter of the configuration, or the one given to [`Guard::set_level`], does not parse.
    #[error(
        "log filter {filter:?} is not valid: use a level (error, warn, info, debug, trace) or \
         directives such as \"info,famulus_queue=debug\""
    )]
    Filter { filter: String, source: ParseError },
    /// A subscriber or recorder exists already; [`init`] runs once per process.
    #[error("telemetry is already installed in this process: call init only once")]
    AlreadyInstalled,
    /// The exporter refused its endpoint.
    #[error(
        "cannot export traces to otlp_endpoint {endpoint:?}: give the collector's base URL, such \
         as http://127.0.0.1:4318"
    )]
    Otlp { endpoint: String, source: opentelemetry_otlp::ExporterBuildError },
    /// The filter can no longer be changed because the subscriber is gone.
    #[error("the log level cannot be changed: the subscriber is gone")]
    SubscriberGone,
}

/// Keeps what [`init`] installed. Hold it until the end of `main`: dropping it sends the last
/// spans, for at most five seconds.
#[derive(Debug)]
pub struct Guard {
    filter: reload::Handle<EnvFilter, Registry>,
    redactor: Redactor,
    metrics: Metrics,
    traces: Option<traces::Exporting>,
}

/// Installs the log writer, the trace exporter if configured, and the metrics recorder.
///
/// # Errors
/// The filter or the endpoint is not valid, or something is installed already. Nothing is
/// installed when the configuration is wrong.
pub fn init(config: &Config) -> Result<Guard, Error> {
    let Config { log, format, otlp_endpoint } = config;
    let redactor = Redactor::default();
    let (filter, filter_handle) = reload::Layer::new(parse_filter(log)?);
    let traces = otlp_endpoint
        .as_deref()
        .map(|endpoint| traces::Exporting::start(endpoint, redactor.clone()))
        .transpose()?;

    let masking = redactor.clone();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || writer::Redacted { inner: io::stderr(), redactor: masking.clone() });
    let lines = match format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let metrics = Metrics::install()?;
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.as_ref().map(traces::Exporting::layer))
        .try_init()
        .map_err(|_| Error::AlreadyInstalled)?;
    Ok(Guard { filter: filter_handle, redactor, metrics, traces })
}

impl Guard {
    /// Replaces the log filter of the running process: a level, or directives as in
    /// [`Config::log`].
    ///
    /// # Errors
    /// The filter does not parse; the one in force stays.
    pub fn set_level(&self, filter: &str) -> Result<(), Error> {
        let parsed = parse_filter(filter)?;
        self.filter.reload(parsed).map_err(|_| Error::SubscriberGone)
    }

    /// The handle to which owners of secrets add them.
    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// The handle that renders metrics.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// All metrics in the Prometheus text format.
    pub fn metrics_text(&self) -> String {
        self.metrics.text()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(traces) = self.traces.take() {
            traces.stop();
        }
    }
}

fn parse_filter(filter: &str) -> Result<EnvFilter, Error> {
    EnvFilter::builder()
        .parse(filter)
        .map_err(|source| Error::Filter { filter: filter.to_owned(), source })
}
