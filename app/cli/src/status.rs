//! `famulus status`: the server in a few lines.

use famulus_core::amount::bytes;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::queue;
use crate::table::{duration, pairs, plain};
use crate::wire::Status;

#[derive(Clone, Debug, clap::Args)]
pub struct StatusArgs {
    /// Print the server's answer as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    args: StatusArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    if args.json {
        let raw: Value = read(client).await?;
        return output.print(&format!("{raw:#}"));
    }
    show(client, output).await
}

pub(crate) async fn show(client: &Client, output: &mut Output) -> Result<(), Error> {
    let status: Status = read(client).await?;
    output.print(&render(&status, client.address()))
}

pub(crate) async fn read<T: serde::de::DeserializeOwned>(client: &Client) -> Result<T, Error> {
    client.get(&["v1", "status"], &[], "the status of a server").await
}

fn render(status: &Status, address: &str) -> String {
    let mut rows = vec![("server", format!("{address}, version {}", status.version))];
    if let Some(seconds) = status.uptime_seconds {
        rows.push(("up for", duration(seconds)));
    }
    if let Some(model) = &status.model {
        rows.push(("model", plain(model)));
    }
    if let Some(database) = &status.database {
        let mut parts = Vec::new();
        parts.extend(database.version.as_ref().map(|v| format!("Postgres {}", plain(v))));
        parts.extend(database.role.as_ref().map(|role| format!("as {role}")));
        let size = database.size_bytes.and_then(|size| u64::try_from(size).ok());
        parts.extend(size.map(bytes));
        rows.push(("database", parts.join(", ")));
    }
    if let Some(queue) = &status.queue {
        rows.push(("queue", queue::in_short(queue)));
    }
    let failed: Vec<String> = status
        .checks
        .iter()
        .filter(|check| !check.ok)
        .map(|check| format!("{}: {}", check.name, check.detail.as_deref().unwrap_or("failed")))
        .collect();
    rows.push((
        "checks",
        if failed.is_empty() {
            "all good".to_owned()
        } else {
            format!("{}; `famulus doctor` says what to do", failed.join("; "))
        },
    ));
    pairs(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_is_told_whole_or_in_part() {
        let check = |status: Value, expected: &str| {
            let status: Status = serde_json::from_value(status).unwrap();
            assert_eq!(render(&status, "http://127.0.0.1:3000"), expected);
        };
        check(
            json!({
                "version": "0.1.0", "uptime_seconds": 61, "model": "demo",
                "database": {"version": "17.2", "role": "famulus_app", "size_bytes": 9_437_184},
                "queue": {"depth": 2, "running": 1, "waiting": 0, "oldest_seconds": 3.2, "dead": 0},
                "checks": [
                    {"name": "disk", "ok": false, "detail": "full", "remedy": "make room"},
                    {"name": "configuration", "ok": false,
                     "detail": "changed, and not in force before the next start: api.listen"},
                    {"name": "role", "ok": true},
                ],
            }),
            "server    http://127.0.0.1:3000, version 0.1.0\n\
             up for    1 min 1 s\n\
             model     demo\n\
             database  Postgres 17.2, as famulus_app, 9.0 MiB\n\
             queue     2 queued, the oldest for 3 s; 1 running, 0 waiting, 0 dead\n\
             checks    disk: full; configuration: changed, and not in force before the next start: \
             api.listen; `famulus doctor` says what to do\n",
        );
        check(
            json!({"version": "0.1.0"}),
            "server  http://127.0.0.1:3000, version 0.1.0\nchecks  all good\n",
        );
    }
}
