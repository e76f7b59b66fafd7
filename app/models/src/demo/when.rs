//! Times as people say them: *in ten minutes*, *every Monday at 8:30*, *tomorrow at noon*.

use jiff::civil::{Date, Time, Weekday};
use jiff::{Span, Zoned};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum When {
    /// Seconds from when it was said.
    In(i64),
    /// Again and again, every so many seconds.
    Every(i64),
    /// Five fields, in the person's zone.
    Cron(String),
    Once {
        day: Day,
        time: Time,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Day {
    /// Today, or tomorrow if the time has passed.
    Next,
    Today,
    Tomorrow,
    Weekday(Weekday),
    Date(Date),
}

impl When {
    pub(crate) fn repeats(&self) -> bool {
        match self {
            Self::Every(_) | Self::Cron(_) => true,
            Self::In(_) | Self::Once { .. } => false,
        }
    }

    /// What a single time means: an instant for a stretch of time, and what the person's clock
    /// shows for a time of day, so that a clock change between does not move it.
    pub(crate) fn at(&self, now: &Zoned) -> Option<String> {
        match self {
            Self::Every(_) | Self::Cron(_) => None,
            Self::In(seconds) => {
                let at = now.checked_add(Span::new().try_seconds(*seconds).ok()?).ok()?;
                Some(at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
            }
            Self::Once { day, time } => {
                let today = now.date();
                let date = match day {
                    Day::Next if *time > now.time() => today,
                    Day::Next | Day::Tomorrow => today.tomorrow().ok()?,
                    Day::Today => today,
                    Day::Weekday(day) if *day == today.weekday() && *time > now.time() => today,
                    Day::Weekday(day) => today.nth_weekday(1, *day).ok()?,
                    Day::Date(date) => *date,
                };
                Some(date.to_datetime(*time).strftime("%Y-%m-%dT%H:%M:%S").to_string())
            }
        }
    }
}

/// The first time that a text names, and the text without it.
pub(crate) fn find(text: &str) -> Option<(When, String)> {
    let words = Words::new(text);
    (0..words.0.len()).find_map(|start| {
        let (when, used) = words.from(start).when()?;
        let rest = words.0.iter().enumerate();
        let rest = rest.filter(|(at, _)| !(start..start + used).contains(at));
        Some((when, rest.map(|(_, word)| word.raw).collect::<Vec<_>>().join(" ")))
    })
}

/// Whether a text begins with a time.
pub(crate) fn begins(text: &str) -> bool {
    Words::new(text).from(0).when().is_some()
}

struct Word<'t> {
    raw: &'t str,
    /// Lower case, without the marks around it.
    low: String,
}

struct Words<'t>(Vec<Word<'t>>);

#[derive(Clone, Copy)]
struct Cursor<'w, 't>(&'w [Word<'t>]);

impl<'t> Words<'t> {
    fn new(text: &'t str) -> Self {
        let marks = |c: char| matches!(c, ',' | '.' | ';' | ':' | '!' | '?');
        Self(
            text.split_whitespace()
                .map(|raw| Word { raw, low: raw.trim_matches(marks).to_lowercase() })
                .collect(),
        )
    }

    fn from<'w>(&'w self, start: usize) -> Cursor<'w, 't> {
        Cursor(self.0.get(start..).unwrap_or_default())
    }
}

