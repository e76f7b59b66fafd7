//! Speaking to runners, wherever they are: calls from the first look for a runner to the result that is let go,
//! behind core's ports and above one of its own.
//!
//! ```text
//! core: Sandboxes, Runners
//!           │
//!        Calls ── found ─► dialled ─► queued ─► started ─► ended
//!           │       │ nobody there: start one, if this process is let
//!           │       └─ the words of famulus-protocol, to its address ─► runner
//!         Home     finds, starts and ends runners: Pods of a cluster, processes of one machine
//! ```
//!
//! Refuses to know what a runner is made of, turns, models and what a plugin is about. What a runner says is
//! data: it is bounded, and nothing of it is obeyed.
//!
//! What holds: a call to a runner that is up asks its home for nothing; a call that may have been sent is never
//! sent to another runner; whoever starts or ends a runner was let by
//! [`famulus_core::runner::RunnerDemand`]; a bearer is in no log and no error.

mod acks;
mod activation;
mod answer;
mod callback_url;
mod callbacks;
mod calls;
mod cause;
mod circuit;
mod clients;
mod conduct;
mod dispatch;
mod execute;
mod home;
mod idle;
mod lines;
mod liveness;
mod owed;
mod pick;
mod sandboxes;
mod stages;
mod start;
mod stop;
mod usage;
mod version;
mod wire;

pub use calls::{CallPorts, Calls, Ports, Timeouts};
pub use clients::client;
pub use conduct::Conduct;
pub use home::{
    EndCause, Ended, Home, KnownPlugin, KnownRunner, NotReady, RunnerAddress, ScaleError,
};
pub use liveness::Liveness;
