//! The queue: how deep it is, and what died in it.

use crate::{
    app::App,
    body::id,
    handlers::{Answer, ok},
    problem::Problem,
};
use axum::extract::{Path, State};
use famulus_core::{clock::Rfc3339, ids::WorkerId};
use famulus_store::QueueReport;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use uuid::Uuid;

/// Dead letters that are listed.
const LISTED: i64 = 200;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Queue {
    /// Jobs that are not done, those that run included.
    depth: i64,
    running: i64,
    /// Conversations that wait for an answer or a deadline.
    waiting: i64,
    oldest_seconds: Option<f64>,
    dead: i64,
    /// The processes that work.
    workers: Vec<WorkerId>,
    classes: Vec<QueueClass>,
}

/// One class of work.
#[derive(Serialize, JsonSchema)]
struct QueueClass {
    class: &'static str,
    depth: i64,
    ready: i64,
    running: i64,
    waiting: i64,
    oldest_seconds: f64,
    dead: i64,
}

impl From<QueueReport> for Queue {
    fn from(report: QueueReport) -> Self {
        let classes: Vec<QueueClass> = report
            .classes
            .into_iter()
            .map(|(class, depth)| QueueClass {
                class: class.as_str(),
                depth: depth.jobs,
                ready: depth.ready,
                running: depth.leased,
                waiting: depth.waiting,
                oldest_seconds: depth.oldest_seconds,
                dead: depth.dead,
            })
            .collect();
        let sum = |of: fn(&QueueClass) -> i64| classes.iter().map(of).sum();
        let depth = sum(|class| class.depth);
        let oldest = classes.iter().map(|class| class.oldest_seconds).fold(0.0, f64::max);
        Self {
            depth,
            running: sum(|class| class.running),
            waiting: sum(|class| class.waiting),
            oldest_seconds: (depth > 0).then_some(oldest),
            dead: sum(|class| class.dead),
            workers: report.workers,
            classes,
        }
    }
}

/// The same in the Prometheus text format: of the whole installation, whichever process says it.
pub(crate) fn exposition(queue: &Queue) -> String {
    let each = |name: &str, values: fn(&QueueClass) -> Vec<(&'static str, f64)>| {
        let lines = queue.classes.iter().flat_map(|class| {
            let line = |(labels, value)| {
                let class = class.class;
                format!("famulus_queue_{name}{{class=\"{class}\"{labels}}} {value}\n")
            };
            values(class).into_iter().map(line).collect::<Vec<_>>()
        });
        let head = format!("# TYPE famulus_queue_{name} gauge\n");
        [head].into_iter().chain(lines).collect::<String>()
    };
    [
        each("dead", |class| vec![("", class.dead as f64)]),
        each("jobs", |class| vec![("", class.depth as f64)]),
        each("lanes", |class| {
            vec![
                (",state=\"ready\"", class.ready as f64),
                (",state=\"running\"", class.running as f64),
                (",state=\"waiting\"", class.waiting as f64),
            ]
        }),
        each("oldest_seconds", |class| vec![("", class.oldest_seconds)]),
    ]
    .concat()
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct DeadJobs {
    /// Newest first.
    jobs: Vec<DeadJob>,
}

#[derive(Serialize, JsonSchema)]
struct DeadJob {
    id: Uuid,
    kind: String,
    lane: Uuid,
    reason: String,
    #[schemars(with = "Rfc3339")]
    created_at: Timestamp,
    #[schemars(with = "Rfc3339")]
    died_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Retried {
    pub(crate) retried: bool,
}

pub(crate) async fn depth(State(app): State<Arc<App>>) -> Answer {
    ok(&Queue::from(app.api.store.queue_report().await?))
}

pub(crate) async fn dead(State(app): State<Arc<App>>) -> Answer {
    let letters = app.api.store.dead_letters(LISTED).await?;
    let jobs = letters
        .into_iter()
        .map(|letter| DeadJob {
            id: letter.id,
            kind: letter.class,
            lane: letter.lane,
            reason: letter.reason,
            created_at: letter.created_at.0,
            died_at: letter.died_at.0,
        })
        .collect();
    ok(&DeadJobs { jobs })
}

pub(crate) async fn retry(State(app): State<Arc<App>>, Path(job): Path<String>) -> Answer {
    const LIST: &str = "GET /v1/queue/dead";
    let job = id::<Uuid>("job", &job, LIST)?;
    if app.api.store.revive(job).await? {
        ok(&Retried { retried: true })
    } else {
        Err(Problem::missing("this dead job", LIST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_told_as_gauges() {
        let class = |class, sizes: [i64; 5], oldest_seconds| {
            let [depth, ready, running, waiting, dead] = sizes;
            QueueClass { class, depth, ready, running, waiting, oldest_seconds, dead }
        };
        let classes =
            vec![class("turn", [7, 3, 2, 1, 4], 61.5), class("delivery", [0, 0, 0, 0, 0], 0.0)];
        let queue = Queue {
            depth: 7,
            running: 2,
            waiting: 1,
            oldest_seconds: Some(61.5),
            dead: 4,
            workers: Vec::new(),
            classes,
        };
        let expected = r#"# TYPE famulus_queue_dead gauge
famulus_queue_dead{class="turn"} 4
famulus_queue_dead{class="delivery"} 0
# TYPE famulus_queue_jobs gauge
famulus_queue_jobs{class="turn"} 7
famulus_queue_jobs{class="delivery"} 0
# TYPE famulus_queue_lanes gauge
famulus_queue_lanes{class="turn",state="ready"} 3
famulus_queue_lanes{class="turn",state="running"} 2
famulus_queue_lanes{class="turn",state="waiting"} 1
famulus_queue_lanes{class="delivery",state="ready"} 0
famulus_queue_lanes{class="delivery",state="running"} 0
famulus_queue_lanes{class="delivery",state="waiting"} 0
# TYPE famulus_queue_oldest_seconds gauge
famulus_queue_oldest_seconds{class="turn"} 61.5
famulus_queue_oldest_seconds{class="delivery"} 0
"#;
        assert_eq!(exposition(&queue), expected);
        let explained = include_str!("../../../../docs/OPERATIONS.md");
        for name in expected.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = name.trim_end_matches(" gauge");
            assert!(explained.contains(&format!("| `{name}` | gauge |")), "{name}");
        }
    }
}