impl<'w> Cursor<'w, '_> {
    fn word(&self, at: usize) -> &'w str {
        self.0.get(at).map_or("", |word| word.low.as_str())
    }

    fn skip(&self, count: usize) -> Self {
        Self(self.0.get(count..).unwrap_or_default())
    }

    fn when(&self) -> Option<(When, usize)> {
        self.relative().or_else(|| self.repeating(None)).or_else(|| self.once())
    }

    /// *in ten minutes*
    fn relative(&self) -> Option<(When, usize)> {
        if self.word(0) != "in" {
            return None;
        }
        let (seconds, used) = self.skip(1).duration()?;
        Some((When::In(seconds), 1 + used))
    }

    /// *10 minutes*, *an hour*, *half an hour*
    fn duration(&self) -> Option<(i64, usize)> {
        if (self.word(0), self.word(1)) == ("half", "an") {
            return Some((unit(self.word(2))? / 2, 3));
        }
        let number = number(self.word(0))?;
        let seconds = number.checked_mul(unit(self.word(1))?)?;
        (seconds > 0).then_some((seconds, 2))
    }

    /// *every day at 9*, *every 2 hours*, *daily*; `clock` is a time that stood in front.
    fn repeating(&self, clock: Option<Time>) -> Option<(When, usize)> {
        let at = |used: usize, days: &str, usual: i8| {
            let (time, more) = match (clock, self.skip(used).at_clock()) {
                (Some(time), _) => (time, 0),
                (None, Some((time, more))) => (time, more),
                (None, None) => (Time::constant(usual, 0, 0, 0), 0),
            };
            let cron = format!("{} {} {days}", time.minute(), time.hour());
            Some((When::Cron(cron), used + more))
        };
        match self.word(0) {
            "daily" => return at(1, "* * *", 9),
            "hourly" => return Some((When::Every(3600), 1)),
            "weekly" => return at(1, "* * 1", 9),
            "monthly" => return at(1, "1 * *", 9),
            "weekdays" => return at(1, "* * 1-5", 9),
            "every" | "each" => {}
            _ => return None,
        }
        let next = self.word(1);
        if let Some(day) = weekday(next) {
            return at(2, &format!("* * {}", day.to_sunday_zero_offset()), 9);
        }
        match next {
            "day" => at(2, "* * *", 9),
            "morning" => at(2, "* * *", 8),
            "evening" => at(2, "* * *", 18),
            "night" => at(2, "* * *", 21),
            "weekday" | "workday" => at(2, "* * 1-5", 9),
            "weekend" => at(2, "* * 0,6", 9),
            "week" => at(2, "* * 1", 9),
            "month" => at(2, "1 * *", 9),
            _ => {
                let bare = unit(next).map(|seconds| (seconds, 1));
                let (seconds, used) = bare.or_else(|| self.skip(1).duration())?;
                Some((When::Every(seconds), 1 + used))
            }
        }
    }

    /// *at 17:30*, *tomorrow at 9*, *at noon on Friday*
    fn once(&self) -> Option<(When, usize)> {
        if let Some((day, used)) = self.day() {
            let (time, more) =
                self.skip(used).at_clock().unwrap_or((Time::constant(9, 0, 0, 0), 0));
            return Some((When::Once { day, time }, used + more));
        }
        let (time, used) = self.at_clock()?;
        let rest = self.skip(used);
        if let Some((when, more)) = rest.repeating(Some(time))
            && matches!(when, When::Cron(_))
        {
            return Some((when, used + more));
        }
        let (day, more) = rest.day().unwrap_or((Day::Next, 0));
        Some((When::Once { day, time }, used + more))
    }

    fn day(&self) -> Option<(Day, usize)> {
        match self.word(0) {
            "today" | "tonight" => return Some((Day::Today, 1)),
            "tomorrow" => return Some((Day::Tomorrow, 1)),
            _ => {}
        }
        let skip = usize::from(matches!(self.word(0), "on" | "next" | "this"));
        let word = self.word(skip);
        if skip == 1
            && let Some(day) = weekday(word)
        {
            return Some((Day::Weekday(day), 2));
        }
        word.parse().ok().filter(|_| word.len() == 10).map(|date| (Day::Date(date), skip + 1))
    }

    /// *at 9*, *at 9:30 pm*, *at noon*
    fn at_clock(&self) -> Option<(Time, usize)> {
        if self.word(0) != "at" {
            return None;
        }
        let (time, used) = self.skip(1).clock()?;
        Some((time, 1 + used))
    }

    fn clock(&self) -> Option<(Time, usize)> {
        let word = self.word(0);
        match word {
            "noon" => return Some((Time::midnight().with().hour(12).build().ok()?, 1)),
            "midnight" => return Some((Time::midnight(), 1)),
            _ => {}
        }
        let (digits, glued) = match word.find(|c: char| !c.is_ascii_digit() && c != ':') {
            Some(end) => word.split_at(end),
            None => (word, ""),
        };
        let (half, used) = match (glued, self.word(1)) {
            ("", half @ ("am" | "pm")) => (half, 2),
            ("", "o'clock") => ("", 2),
            ("" | "h", _) => ("", 1),
            (half @ ("am" | "pm"), _) => (half, 1),
            _ => return None,
        };
        let (hour, minute) = digits.split_once(':').unwrap_or((digits, "0"));
        let (hour, minute) = (hour.parse::<i8>().ok()?, minute.parse::<i8>().ok()?);
        let hour = match half {
            "" => hour,
            _ if !(1..=12).contains(&hour) => return None,
            "pm" => hour % 12 + 12,
            _ => hour % 12,
        };
        Some((Time::new(hour, minute, 0, 0).ok()?, used))
    }
}

