//! What the crash tests share: a world of its own for every run, what is done to it, and what is
//! checked afterwards.
//!
//! ```text
//! workload ─► client ─► fleet of famulus-harness ─► Postgres
//!    │                      │       ▲                  │
//!    │          counter ◄───┤     chaos                │
//!    │       deliveries ◄───┤                          │
//!    └── chats ─► platforms ◄┘                         │
//!    └──────────► checker: what was asked, what was counted, what is stored ◄┘
//! ```
//!
//! The checker reads tables and the logs of the counter and the receiver; it uses no code of the
//! product. Everything listens on loopback, on ports of the system's choice.

pub(crate) mod chaos;
pub(crate) mod chats;
pub(crate) mod checker;
pub(crate) mod client;
pub(crate) mod counter;
pub(crate) mod database;
pub(crate) mod deliveries;
pub(crate) mod fleet;
pub(crate) mod platforms;
pub(crate) mod script;
pub(crate) mod seed;
pub(crate) mod streams;
pub(crate) mod viewer;
pub(crate) mod workload;
pub(crate) mod world;
