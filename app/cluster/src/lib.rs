//! A Kubernetes cluster as a home of runners. The app's only client of a cluster.
//!
//! ```text
//!             watch: Plugins, runner Pods            API server
//! Table ◄──────────────────────────────────────────────┘ ▲
//!   │ who there is                   scale to 1, to 0    │
//! Cluster: Home ─────────────────────────────────────────┘
//!   ▲
//! famulus_sandbox::Calls ── pod IP:8090 ─► runner
//! ```
//!
//! Refuses to know turns, models, what a plugin is about and what is said to its runner.
//!
//! What holds: a lookup writes nothing to the API server, and asks it nothing.

mod cluster;
mod installed;
pub mod keeper;
pub mod kept;
mod managed;
mod plugin;
mod runner;
mod scale;
mod table;
mod watches;

pub use famulus_crds::labels::RESTORED_FROM;

pub use cluster::{Cluster, Config, ConnectError};
pub use managed::Managed;
pub use plugin::CachedPlugin;
pub use runner::Runner;
