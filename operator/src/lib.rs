//! The operator of Famulus: makes Pods of Plugins, and is the only one that does.
//!
//! ```text
//! Plugin ─► ServiceAccount, Secret, volume claim, Job (build), Deployment (runner) ─► status
//! ```
//!
//! It talks to the API server and to nobody else: it has no way to a Pod over the network, and what
//! it learns of one stands in the Pod's status. It knows nothing of conversations, and never runs
//! anything that a plugin brought.
//!
//! What holds, with the tests in docs/ARCHITECTURE.md:
//!
//! - One operator works at a time; one that lost its lease drops what it does.
//! - An object that cannot be read stops nothing but itself.
//! - What is settled costs no write, also after a restart.

pub mod cache;
mod clock;
mod compressed;
pub mod context;
pub mod controller;
pub mod events;
pub mod health;
pub mod leading;
pub mod lease;
pub mod plugin;
pub mod settings;
pub mod setup;
pub mod users;
pub mod watches;
mod work_queue;
