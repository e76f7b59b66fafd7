//! The `[telemetry]` section of the configuration.

use serde::Deserialize;

/// How the process reports about itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What is logged: a level, or directives such as `info,famulus_queue=debug`. Live.
    pub log: String,
    /// How a log line looks. Needs a restart.
    pub format: Format,
    /// Base URL of an OTLP/HTTP collector, such as `http://127.0.0.1:4318`. Traces are off without
    /// it. Needs a restart.
    pub otlp_endpoint: Option<String>,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people; coloured on a terminal.
    #[default]
    Text,
    /// For collectors: one JSON object a line, fields at the top level.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self { log: "info".to_owned(), format: Format::Text, otlp_endpoint: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_given_and_refuses_what_it_does_not_know() {
        let read = |json| serde_json::from_str::<Config>(json);
        assert_eq!(read("{}").unwrap(), Config::default());
        assert_eq!(
            read(r#"{"log": "warn", "format": "json", "otlp_endpoint": "http://[::1]:4318"}"#)
                .unwrap(),
            Config {
                log: "warn".to_owned(),
                format: Format::Json,
                otlp_endpoint: Some("http://[::1]:4318".to_owned()),
            }
        );
        for wrong in [r#"{"level": "info"}"#, r#"{"format": "xml"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
