//! `famulus queue`: how much work waits, what died and why, and the order to try it again.

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::schedules::{moment, zone};
use crate::table::{duration, pairs, plain, shorten, table};
use crate::wire::{DeadJob, DeadJobs, Me, Queue};

/// Columns that a reason takes in the list.
const REASON: usize = 60;

#[derive(Clone, Debug, clap::Args)]
pub struct QueueArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// List the jobs that failed for good, with the reason
    Dead,
    /// Try a dead job again
    Retry {
        /// Its id, from `famulus queue dead`
        id: String,
    },
}

pub(crate) async fn run(
    args: QueueArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    match args.action {
        None => depth(args.json, client, output).await,
        Some(Action::Dead) => dead(args.json, client, output).await,
        Some(Action::Retry { id }) => retry(&id, args.json, client, output).await,
    }
}

/// The whole queue in one line.
pub(crate) fn in_short(queue: &Queue) -> String {
    let oldest = queue
        .oldest_seconds
        .filter(|_| queue.depth > 0)
        .map_or_else(String::new, |seconds| format!(", the oldest for {}", duration(seconds)));
    format!(
        "{} queued{oldest}; {} running, {} waiting, {} dead",
        queue.depth, queue.running, queue.waiting, queue.dead
    )
}

async fn depth(json: bool, client: &Client, output: &mut Output) -> Result<(), Error> {
    let raw: Value = client.get(&["v1", "queue"], &[], "the state of a queue").await?;
    if json {
        return output.print(&format!("{raw:#}"));
    }
    let queue: Queue = serde_json::from_value(raw)
        .map_err(|source| client.malformed("the state of a queue", Some(source)))?;
    output.print(&render(&queue))
}

async fn dead(json: bool, client: &Client, output: &mut Output) -> Result<(), Error> {
    const WHAT: &str = "a list of dead jobs";
    let raw: Value = client.get(&["v1", "queue", "dead"], &[], WHAT).await?;
    if json {
        return output.print(&format!("{raw:#}"));
    }
    let jobs: DeadJobs =
        serde_json::from_value(raw).map_err(|source| client.malformed(WHAT, Some(source)))?;
    if jobs.jobs.is_empty() {
        return output.print("no dead jobs");
    }
    let me: Me = client.get(&["v1", "me"], &[], "who the token belongs to").await?;
    let zone = zone(&me.person.time_zone);
    let row = |job: &DeadJob| {
        vec![
            plain(&job.id),
            job.kind.clone(),
            job.attempts.to_string(),
            job.died_at.map_or_else(String::new, |at| moment(at, &zone)),
            shorten(job.reason.as_deref().unwrap_or_default(), REASON),
        ]
    };
    let rows: Vec<Vec<String>> = jobs.jobs.iter().map(row).collect();
    output.print(&table(&["id", "kind", "attempts", "died", "reason"], &rows))?;
    output.print("`famulus queue retry ID` tries one again")
}

async fn retry(id: &str, json: bool, client: &Client, output: &mut Output) -> Result<(), Error> {
    let path = ["v1", "queue", "dead", id, "retry"];
    let raw: Value = client.send(Method::POST, &path, &json!({}), "the answer to a retry").await?;
    if json { output.print(&format!("{raw:#}")) } else { output.print("it is tried again") }
}

fn render(queue: &Queue) -> String {
    let mut rows = vec![
        ("queued", queue.depth.to_string()),
        ("running", queue.running.to_string()),
        ("waiting", queue.waiting.to_string()),
        ("oldest", queue.oldest_seconds.map_or_else(|| "none".to_owned(), duration)),
        ("dead", queue.dead.to_string()),
        ("workers", queue.workers.len().to_string()),
    ];
    if queue.dead > 0 {
        rows.push(("", "`famulus queue dead` says why".to_owned()));
    }
    pairs(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_told() {
        let queue = Queue {
            depth: 2,
            running: 1,
            oldest_seconds: Some(75.0),
            dead: 1,
            workers: vec![json!("a"), json!({})],
            ..Queue::default()
        };
        assert_eq!(
            render(&queue),
            "queued   2\nrunning  1\nwaiting  0\noldest   1 min 15 s\ndead     1\nworkers  2\n         \
             `famulus queue dead` says why\n"
        );
        assert_eq!(
            in_short(&queue),
            "2 queued, the oldest for 1 min 15 s; 1 running, 0 waiting, 1 dead"
        );
        assert_eq!(in_short(&Queue::default()), "0 queued; 0 running, 0 waiting, 0 dead");
    }
}
