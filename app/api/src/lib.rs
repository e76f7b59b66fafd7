//! The HTTP surface: `/chat` as the bridges know it, `/v1`, event streams and health.
//!
//! ```text
//! connection (serve) ─► guard: address, credentials, origin, scope ─► route ─► handler ─► store
//!                                                            └─ an event stream leaves HTTP's
//!                                                               machinery and keeps its socket
//! ```
//!
//! Refuses to know: SQL, models, the turn loop. A message is acknowledged when the store has it; what
//! comes of it is read from the record, so that any replica can answer for any other.
//!
//! Invariants: every route stands in one table ([`routes`]), from which the router, the OpenAPI
//! document and the test of authentication are made; nothing but the public list is served without
//! a token; no credential is taken from a URL; every refusal is a [`problem::Problem`] that says what
//! to do; memory per request and per viewer is bounded.

mod app;
mod auth;
mod body;
mod body_memory;
mod callback;
pub mod config;
mod fairness;
mod files;
mod guard;
mod handlers;
mod limits;
mod listeners;
mod min_rate;
mod object;
pub mod openapi;
mod path;
pub mod problem;
mod problem_of;
mod readiness;
pub mod routes;
mod serve;
mod sse;
mod words;

pub use app::{Api, Configured, Grantable, Standing};
pub use callback::canary::canary;
pub use config::Config;
pub use listeners::Listeners;
pub use readiness::Readiness;
pub use serve::ServeError;
