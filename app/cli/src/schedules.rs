//! `famulus schedules`: what the assistant does by itself, and when next.

use famulus_core::schedule::Rule;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::table::{duration, shorten, table};
use crate::wire::{Schedule, Schedules};

/// Columns that name and note take in the list.
const NOTE: usize = 50;

#[derive(Clone, Debug, clap::Args)]
pub struct SchedulesArgs {
    /// Print the server's answer as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    args: SchedulesArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    if args.json {
        let raw: Value = read(client).await?;
        return output.print(&format!("{raw:#}"));
    }
    list(client, output).await
}

pub(crate) async fn list(client: &Client, output: &mut Output) -> Result<(), Error> {
    let schedules = read::<Schedules>(client).await?.schedules;
    if schedules.is_empty() {
        return output.print("no schedules; ask the assistant to do something at a time");
    }
    let rows: Vec<Vec<String>> = schedules.iter().map(row).collect();
    output.print(&table(&["next", "rule", "zone", "state", "what", "id"], &rows))
}

async fn read<T: serde::de::DeserializeOwned>(client: &Client) -> Result<T, Error> {
    client.get(&["v1", "schedules"], &[], "a list of schedules").await
}

fn row(schedule: &Schedule) -> Vec<String> {
    let zone = zone(&schedule.time_zone);
    let what = match &schedule.name {
        Some(name) => format!("{name}: {}", schedule.note),
        None => schedule.note.clone(),
    };
    let rule = match &schedule.rule {
        Rule::Cron { expression } => expression.clone(),
        Rule::Every { seconds } => format!("every {}", duration(*seconds as f64)),
        Rule::At { at } => format!("once, {}", moment(*at, &zone)),
    };
    let state = match (schedule.enabled, schedule.failures, &schedule.last_error) {
        (false, 0, _) => "off".to_owned(),
        (false, count, error) => format!("off after {count} failures{}", reason(error.as_deref())),
        (true, 0, _) => "on".to_owned(),
        (true, count, error) => format!("on, failed {count}×{}", reason(error.as_deref())),
    };
    vec![
        schedule.next_due.map_or_else(|| "never".to_owned(), |due| moment(due, &zone)),
        rule,
        schedule.time_zone.clone(),
        state,
        shorten(&what, NOTE),
        schedule.id.to_string(),
    ]
}

fn reason(error: Option<&str>) -> String {
    error.map_or_else(String::new, |error| format!(": {}", shorten(error, NOTE)))
}

/// The zone of that name, or UTC where this machine does not know it; the moment says which.
pub(crate) fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

/// A moment as a person reads it.
pub(crate) fn moment(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::ids::ScheduleId;

    #[test]
    fn a_row_says_when_and_whether() {
        let schedule = |rule: Rule, enabled: bool, failures: i32| Schedule {
            id: ScheduleId("01890000-0000-7000-8000-000000000000".parse().unwrap()),
            name: (failures > 0).then(|| "Garden".to_owned()),
            note: "water the\nplants".to_owned(),
            rule,
            time_zone: "UTC".to_owned(),
            enabled,
            failures,
            last_error: (failures > 0).then(|| "no model".to_owned()),
            next_due: enabled.then(|| "2026-11-22T09:00:00Z".parse().unwrap()),
        };
        let check = |schedule: Schedule, expected: [&str; 5]| {
            assert_eq!(row(&schedule)[..5], expected);
        };
        let cron = Rule::Cron { expression: "0 9 * * 1-5".to_owned() };
        let (note, named) = ("water the plants", "Garden: water the plants");
        check(
            schedule(cron.clone(), true, 0),
            ["2026-11-22 09:00 UTC", "0 9 * * 1-5", "UTC", "on", note],
        );
        check(
            schedule(Rule::Every { seconds: 3600 }, false, 3),
            ["never", "every 1 h", "UTC", "off after 3 failures: no model", named],
        );
        check(
            schedule(Rule::At { at: "2026-11-22T09:00:00Z".parse().unwrap() }, true, 1),
            [
                "2026-11-22 09:00 UTC",
                "once, 2026-11-22 09:00 UTC",
                "UTC",
                "on, failed 1×: no model",
                named,
            ],
        );
    }
}
