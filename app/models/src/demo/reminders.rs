//! Reminders: `in 10 minutes to …`, `every 2 hours to …`, `every day at 9 to …`.

use super::memo::{Halt, Memo};
use super::time;
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Seconds from now.
    In(i64),
    /// Again and again, every so many seconds.
    Every(i64),
    /// On the person's clock.
    Daily { hour: u8, minute: u8 },
}

/// A time and, behind *to*, what is to be done then.
pub(crate) fn read(text: &str) -> Option<(When, &str)> {
    let (time, note) = text.split_once(" to ")?;
    let time = time.to_lowercase();
    let when = match *time.split_whitespace().collect::<Vec<_>>() {
        ["in", count, unit] => When::In(seconds(count, unit)?),
        ["every", unit] => When::Every(seconds("1", unit)?),
        ["every", count, unit] => When::Every(seconds(count, unit)?),
        ["every", "day", "at", clock] => daily(clock)?,
        _ => return None,
    };
    Some((when, note))
}

pub(crate) fn create(note: &str, when: When, memo: &Memo<'_>) -> Result<String, Halt> {
    let mut create = json!({"action": "create", "note": note});
    match when {
        When::Daily { hour, minute } => create["cron"] = format!("{minute} {hour} * * *").into(),
        When::Every(seconds) => create["every_seconds"] = seconds.into(),
        When::In(seconds) => create["at"] = time::after(seconds, memo)?.into(),
    }
    let made = memo.call("manage_schedules", create)?;
    let next = made["next"].as_str().map(time::shown).unwrap_or_default();
    Ok(format!("I will remind you: {note} (next at {next})"))
}

/// As one says the first numbers.
const WORDS: [&[&str]; 10] = [
    &["a", "an", "one"],
    &["two"],
    &["three"],
    &["four"],
    &["five"],
    &["six"],
    &["seven"],
    &["eight"],
    &["nine"],
    &["ten"],
];

fn seconds(count: &str, unit: &str) -> Option<i64> {
    let said = WORDS.iter().position(|words| words.contains(&count));
    let count = match said {
        Some(before) => before as i64 + 1,
        None => count.parse().ok()?,
    };
    let unit = match unit.trim_end_matches('s') {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        _ => return None,
    };
    count.checked_mul(unit).filter(|seconds| *seconds > 0)
}

fn daily(clock: &str) -> Option<When> {
    let (hour, minute) = clock.split_once(':').unwrap_or((clock, "0"));
    let (hour, minute) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some(When::Daily { hour, minute })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let check = |time: &str, expected: Option<When>| {
            let text = format!("{time} to go to bed");
            assert_eq!(read(&text), expected.map(|when| (when, "go to bed")), "{time}");
        };
        check("in 10 minutes", Some(When::In(600)));
        check("In an hour", Some(When::In(3600)));
        check("in one minute", Some(When::In(60)));
        check("every ten minutes", Some(When::Every(600)));
        check("every minute", Some(When::Every(60)));
        check("every 2 days", Some(When::Every(172_800)));
        check("every day at 9", Some(When::Daily { hour: 9, minute: 0 }));
        check("every day at 17:30", Some(When::Daily { hour: 17, minute: 30 }));
        for other in ["every day at 25", "every day at 9pm", "in 0 minutes", "every cat", "soon"] {
            check(other, None);
        }
        assert_eq!(read("to drink tea in an hour"), None);
    }
}
