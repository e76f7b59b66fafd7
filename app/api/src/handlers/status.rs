//! The server in short, with checks that say what to do.

use crate::{
    app::{App, Configured, Standing},
    handlers::{Answer, channels, ok, queue::Queue},
};
use axum::extract::State;
use famulus_store::{AccountStanding, DatabaseFacts, Error, QueueReport};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    version: &'static str,
    uptime_seconds: f64,
    database: Option<Database>,
    model: String,
    queue: Option<Queue>,
    /// Event streams that are open here.
    viewers: usize,
    checks: Vec<Check>,
}

#[derive(Serialize, JsonSchema)]
struct Database {
    version: String,
    role: String,
    size_bytes: Option<i64>,
    /// Where it is, without credentials.
    target: String,
}

#[derive(Serialize, JsonSchema)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
    remedy: Option<&'static str>,
}

pub(crate) async fn status(State(app): State<Arc<App>>) -> Answer {
    let store = &app.api.store;
    let (facts, queue) = tokio::join!(store.database_facts(), store.queue_report());
    let mut checks = Vec::new();
    checks.push(match &facts {
        Ok(facts) => Check {
            name: "database",
            ok: true,
            detail: format!("Postgres {} answers", facts.version),
            remedy: None,
        },
        Err(error) => database_failed(error),
    });
    if let Ok(facts) = &facts {
        checks.push(role(facts));
    }
    if let Ok(queue) = &queue {
        checks.push(dead(queue));
    }
    if let Ok(accounts) = channels::accounts(&app).await {
        checks.extend(heard(&accounts));
    }
    checks.push(configuration(&app.api.configured.borrow()));
    let backups = app.api.backups.borrow().clone();
    checks.extend(backups.map(|Standing { ok, detail, remedy }| Check {
        name: "backups",
        ok,
        detail,
        remedy,
    }));
    let now = app.api.clock.now();
    ok(&Report {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: now.duration_since(app.api.started).as_secs_f64().max(0.0),
        database: facts.ok().map(|facts| Database {
            version: facts.version,
            role: facts.role,
            size_bytes: facts.size_bytes,
            target: store.target(),
        }),
        model: app.api.configured.borrow().model.clone(),
        queue: queue.ok().map(Into::into),
        viewers: app.api.hub.viewers(),
        checks,
    })
}

fn database_failed(error: &Error) -> Check {
    Check {
        name: "database",
        ok: false,
        detail: error.to_string(),
        remedy: Some("see whether Postgres runs and its disk has room"),
    }
}

fn role(facts: &DatabaseFacts) -> Check {
    let ok = !facts.is_superuser && !facts.bypasses_rls;
    Check {
        name: "role",
        ok,
        detail: if ok {
            format!("works as `{}`, which row-level security holds", facts.role)
        } else {
            format!("`{}` is above row-level security", facts.role)
        },
        remedy: (!ok).then_some("connect as a role that is neither superuser nor BYPASSRLS"),
    }
}

/// Whether people are heard on the channels; none where there is no channel.
fn heard(accounts: &[AccountStanding]) -> Option<Check> {
    if accounts.is_empty() {
        return None;
    }
    let said: Vec<String> = accounts
        .iter()
        .map(|AccountStanding { channel, down, since, .. }| match down {
            Some(why) => format!("{channel} is down since {since:.0}, because {why}"),
            None => format!("{channel} is well"),
        })
        .collect();
    let ok = accounts.iter().all(|one| one.down.is_none());
    let remedy = (!ok).then_some("docs/CHANNELS.md says what each of these means");
    Some(Check { name: "channels", ok, detail: said.join("; "), remedy })
}

/// Whether what runs is what was written.
fn configuration(configured: &Configured) -> Check {
    let Configured { model: _, waiting, unusable } = configured;
    let (detail, remedy) = match (unusable, waiting.is_empty()) {
        (None, true) => ("in force as it stands".to_owned(), None),
        (None, false) => (
            format!("changed, and not in force before the next start: {}", waiting.join(", ")),
            Some("start the assistant again, or take the change back"),
        ),
        (Some(error), _) => (
            format!("not in force as it stands now, and the next start would fail: {error}"),
            Some("correct it; `famulus config check` says whether it is good"),
        ),
    };
    Check { name: "configuration", ok: remedy.is_none(), detail, remedy }
}

fn dead(queue: &QueueReport) -> Check {
    let dead: i64 = queue.classes.iter().map(|(_, depth)| depth.dead).sum();
    Check {
        name: "dead letters",
        ok: dead == 0,
        detail: if dead == 0 { "none".to_owned() } else { format!("{dead} jobs died") },
        remedy: (dead > 0)
            .then_some("`famulus queue dead` says why, `famulus queue retry ID` tries again"),
    }
}
