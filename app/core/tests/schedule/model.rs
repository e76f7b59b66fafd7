//! A second opinion on schedules: a wall clock moved by hand, minute by minute.
//!
//! Shares nothing with the code under test: expressions are made from
//! data and never parsed, the rules of summer time stand here, and the calendar is counted here.

const HOUR: i64 = 60;
const DAY: i64 = 24 * HOUR;

/// A random number generator (SplitMix64), so that a seed names a run for ever.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 up to but not including `below`.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.roll() % below
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

// --- The calendar, counted ----------------------------------------------------------------------

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let years: i64 = (1970..year).map(|y| 365 + i64::from(is_leap(y))).sum();
    let months: i64 = (1..month).map(|m| month_length(year, m)).sum();
    years + months + day - 1
}

/// The minute, counted from 1970, at which a year begins in UTC.
pub(crate) fn start_of(year: i64) -> i64 {
    days_to(year, 1, 1) * DAY
}

/// What hangs on the wall.
#[derive(Clone, Copy)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
    /// From Sunday.
    weekday: i64,
}

impl Date {
    fn of(days: i64) -> Self {
        let (mut year, mut rest) = (1970, days);
        while rest >= 365 + i64::from(is_leap(year)) {
            rest -= 365 + i64::from(is_leap(year));
            year += 1;
        }
        let mut month = 1;
        while rest >= month_length(year, month) {
            rest -= month_length(year, month);
            month += 1;
        }
        // 1970-01-01 was a Thursday.
        Self { year, month, day: rest + 1, weekday: (days + 4) % 7 }
    }
}

// --- Zones --------------------------------------------------------------------------------------

/// A change of the clocks: the `nth` Sunday of a month (0 for the last), at a minute of that day in
/// UTC.
struct Change {
    month: i64,
    nth: i64,
    utc_minute: i64,
}

impl Change {
    fn minute(&self, year: i64) -> i64 {
        let length = month_length(year, self.month);
        let sundays: Vec<i64> = (1..=length)
            .filter(|day| Date::of(days_to(year, self.month, *day)).weekday == 0)
            .collect();
        let index = if self.nth == 0 { sundays.len() - 1 } else { self.nth as usize - 1 };
        days_to(year, self.month, sundays[index]) * DAY + self.utc_minute
    }
}

/// A zone by its rules of today.
pub(crate) struct Zone {
    pub(crate) name: &'static str,
    /// Minutes east of UTC in winter.
    standard: i64,
    /// Minutes that summer adds, when it begins, when it ends.
    summer: Option<(i64, Change, Change)>,
}

pub(crate) const ZONES: [Zone; 4] = [
    Zone {
        name: "Europe/Berlin",
        standard: HOUR,
        summer: Some((
            HOUR,
            Change { month: 3, nth: 0, utc_minute: HOUR },
            Change { month: 10, nth: 0, utc_minute: HOUR },
        )),
    },
    Zone {
        name: "America/New_York",
        standard: -5 * HOUR,
        summer: Some((
            HOUR,
            Change { month: 3, nth: 2, utc_minute: 7 * HOUR },
            Change { month: 11, nth: 1, utc_minute: 6 * HOUR },
        )),
    },
    Zone {
        name: "Australia/Lord_Howe",
        standard: 10 * HOUR + 30,
        // Half an hour, in the southern summer; two in the morning is still Saturday in UTC.
        summer: Some((
            30,
            Change { month: 10, nth: 1, utc_minute: 2 * HOUR - (10 * HOUR + 30) },
            Change { month: 4, nth: 1, utc_minute: 2 * HOUR - 11 * HOUR },
        )),
    },
    Zone { name: "Asia/Kathmandu", standard: 5 * HOUR + 45, summer: None },
];

impl Zone {
    /// The changes of some years, each with the offset from then on.
    fn changes(&self, from: i64, to: i64) -> Vec<(i64, i64)> {
        let Some((saved, begins, ends)) = &self.summer else { return Vec::new() };
        let mut changes: Vec<(i64, i64)> = (from..=to)
            .flat_map(|year| {
                [(begins.minute(year), self.standard + saved), (ends.minute(year), self.standard)]
            })
            .collect();
        changes.sort_unstable();
        changes
    }
}

// --- Expressions --------------------------------------------------------------------------------

/// One field, as data.
#[derive(Clone, Debug)]
enum Field {
    Any,
    EveryNth(i64),
    List(Vec<i64>),
    Range(i64, i64),
    /// The last day of the month, in the field of days.
    Last,
    /// A weekday's nth turn within the month; 0 for its last.
    Turn(i64, i64),
}

impl Field {
    fn has(&self, value: i64, lowest: i64, date: Date) -> bool {
        match self {
            Self::Any => true,
            Self::EveryNth(step) => (value - lowest) % step == 0,
            Self::List(values) => values.contains(&value),
            Self::Range(low, high) => *low <= value && value <= *high,
            Self::Last => date.day == month_length(date.year, date.month),
            Self::Turn(weekday, 0) => {
                date.weekday == *weekday && date.day + 7 > month_length(date.year, date.month)
            }
            Self::Turn(weekday, nth) => date.weekday == *weekday && (date.day + 6) / 7 == *nth,
        }
    }

    fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }

    fn counts(&self) -> bool {
        matches!(self, Self::Any | Self::EveryNth(_))
    }

    fn text(&self) -> String {
        match self {
            Self::Any => "*".into(),
            Self::EveryNth(step) => format!("*/{step}"),
            Self::List(values) => values.iter().map(i64::to_string).collect::<Vec<_>>().join(","),
            Self::Range(low, high) => format!("{low}-{high}"),
            Self::Last => "L".into(),
            Self::Turn(weekday, 0) => format!("{weekday}L"),
            Self::Turn(weekday, nth) => format!("{weekday}#{nth}"),
        }
    }

    fn random(dice: &mut Dice, lowest: u64, highest: u64) -> Self {
        match dice.below(10) {
            0 | 1 => Self::Any,
            2 => Self::EveryNth(dice.between(2, (highest / 2).max(2)) as i64),
            3 => {
                let low = dice.between(lowest, highest);
                Self::Range(low as i64, dice.between(low, highest) as i64)
            }
            4 | 5 => {
                let mut values: Vec<i64> =
                    (0..dice.between(2, 4)).map(|_| dice.between(lowest, highest) as i64).collect();
                values.sort_unstable();
                values.dedup();
                Self::List(values)
            }
            _ => Self::List(vec![dice.between(lowest, highest) as i64]),
        }
    }
}

/// An expression, as data.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Expression {
    /// Anything that a person might write, with a liking for the hours in which clocks change.
    pub(crate) fn random(dice: &mut Dice) -> Self {
        let day = match dice.below(10) {
            0 => Field::random(dice, 1, 31),
            1 => Field::Last,
            _ => Field::Any,
        };
        let weekday = match dice.below(10) {
            0 => Field::random(dice, 0, 7),
            1 => Field::Turn(dice.below(7) as i64, dice.below(5) as i64),
            _ => Field::Any,
        };
        let month = if dice.chance(10) { Field::random(dice, 1, 12) } else { Field::Any };
        let hour =
            if dice.chance(60) { Field::random(dice, 0, 3) } else { Field::random(dice, 0, 23) };
        Self { minute: Field::random(dice, 0, 59), hour, day, month, weekday }
    }

    pub(crate) fn text(&self) -> String {
        [&self.minute, &self.hour, &self.day, &self.month, &self.weekday].map(Field::text).join(" ")
    }

    fn has_date(&self, date: Date) -> bool {
        let day = self.day.has(date.day, 1, date);
        let weekday = self.weekday.has(date.weekday, 0, date)
            || date.weekday == 0 && self.weekday.has(7, 0, date);
        let day = match (self.day.is_any(), self.weekday.is_any()) {
            (false, false) => day || weekday,
            (true, _) => weekday,
            (_, true) => day,
        };
        self.month.has(date.month, 1, date) && day
    }

    /// Whether it names each minute of a day.
    fn times(&self) -> Vec<bool> {
        let any = Date::of(0);
        (0..DAY)
            .map(|minute| {
                self.minute.has(minute % 60, 0, any) && self.hour.has(minute / 60, 0, any)
            })
            .collect()
    }
}

/// Every minute (in UTC, from 1970) of some years at which each expression is due, found by looking
/// at every minute.
pub(crate) fn brute_force(
    zone: &Zone,
    expressions: &[Expression],
    from: i64,
    to: i64,
) -> Vec<Vec<i64>> {
    let mut changes = zone.changes(from - 1, to).into_iter().peekable();
    let mut offset = zone.standard;
    let start = start_of(from);
    while let Some((_, next)) = changes.next_if(|(at, _)| *at <= start) {
        offset = next;
    }
    // The furthest minute that this wall clock has shown.
    let mut shown = start + offset - 1;
    let mut date = Date::of(shown.div_euclid(DAY));
    let times: Vec<Vec<bool>> = expressions.iter().map(Expression::times).collect();
    let mut due = vec![Vec::new(); expressions.len()];
    for minute in start..start_of(to + 1) {
        if let Some((_, next)) = changes.next_if(|(at, _)| *at == minute) {
            offset = next;
        }
        let local = minute + offset;
        if local % DAY == 0 || local != shown + 1 {
            date = Date::of(local.div_euclid(DAY));
        }
        for (index, expression) in expressions.iter().enumerate() {
            let times = &times[index];
            let is_named = |local: i64, date: Date| {
                times[local.rem_euclid(DAY) as usize] && expression.has_date(date)
            };
            let here = is_named(local, date);
            let is_due = if expression.minute.counts() || expression.hour.counts() {
                here
            } else {
                let mut swallowed = shown + 1..local;
                local > shown
                    && (here || swallowed.any(|gone| is_named(gone, Date::of(gone / DAY))))
            };
            if is_due {
                due[index].push(minute);
            }
        }
        shown = shown.max(local);
    }
    due
}
