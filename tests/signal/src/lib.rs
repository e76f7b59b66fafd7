//! A daemon of signal-cli that does what a script says: its HTTP as it is spoken, bad days included.
//!
//! ```text
//! a test: people write, react, send files ─► events ─► one stream, each once and never again
//! a test: what was sent? ◄─ messages ◄─ send, sendTyping, sendReceipt, ...
//! ```
//!
//! It refuses what the real one refuses, in its words. It starts without an account that may be used, or with
//! one, and keeps for a stream that comes only what the mode of the real one keeps.

mod fault;
mod kept;
mod link;
mod people;
mod register;
mod rpc;
mod script;
mod server;
mod stream;
mod world;

pub use fault::Fault;
pub use people::User;
pub use server::Signal;
pub use world::{File, Handed, Message, Mode};
