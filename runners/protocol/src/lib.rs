//! What the app and a runner say to each other: the words of HTTP/JSON, version 1, and nothing else.
//!
//! ```text
//! app                                                     runner
//!  PUT  /v1/calls/ID/uploads/0        bytes          ──►  file for a parameter
//!  POST /v1/calls/ID                  RunCall        ──►  lines of Progress, the last a result
//!                                                         or, for an async tool, Accepted (202)
//!  GET  /v1/calls/ID                                 ──►  CallState: queued, running or ended
//!  GET  /v1/calls/ID/progress                        ──►  lines of Progress, from now on
//!  GET  /v1/calls/ID/files/0                         ──►  bytes of an output
//!  POST /v1/calls/ID/cancel                          ──►  202
//!  POST /v1/calls/ID/acknowledge                     ──►  204, the result is forgotten
//!  GET  /v1/health, POST /v1/self-test               ──►  Health, SelfTest
//!  POST callback URL                  Delivery       ◄──  result of an async tool
//! ```
//!
//! Every request carries the runner's bearer; `GET /health` alone needs none and says nothing but
//! whether the process serves. A refusal is a [`Problem`]. Refuses to know how either side works.
//!
//! Invariants: a call is named by the app, and the same name runs at most once; files travel as bytes
//! and never inside JSON towards the app; a field is only ever added; what a newer peer adds to an
//! answer is passed over, what it adds to a request is refused.

mod call;
mod health;
pub mod launch;
mod outcome;
pub mod paths;
mod problem;
mod progress;
pub mod revision;

pub use call::{Accepted, BadCallId, CallId, CallState, Callback, RunCall};
pub use health::{Check, Health, Isolation, Landlock, SelfTest, ToolHealth};
pub use outcome::{CallResult, Delivery, Failure, Outcome, OutputFile, Reason, Run};
pub use problem::{Kind, Problem};
pub use progress::Progress;

/// The version of this protocol; the first part of every path.
pub const VERSION: u32 = 1;

/// Bytes of a result, as JSON. A runner cuts outputs so that it has no more, and says so in a note.
pub const RESULT_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of what a result comes in, with room for what is never cut: the names of all files, and what
/// stands around it.
pub const ANSWER_BYTES: usize = RESULT_BYTES + 256 * 1024;

/// Bytes of all files that a call may bring along, and of all that it may leave behind.
pub const FILES_BYTES: u64 = 25 * 1024 * 1024;

/// Files that a call may bring along, and that it may leave behind.
pub const FILES: u32 = 64;

/// The media type of streamed progress: one JSON object a line.
pub const PROGRESS_TYPE: &str = "application/x-ndjson";

/// The header in which a callback carries the token of its call.
pub const CALL_TOKEN_HEADER: &str = "famulus-call-token";

/// The header in which a call says what the runner must have been given, and a callback what it was.
pub const RENDERED_HEADER: &str = "famulus-rendered";

/// The header in which a callback names its Plugin, by UID.
pub const PLUGIN_HEADER: &str = "famulus-plugin";
