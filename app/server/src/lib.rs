//! The assistant as one process: wiring, start, and shutdown.
//!
//! The only crate that sees every other one. It holds no policy: it reads the configuration, builds
//! each component with what that component asks for, starts them in order, and stops them in the
//! reverse order.

pub mod app;
pub mod args;
pub mod backup;
mod channels;
pub mod config;
mod deliveries;
pub mod descriptors;
mod no_sandboxes;
pub mod notices;
pub mod paths;
mod plugin_news;
pub mod plugins;
mod private;
mod questions;
mod queues;
pub mod reload;
mod say;
mod speech;
mod sweeps;
pub mod token;
mod turns;
mod unknown;
pub mod up;
mod uv;
