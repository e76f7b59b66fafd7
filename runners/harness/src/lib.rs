//! What every runner does: takes calls of the app, queues them, runs them beneath a supervisor,
//! streams what happens, cancels, keeps results until they are acknowledged, and calls back.
//!
//! ```text
//! serve ─► guard (bearer) ─► handlers ─► Calls ─► Work::admit ─► WaitQueue ─► Job ─► Supervisor
//!                                          │                                        │
//!                                          └──── CallStore (results on disk) ◄──────────┘
//!                                                   │
//!                                                   └─► callback, until it is accepted
//! ```
//!
//! Refuses to know what is run: a runner gives it a [`Work`]. Refuses to know the app beyond the
//! protocol.
//!
//! Invariants: a call id runs at most once; a call that was taken has a result, also when the runner
//! ended in between; a result is on disk before anybody hears of it, and stays until it is
//! acknowledged; nothing but the liveness path answers without a bearer, and what a plugin keeps is for that of
//! backups alone; every wait has an end.

mod address;
mod bearer;
mod call_store;
mod callback;
mod calls;
mod endpoint;
mod environment;
mod exchange;
pub mod file_name;
mod files;
mod handlers;
mod harden;
mod harness;
mod limits;
mod live;
mod mount;
pub mod mounts;
pub mod namespaces;
pub mod outputs;
pub mod pieces;
pub mod probe;
mod refusal;
mod result_budget;
pub mod scratch;
mod serve;
mod stream;
pub mod supervisor;
pub mod termination;
mod wait_queue;
mod work;

pub use bearer::{Bearer, Credentials};
pub use callback::RetryPolicy;
pub use endpoint::{ENDPOINT, Endpoint, Listener, NoEndpoint};
pub use environment::Environment;
pub use exchange::{App, AppError};
pub use harden::{HardenError, harden};
pub use harness::{Harness, HarnessError, Parts};
pub use limits::Limits;
pub use live::ProgressSender;
pub use mount::{Mount, Mounted};
pub use result_budget::ResultBudget;
pub use work::{Admitted, Answer, Context, Queue, Work, WorkHealth};
