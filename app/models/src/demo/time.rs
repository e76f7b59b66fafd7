//! The time, which only the tool knows.

use super::memo::{Halt, Memo};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(crate) fn tell(memo: &Memo<'_>) -> Result<String, Halt> {
    let told = now(memo)?;
    let zone = told["zone"].as_str().unwrap_or_default();
    Ok(format!("It is {} ({zone}).", shown(told["time"].as_str().unwrap_or_default())))
}

/// The instant that comes so many seconds after now.
pub(crate) fn after(seconds: i64, memo: &Memo<'_>) -> Result<String, Halt> {
    let told = now(memo)?;
    let now = told["time"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    now.and_then(|now| now.checked_add(SignedDuration::from_secs(seconds)).ok())
        .map(|at| at.to_string())
        .ok_or_else(|| Halt::Say("That time lies beyond every calendar.".to_owned()))
}

/// What the person's clock shows then.
pub(crate) fn shown(time: &str) -> String {
    let read = time.parse::<DateTime>();
    read.map_or_else(
        |_| time.to_owned(),
        |time| time.strftime("%H:%M on %A, %-d %B %Y").to_string(),
    )
}

fn now(memo: &Memo<'_>) -> Result<Value, Halt> {
    memo.call("get_time", json!({}))
}