fn number(word: &str) -> Option<i64> {
    const NAMES: &[&str] = &[
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    match word {
        "a" | "an" => Some(1),
        "fifteen" => Some(15),
        "twenty" => Some(20),
        "thirty" => Some(30),
        _ => match NAMES.iter().position(|name| *name == word) {
            Some(value) => i64::try_from(value).ok(),
            None => word.parse().ok(),
        },
    }
}

/// Seconds of a unit.
fn unit(word: &str) -> Option<i64> {
    match word {
        "second" | "seconds" | "sec" | "secs" | "s" => Some(1),
        "minute" | "minutes" | "min" | "mins" | "m" => Some(60),
        "hour" | "hours" | "hr" | "hrs" | "h" => Some(3600),
        "day" | "days" => Some(86_400),
        "week" | "weeks" => Some(604_800),
        _ => None,
    }
}

fn weekday(word: &str) -> Option<Weekday> {
    match word.strip_suffix('s').unwrap_or(word) {
        "monday" | "mon" => Some(Weekday::Monday),
        "tuesday" | "tue" => Some(Weekday::Tuesday),
        "wednesday" | "wed" => Some(Weekday::Wednesday),
        "thursday" | "thu" => Some(Weekday::Thursday),
        "friday" | "fri" => Some(Weekday::Friday),
        "saturday" | "sat" => Some(Weekday::Saturday),
        "sunday" | "sun" => Some(Weekday::Sunday),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        Zoned::strptime("%Y-%m-%d %H:%M:%S %:z", "2026-11-21 11:00:00 +01:00").unwrap()
    }

    #[test]
    fn single_times_become_instants() {
        let check = |text: &str, expected: &str, rest: &str| {
            let (when, left) = find(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(when.at(&now()).as_deref(), Some(expected), "{text}");
            assert_eq!(left, rest, "{text}");
        };
        check("in 10 minutes x", "2026-11-21T11:10:00+01:00", "x");
        check("x in half an hour", "2026-11-21T11:30:00+01:00", "x");
        check("in two weeks", "2026-12-05T11:00:00+01:00", "");
        check("x at 17:30 y", "2026-11-21T17:30:00", "x y");
        check("at 9", "2026-11-22T09:00:00", "");
        check("at 9 pm", "2026-11-21T21:00:00", "");
        check("at 12am", "2026-11-22T00:00:00", "");
        check("at noon,", "2026-11-21T12:00:00", "");
        check("tomorrow at 8:05", "2026-11-22T08:05:00", "");
        check("tomorrow", "2026-11-22T09:00:00", "");
        check("at 6 on Friday", "2026-11-27T06:00:00", "");
        check("on saturday at 12", "2026-11-21T12:00:00", "");
        check("on saturday at 10", "2026-11-28T10:00:00", "");
        check("on 2026-12-24 at 18:00", "2026-12-24T18:00:00", "");
    }

    #[test]
    fn repeating_times_become_rules() {
        let check = |text: &str, expected: When| {
            assert_eq!(find(text).map(|(when, _)| when), Some(expected), "{text}");
        };
        let cron = |text: &str| When::Cron(text.to_owned());
        check("every day at 9", cron("0 9 * * *"));
        check("daily at 7:15pm", cron("15 19 * * *"));
        check("every morning", cron("0 8 * * *"));
        check("every weekday at 6:45", cron("45 6 * * 1-5"));
        check("every Sunday", cron("0 9 * * 0"));
        check("at 10 every friday", cron("0 10 * * 5"));
        check("every hour", When::Every(3600));
        check("every 90 minutes", When::Every(5400));
        check("every two days", When::Every(172_800));
    }

    #[test]
    fn what_names_no_time_is_left_alone() {
        for text in
            ["", "in the garden", "at home", "at 25:00", "every cat", "in 0 minutes", "at 13pm"]
        {
            assert_eq!(find(text), None, "{text}");
        }
    }
}
