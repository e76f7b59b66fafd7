//! Sandboxes of a Kubernetes cluster, behind core's port. The app's only client of a cluster.
//!
//! ```text
//!             watch: Plugins, runner Pods                     API server
//! Table ◄───────────────────────────────────────────────────────┘ ▲
//!   │ who there is                            scale to 1, to 0    │
//! Cluster::run ── found ─► dialled ─► queued ─► started ─► ended  │
//!   │  nobody there ─► Activation ── one of all processes ────────┘
//!   └─ pod IP:8090, the words of famulus-protocol ─► runner
//! ```
//!
//! Refuses to know turns, models and what a plugin is about. What a runner says is data: it is
//! bounded, and nothing of it is obeyed.
//!
//! What holds: a call to a runner that is up writes nothing to the API server; a call that may have
//! been sent is never sent to another Pod; whoever starts or ends a runner was let by
//! [`famulus_core::runner::RunnerDemand`]; a bearer is in no log and no error.

mod acks;
mod activation;
mod answer;
mod callback_url;
mod callbacks;
mod cause;
mod circuit;
mod cluster;
mod execute;
mod idle;
mod installed;
pub mod keeper;
pub mod kept;
mod lines;
mod plugin;
mod runner;
mod stages;
mod stop;
mod table;
mod version;
mod watches;
mod wire;

pub use famulus_crds::labels::RESTORED_FROM;

pub use cluster::{Cluster, Config, ConnectError, Timeouts};
