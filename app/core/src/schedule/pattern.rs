//! A cron expression as a set of minutes on a wall clock that knows no zone.
//!
//! croner reads the fields and knows the calendar (`L`, `W`, `#`, the rule of the two day fields).
//! The search is ours, because croner takes a list of hours such as `30 2,14 * * *` for an interval
//! and would skip or double it when the clocks change, and because slots that passed must be
//! counted without visiting each of them.

use super::RuleError;
use croner::{
    CronPattern, Weekday,
    errors::CronError,
    parser::{CronParser, Seconds},
};
use jiff::{
    ToSpan as _,
    civil::{Date, DateTime, time},
};
use std::ops::Range;

/// No expression that a person or a model means is longer.
const LONGEST_EXPRESSION: usize = 256;
const MINUTES_PER_DAY: u16 = 24 * 60;

/// A parsed expression.
#[derive(Debug)]
pub(super) struct Pattern {
    calendar: CronPattern,
    /// Minutes of the day that it names, ascending.
    times: Vec<u16>,
    /// Whether it names times of day (`30 2,14`) instead of counting through the hours (`*/15 *`).
    ///
    /// A named time happens once on each of its days, whatever the clocks do; a counted one follows
    /// the time that really passes.
    pub(super) fixed: bool,
}

impl Pattern {
    /// Reads five fields or a nickname such as `@daily`.
    pub(super) fn parse(expression: &str) -> Result<Self, RuleError> {
        let refuse = |reason: String| RuleError::Cron { expression: shortened(expression), reason };
        check_fields(expression).map_err(&refuse)?;
        let cron = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .build()
            .parse(expression)
            .map_err(|error| refuse(reason(error)))?;
        let calendar = cron.pattern;
        let minutes = calendar.minutes.values();
        let times = calendar
            .hours
            .values()
            .into_iter()
            .flat_map(|hour| minutes.iter().map(move |minute| hour * 60 + minute))
            .collect();
        let fixed = !calendar.minutes.from_wildcard && !calendar.hours.from_wildcard;
        Ok(Self { calendar, times, fixed })
    }

    /// The first matching minute within the span.
    pub(super) fn first(&self, span: &Range<DateTime>) -> Option<DateTime> {
        let span = whole_minutes(span)?;
        let mut date = span.start.date();
        while date <= span.end.date() {
            if !self.has_month(date) {
                date = date.first_of_month().checked_add(1.month()).ok()?;
                continue;
            }
            if self.has_day(date)
                && let Some(minute) = self.times_on(date, &span).first()
            {
                return Some(at_minute(date, *minute));
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The last matching minute within the span.
    pub(super) fn last(&self, span: &Range<DateTime>) -> Option<DateTime> {
        let span = whole_minutes(span)?;
        let mut date = span.end.date();
        while date >= span.start.date() {
            if !self.has_month(date) {
                date = date.first_of_month().yesterday().ok()?;
                continue;
            }
            if self.has_day(date)
                && let Some(minute) = self.times_on(date, &span).last()
            {
                return Some(at_minute(date, *minute));
            }
            date = date.yesterday().ok()?;
        }
        None
    }

    /// How many minutes within the span match; takes time by the day, not by the match.
    pub(super) fn count(&self, span: &Range<DateTime>) -> u64 {
        let Some(span) = whole_minutes(span) else { return 0 };
        let mut count = 0;
        let mut date = span.start.date();
        while date <= span.end.date() {
            let next = if self.has_month(date) {
                if self.has_day(date) {
                    count += self.times_on(date, &span).len() as u64;
                }
                date.tomorrow()
            } else {
                date.first_of_month().checked_add(1.month())
            };
            match next {
                Ok(next) => date = next,
                Err(_end_of_the_calendar) => break,
            }
        }
        count
    }

    fn has_month(&self, date: Date) -> bool {
        // croner refuses only months outside 1 to 12, which no date has.
        self.calendar.month_match(date.month() as u32).unwrap_or(false)
    }

    fn has_day(&self, date: Date) -> bool {
        let weekday = Weekday::from_days_from_sunday(date.weekday().to_sunday_zero_offset() as u32);
        // croner refuses only days that do not exist, which no date is.
        self.calendar
            .day_match(i32::from(date.year()), date.month() as u32, date.day() as u32, weekday)
            .unwrap_or(false)
    }

    /// The named minutes of a day that lie within the span.
    fn times_on(&self, date: Date, span: &Range<DateTime>) -> &[u16] {
        let from = if date == span.start.date() { minute_of(span.start) } else { 0 };
        let to = if date == span.end.date() { minute_of(span.end) } else { MINUTES_PER_DAY };
        let index_of = |minute: u16| self.times.partition_point(|time| *time < minute);
        self.times.get(index_of(from)..index_of(to)).unwrap_or(&[])
    }
}

/// Refuses what croner would read as something else than was written.
fn check_fields(expression: &str) -> Result<(), String> {
    if expression.len() > LONGEST_EXPRESSION {
        return Err(format!("it is longer than {LONGEST_EXPRESSION} bytes"));
    }
    if expression.trim_start().starts_with('@') {
        return Ok(());
    }
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(format!(
            "it has {} fields instead of five (minute, hour, day of month, month, weekday)",
            fields.len()
        ));
    };
    // croner replaces names wherever they stand: MON as a day of the month would be the first.
    for (name, field, words) in [
        ("minute", minute, &[][..]),
        ("hour", hour, &[]),
        ("day of month", day, &["L", "W", "LW"]),
        (
            "month",
            month,
            &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
        ),
        ("weekday", weekday, &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "L"]),
    ] {
        if field.split(',').any(str::is_empty) {
            return Err(format!("the {name} field `{field}` has an empty list element"));
        }
        for word in field.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
            if !words.contains(&word.to_uppercase().as_str()) {
                return Err(format!("`{word}` does not belong into the {name} field"));
            }
        }
    }
    Ok(())
}

/// croner's reason without its headline and full stop.
fn reason(error: CronError) -> String {
    let text = match error {
        CronError::InvalidPattern(text)
        | CronError::IllegalCharacters(text)
        | CronError::ComponentError(text) => text,
        CronError::EmptyPattern => "it is empty".to_owned(),
        CronError::InvalidDate | CronError::InvalidTime | CronError::TimeSearchLimitExceeded => {
            "it names no date or time that exists".to_owned()
        }
    };
    text.trim_end_matches('.').to_owned()
}

fn shortened(expression: &str) -> String {
    if expression.len() <= LONGEST_EXPRESSION {
        return expression.to_owned();
    }
    let mut shown: String = expression.chars().take(40).collect();
    shown.push('…');
    shown
}

/// The same minutes, bounded by whole ones; `None` when there is none.
fn whole_minutes(span: &Range<DateTime>) -> Option<Range<DateTime>> {
    let whole = round_up(span.start)?..round_up(span.end).unwrap_or(DateTime::MAX);
    (whole.start < whole.end).then_some(whole)
}

fn round_up(at: DateTime) -> Option<DateTime> {
    let floor = at.date().at(at.hour(), at.minute(), 0, 0);
    if floor == at { Some(at) } else { floor.checked_add(1.minute()).ok() }
}

fn minute_of(at: DateTime) -> u16 {
    u16::from(at.hour().unsigned_abs()) * 60 + u16::from(at.minute().unsigned_abs())
}

fn at_minute(date: Date, minute: u16) -> DateTime {
    date.to_datetime(time((minute / 60) as i8, (minute % 60) as i8, 0, 0))
}
