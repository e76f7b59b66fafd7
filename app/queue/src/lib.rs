//! Durable work: enqueue, claim, lease, heartbeat, wake, retry, bury.
//!
//! The queue knows lanes and jobs, not what they mean. A *lane* runs its jobs one after another; a
//! worker leases the lane, not the job, so that "one live turn per conversation" is a row that the
//! database guards and no process remembers. Every lease has a fencing token; whoever writes on
//! behalf of a lease proves the token in the same transaction ([`lane::guard`]).
//!
//! ```text
//!            enqueue            claim                 complete
//!   idle ───────────► ready ───────────► leased ───────────────► idle | ready
//!                       ▲      due_at       │ park(deadline)
//!                       └──── waiting ◄─────┘
//! ```
//!
//! One column, `due_at`, says when a lane may be claimed: at once (ready), at its deadline
//! (waiting), when its lease ends (leased), never (idle). So a dead worker's lane, an expired wait
//! and fresh work are found by one index and one condition.
//!
//! Invariants: a lane has at most one lease whose token the guard accepts; `pending` counts the
//! lane's live jobs and changes only under the lane's row; NOTIFY is a hint without content, and
//! every waiter also polls.

pub mod claim;
pub mod error;
pub mod handover;
pub mod hint;
pub mod inspect;
pub mod instant;
pub mod lane;
#[cfg(feature = "sabotage")]
pub mod sabotage;
pub mod worker;

pub use claim::Queue;
pub use error::QueueError;
pub use instant::Instant;
pub use lane::{Class, Job, Lease};
