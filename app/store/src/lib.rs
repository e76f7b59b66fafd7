//! Postgres: one file per aggregate, rows in and out as core's words.
//!
//! Rows never leave this crate, and no other crate but `queue` writes SQL. Everything that belongs
//! to a person is read and written in a transaction that names the person ([`db::Scope`]); the
//! database enforces it by forced row-level security, and a session that names nobody sees nothing.
//!
//! Two pools: *durable*, whose commits wait for the disk, and *relaxed*, whose commits do not (leases,
//! heartbeats, streamed deltas: what a crash of Postgres may forget without anybody having relied
//! on it).

mod accept;
mod accept_batch;
mod agents;
mod approvals;
mod arrivals;
mod backup_reports;
mod blobs;
mod bundle_age;
mod calls;
mod change;
mod channel_accounts;
mod codec;
mod conversations;
pub mod db;
mod demand;
mod ending;
mod error;
mod event_table;
mod events;
mod finish;
mod gather;
mod hand_over;
mod history;
mod idempotency;
mod inspect;
mod invitations;
mod knowledge;
mod late_calls;
mod letters;
mod opening;
mod outbox;
mod outbox_list;
mod pairings;
mod people;
mod plugins;
mod questions;
mod reach;
mod restored;
mod restoring;
mod retention;
mod revisions;
mod say;
mod schedules;
mod schema;
mod stop;
mod sweep;
mod take_up;
mod titles;
mod turns;
mod unknown;
mod vanishing;
mod views;

pub use agents::{AgentChange, NewAgent};
pub use arrivals::StoredArrival;
pub use backup_reports::{Reader, Report, ReportKind, reader, report_backup};
pub use channel_accounts::{AccountStanding, Listening};
pub use db::{Background, Scope, Store};
pub use error::{ConnectError, Error};
pub use inspect::{DatabaseFacts, QueueReport};
pub use invitations::{Invitation, Invited};
pub use late_calls::{ExpectedCall, LateState};
pub use opening::{Connect, migrate};
pub use outbox::{DeliveryRecord, OutboxState, Undelivered};
pub use outbox_list::OutboxItem;
pub use pairings::{Becomes, Paired, Waiting};
pub use people::{NewPerson, PersonChange, PersonError, TokenInfo, TokenStanding};
pub use questions::{Closed, Unasked};
pub use reach::Homes;
pub use restored::{
    HeldBack, Installation, Invariant, PluginThere, installation, newest_schema, plugins_there,
    soundness,
};
pub use restoring::{Restoring, restore_died, restored};
pub use retention::{Retention, SweptRows};
pub use revisions::{BundleError, BundleStream, Describe};
pub use schedules::{SlotInfo, SlotOutcome};
pub use stop::Stopped;
pub use sweep::{Fired, nowhere};
pub use unknown::UnknownOutcome;
pub use vanishing::Vanished;
pub use views::{ConversationView, MessageCursor, MessageView, NotACursor, Page, TurnView};

/// Whose jobs are those that belong to no person.
pub(crate) const NOBODY: famulus_core::ids::PersonId =
    famulus_core::ids::PersonId(uuid::Uuid::nil());

/// The agent that every installation has.
pub const MAIN_AGENT: famulus_core::ids::AgentId =
    famulus_core::ids::AgentId(uuid::Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001));
