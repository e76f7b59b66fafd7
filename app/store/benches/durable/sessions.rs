//! What the store's sessions are doing, asked of Postgres again and again.

use anyhow::Result;
use sqlx::PgPool;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::time::{MissedTickBehavior, interval};

const EVERY: Duration = Duration::from_millis(20);
/// Words of a statement that name it.
const WORDS: usize = 4;

/// Statements that begin alike, or with nothing that tells what they do: a piece of each, and its
/// name.
const NAMES: [(&str, &str); 6] = [
    ("accept_batch", "accept"),
    ("with due as", "claim"),
    ("begun = case", "take up: prove the leases"),
    ("with taken as", "take up: mark the turns running"),
    (r#""reader!""#, "take up: read the conversations"),
    ("settled as (", "finish: settle the leases"),
];

/// A session that is not idle: `state`, `wait_event_type`, `wait_event` and `query`.
type Session = (String, Option<String>, Option<String>, String);

/// How often sessions were seen doing what.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    looks: u32,
    doing: BTreeMap<String, u32>,
}

/// Looks for so long, from a session of its own.
pub(crate) async fn watch(bench: &PgPool, length: Duration) -> Result<Seen> {
    let end = Instant::now() + length;
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut conn = bench.acquire().await?;
    let mut seen = Seen::default();
    while Instant::now() < end {
        looks.tick().await;
        let sessions: Vec<Session> = sqlx::query_as(
            "select state, wait_event_type, wait_event, query from pg_stat_activity
             where application_name = 'famulus' and datname = current_database()
               and state <> 'idle'",
        )
        .fetch_all(&mut *conn)
        .await?;
        seen.looks += 1;
        for session in sessions {
            *seen.doing.entry(doing(&session)).or_default() += 1;
        }
    }
    Ok(seen)
}

impl Seen {
    /// Sessions that were not idle, at a time.
    pub(crate) fn busy(&self) -> f64 {
        f64::from(self.doing.values().sum::<u32>()) / f64::from(self.looks.max(1))
    }

    /// Their shares, by what they did.
    pub(crate) fn percent(&self) -> BTreeMap<String, f64> {
        let all = f64::from(self.doing.values().sum::<u32>().max(1));
        self.doing.iter().map(|(doing, n)| (doing.clone(), f64::from(*n) * 100.0 / all)).collect()
    }
}

/// A session that waits is named by what it waits for, another one by its statement; that one may
/// also wait for a processor, which Postgres does not know.
fn doing((state, kind, wait, query): &Session) -> String {
    let wait = wait.as_deref().unwrap_or_default();
    if state.starts_with("idle in transaction") {
        return "waiting for the program inside a transaction".to_owned();
    }
    match kind.as_deref() {
        None => statement(query),
        Some("Client") => "waiting for the program inside a transaction".to_owned(),
        Some("Lock") => "waiting for a lock".to_owned(),
        Some(_) if wait.to_lowercase().starts_with("wal") => "waiting for the log".to_owned(),
        Some(kind) => format!("waiting: {kind} {wait}"),
    }
}

fn statement(query: &str) -> String {
    if let Some((_, name)) = NAMES.iter().find(|(piece, _)| query.contains(piece)) {
        return (*name).to_owned();
    }
    let words = query.split_whitespace().take_while(|word| !word.starts_with('('));
    words.take(WORDS).collect::<Vec<_>>().join(" ")
}
