//! The configuration: one TOML file, environment over it, and an error for every key that does not
//! exist.
//!
//! ```text
//! file, environment ─► one tree ─► keys exist ─► secrets in place ─► a struct for each component
//!                                                      └─► the redactor
//! ```
//!
//! A component has one struct, in its own crate, and one line in [`Config`]. It never sees a
//! reference: where [`KEYS`] has one, its struct has a `SecretString`.

mod keys;
mod load;
mod packages;
mod secret;
mod values;

pub use keys::{KEYS, Key, Takes};
pub use load::{ConfigError, Loaded, load};
pub use packages::{IndexUrl, IndexUrlError, MachinePackages};
pub use secret::SecretError;
pub(crate) use secret::hide;
pub use values::Values;

use famulus_agent::{Budget, Limits, Timeouts};
use secrecy::SecretString;
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};
use url::Url;

/// Everything that can be configured. [`KEYS`] describes each key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub data_dir: Option<PathBuf>,
    pub owner: Owner,
    pub model: famulus_models::Config,
    pub transcription: famulus_models::speech::TranscriptionConfig,
    pub speech: famulus_models::speech::SpeechConfig,
    pub turns: Turns,
    pub queue: Queue,
    pub retention: famulus_store::Retention,
    pub database: Database,
    pub backup: famulus_backup::Config,
    pub api: famulus_api::Config,
    pub channels: Channels,
    pub telemetry: famulus_telemetry::Config,
    pub plugins: MachinePlugins,
    /// Absent on one machine.
    pub cluster: Option<Cluster>,
}

/// Plugins of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachinePlugins {
    /// Hosts with port that plugins may be fetched from although their addresses are private.
    pub allow_hosts: Vec<String>,
    /// The program `famulus-runner`; it stands beside this one unless told.
    pub runner: Option<PathBuf>,
    /// Where builds have packages from.
    pub packages: MachinePackages,
    pub repositories: MachineRepositories,
}

/// Where plugins are fetched from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineRepositories {
    /// A folder with credentials for private ones: `netrc`, `ssh-privatekey`, `known_hosts`, `ca.crt`.
    pub credentials: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Owner {
    pub name: String,
    pub time_zone: Option<String>,
}

impl Default for Owner {
    fn default() -> Self {
        Self { name: "Owner".into(), time_zone: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turns {
    pub concurrency: usize,
    pub approval_seconds: i64,
    pub history_tokens: usize,
    pub knowledge_tokens: usize,
    pub first_silence_seconds: u64,
    pub silence_seconds: u64,
    pub model_retries: u32,
    pub model_outage_seconds: u64,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            concurrency: 64,
            approval_seconds: famulus_core::approval::DEFAULT_TTL_SECONDS,
            history_tokens: 60_000,
            knowledge_tokens: 8_000,
            first_silence_seconds: 600,
            silence_seconds: 60,
            model_retries: 7,
            model_outage_seconds: 900,
        }
    }
}

impl Turns {
    /// The bounds of turns, as the turn loop takes them.
    pub fn limits(&self) -> Limits {
        Limits {
            timeouts: Timeouts {
                first: Duration::from_secs(self.first_silence_seconds),
                between: Duration::from_secs(self.silence_seconds),
                retries: self.model_retries,
                outage: Duration::from_secs(self.model_outage_seconds),
            },
            budget: Budget {
                history_tokens: self.history_tokens,
                knowledge_tokens: self.knowledge_tokens,
            },
            approval_seconds: self.approval_seconds,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    pub lease_seconds: f64,
    pub max_attempts: i32,
    pub grace_seconds: f64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { lease_seconds: 20.0, max_attempts: 5, grace_seconds: 5.0 }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    pub url: Option<SecretString>,
    pub bin_dir: Option<PathBuf>,
    pub shared_buffers_mb: u32,
    pub durable_sessions: u32,
    pub relaxed_sessions: u32,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: None,
            bin_dir: None,
            shared_buffers_mb: 32,
            durable_sessions: 12,
            relaxed_sessions: 6,
        }
    }
}

/// Where plugins run, each in Pods of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub sandbox_namespace: String,
    pub root_key_file: PathBuf,
    /// For backups, which the app does not take.
    pub keeper_key_file: Option<PathBuf>,
    pub callback_url: Url,
    pub token_secret: Option<TokenSecret>,
    /// Bundles of each plugin that are kept beside those in use.
    #[serde(default = "kept_bundles")]
    pub kept_bundles: u32,
}

fn kept_bundles() -> u32 {
    5
}

/// The Secret that the file `token` is mounted from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSecret {
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Channels {
    pub day_bytes: u64,
    pub http: famulus_channels::http::outbound::Config,
    pub signal: famulus_channels::signal::Config,
    pub telegram: famulus_channels::telegram::Config,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            day_bytes: 500 * 1024 * 1024,
            http: famulus_channels::http::outbound::Config::default(),
            signal: famulus_channels::signal::Config::default(),
            telegram: famulus_channels::telegram::Config::default(),
        }
    }
}
