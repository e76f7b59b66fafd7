//! The words of the domain: ids, people, messages, turns, tools, events, and the ports through
//! which the turn loop reaches the world.
//!
//! Refuses to know: Postgres, HTTP, providers, channels. Nothing here does IO; every function is
//! pure, and every port is a trait that an adapter elsewhere implements.
//!
//! ```text
//! inbound ─► conversation (key) ─► message (parts) ─► turn ─► tool calls ─► outbound
//!                                         └────────► events to viewers
//! ```

pub mod accept;
pub mod agent;
pub mod amount;
pub mod approval;
pub mod blob;
pub mod clock;
pub mod configure;
pub mod conversation;
pub mod crash;
pub mod event;
pub mod event_table;
pub mod fence;
pub mod ids;
pub mod inbound;
pub mod intake;
pub mod knowledge;
pub mod linking;
pub mod message;
pub mod model;
pub mod outbound;
pub mod pairing;
pub mod person;
pub mod place;
pub mod plugin;
pub mod post;
pub mod render;
pub mod replay;
pub mod runner;
pub mod sandbox;
pub mod schedule;
pub mod sent;
pub mod speech;
mod store_error;
pub mod tool;
pub mod turn;
pub mod visible;
pub mod whole;

pub use clock::Clock;
pub use store_error::StoreError;
