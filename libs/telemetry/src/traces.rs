//! Spans to an OTLP/HTTP collector, behind the redactor.

use std::time::Duration;

use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::Error;
use crate::redact::Redactor;

/// How long the end of the process waits for a collector that does not answer.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// The batch processor and its thread, which sends outside of the program's own runtime.
#[derive(Debug)]
pub(crate) struct Exporting {
    provider: SdkTracerProvider,
}

impl Exporting {
    pub(crate) fn start(endpoint: &str, redactor: Redactor) -> Result<Self, Error> {
        let inner = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|source| Error::Otlp { endpoint: endpoint.to_owned(), source })?;
        let provider = SdkTracerProvider::builder()
            .with_resource(Resource::builder().with_service_name("famulus").build())
            .with_batch_exporter(Redacted { inner, redactor })
            .build();
        Ok(Self { provider })
    }

    /// Exports spans of level `info` and above whatever the log filter says: a quiet log must not
    /// tear holes into traces.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("famulus"))
            .with_filter(LevelFilter::INFO)
    }

    pub(crate) fn stop(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(STOP_DEADLINE) {
            tracing::warn!(%error, "the last spans did not reach the collector");
        }
    }
}

/// Masks secrets in every text that a span carries.
#[derive(Debug)]
struct Redacted<E> {
    inner: E,
    redactor: Redactor,
}

impl<E: SpanExporter> SpanExporter for Redacted<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            self.span(span);
        }
        self.inner.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E> Redacted<E> {
    fn span(&self, span: &mut SpanData) {
        span.name = self.text(&span.name).into();
        self.attributes(&mut span.attributes);
        for event in &mut span.events.events {
            event.name = self.text(&event.name).into();
            self.attributes(&mut event.attributes);
        }
        if let Status::Error { description } = &mut span.status {
            *description = self.text(description).into();
        }
    }

    fn attributes(&self, attributes: &mut [KeyValue]) {
        for attribute in attributes {
            if let Value::String(text) = &mut attribute.value {
                self.value(text);
            } else if let Value::Array(Array::String(texts)) = &mut attribute.value {
                for text in texts {
                    self.value(text);
                }
            }
        }
    }

    fn value(&self, value: &mut StringValue) {
        *value = self.text(value.as_str()).into();
    }

    fn text(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }
}
