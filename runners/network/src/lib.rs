//! The internet for a sandbox that has a network of its own, and nothing but the internet.
//!
//! ```text
//! sandbox ─► its interface (TUN) ─► serve ─┬─► tcp ─► connections of this process
//!                                          ├─► udp ─► sockets of this process
//!                                          └─► rules: who is reached at all
//! ```
//!
//! The packets of a sandbox end here: what it sends on is what this process sends as any program does, so that
//! nothing of the machine is changed for it. A connection is taken when the other side took it, and refused
//! when that did.
//!
//! Refuses to know what a sandbox is and who made the interface.
//!
//! Invariants: nobody is reached but public addresses that are none of this machine's, addresses that the owner
//! named, and the machine's resolvers; memory is bounded, whatever is sent.

mod addresses;
mod packet;
mod resolvers;
mod rules;
mod serve;
mod stack;
mod tcp;
mod tun;
mod udp;

pub use addresses::{ADDRESS, ADDRESS_V6, INTERFACE, MTU};
pub use resolvers::Resolvers;
pub use rules::Rules;
pub use serve::serve;
