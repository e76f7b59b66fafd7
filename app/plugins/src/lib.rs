//! The life of plugins on one machine: what the owner wants of each, made so by `famulus-machine`.
//!
//! ```text
//! ManagedPlugins ─► Reconciler ─► PluginRows: what is wanted, durable before anything is done
//!                      ├─────► Machine: fetched, built, served, removed
//!                      ├─────► builds: what is wanted and does not serve yet, also after a restart
//!                      └─────► news: how builds ended, for the owner who is not waiting any more
//! ```
//!
//! Refuses to know how sandboxes are made, and who asks.
//!
//! What holds: nothing of a plugin runs that was not permitted, by its digest; what serves goes on until
//! what is to take its place was built; what was begun and did not come as far as an offer leaves nothing.

mod builds;
mod fetch;
mod news;
mod reconciler;
mod record;

pub use reconciler::{Needs, Reconciler};
