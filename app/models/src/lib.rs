//! Model providers behind the model port of the core.
//!
//! | module | provider |
//! |---|---|
//! | [`openai`] | any endpoint that speaks OpenAI chat completions, streaming |
//! | [`demo`] | the built-in deterministic responder that needs no network |
//! | [`speech`] | endpoints for transcription and speech |
//! | [`router`] | chooses between them by configuration and by the name that a request carries |
//! | `scripted` | feature `fake`: a provider on loopback with good days and bad ones |
//!
//! Refuses to know: turns, leases, storage, channels, and which files hold the configuration.
//! Nothing here retries; an error says what it is, and the turn loop decides.
//!
//! Invariants: provider JSON never leaves this crate except as opaque bytes beside a reply, and
//! comes back byte for byte; a request's bytes depend on nothing but its content; no credential
//! stands in an error or a log line.

pub mod config;
pub mod demo;
mod endpoint;
mod failure;
pub mod openai;
pub mod router;
#[cfg(feature = "fake")]
pub mod scripted;
pub mod speech;

pub use config::{Config, ConfigError};
pub use router::Models;
