//! What the assistant borrows from the machine it runs on, or fetches for it: its private Postgres, and `uv`.
//!
//! The crate refuses to know what is stored in that Postgres, what `uv` runs, where the configuration comes from,
//! and how people are told: its errors are whole sentences and its callers print them.
//!
//! Invariants: a second process never works on the same data directory; whatever a crash leaves
//! behind is put in order by the next start, not by a person; nothing listens on the network.

pub mod cache;
pub mod postgres;
pub mod uv;
pub mod wheel;
