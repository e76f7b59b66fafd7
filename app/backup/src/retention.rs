//! Which backups may go: a pure function of their times.
//!
//! ```text
//! newest 3 ─┐
//! hourly  ──┤
//! daily   ──┼─► kept by any of them? stays, else may go
//! monthly ──┤
//! yearly  ──┘
//! ```
//!
//! A rule counts the hours, days, months or years in which there is a good backup, not those that
//! passed: a machine that was off for a year loses nothing when it is back. Of each it keeps the
//! newest.
//!
//! Invariants: the newest three good ones stay under all rules. One that is not good neither goes nor
//! makes another go. One whose time lies ahead, because a clock was wrong, stays and counts for
//! nothing until its time has come.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use std::collections::BTreeSet;

/// Good backups that stay, whatever the rules say.
const ALWAYS: usize = 3;

/// How many hours, days, months and years keep a backup each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub hourly: u32,
    pub daily: u32,
    pub monthly: u32,
    /// `None`: every year, for ever.
    pub yearly: Option<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { hourly: 0, daily: 30, monthly: 12, yearly: None }
    }
}

/// What is known of a backup without reading its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Good,
    /// Parts are missing, or what they are cannot be read.
    NotGood,
}

/// One backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dated {
    pub at: Timestamp,
    pub mark: Mark,
}

/// The places in `backups` of those that may go at `now`.
pub fn may_go(backups: &[Dated], now: Timestamp, rules: &Rules) -> BTreeSet<usize> {
    let mut counted: Vec<(Timestamp, usize)> = backups
        .iter()
        .enumerate()
        .filter(|(_, backup)| backup.mark == Mark::Good && backup.at <= now)
        .map(|(place, backup)| (backup.at, place))
        .collect();
    counted.sort_unstable_by(|a, b| b.cmp(a));

    let mut kept: BTreeSet<usize> = counted.iter().take(ALWAYS).map(|(_, place)| *place).collect();
    let counts = [Some(rules.hourly), Some(rules.daily), Some(rules.monthly), rules.yearly];
    for (period, count) in Period::ALL.into_iter().zip(counts) {
        kept.extend(newest_of_each(&counted, period, count));
    }
    counted.into_iter().map(|(_, place)| place).filter(|place| !kept.contains(place)).collect()
}

/// The newest of each of the last `count` periods that have one; `counted` is newest first.
fn newest_of_each(
    counted: &[(Timestamp, usize)],
    period: Period,
    count: Option<u32>,
) -> Vec<usize> {
    let count = count.map_or(usize::MAX, |count| count as usize);
    let mut kept = Vec::new();
    let mut last = None;
    for (at, place) in counted {
        if kept.len() >= count {
            break;
        }
        let begin = period.begin(*at);
        if last != Some(begin) {
            last = Some(begin);
            kept.push(*place);
        }
    }
    kept
}

/// Hours, days, months and years of UTC, which no change of the clocks makes shorter.
#[derive(Clone, Copy, Debug)]
enum Period {
    Hour,
    Day,
    Month,
    Year,
}

impl Period {
    const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Month, Self::Year];

    fn begin(self, at: Timestamp) -> DateTime {
        let at = TimeZone::UTC.to_datetime(at);
        let day = at.date();
        match self {
            Self::Hour => day.at(at.hour(), 0, 0, 0),
            Self::Day => day.at(0, 0, 0, 0),
            Self::Month => day.first_of_month().at(0, 0, 0, 0),
            Self::Year => day.first_of_year().at(0, 0, 0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::{SignedDuration, ToSpan};
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn good(text: &str) -> Dated {
        Dated { at: at(text), mark: Mark::Good }
    }

    const NONE: Rules = Rules { hourly: 0, daily: 0, monthly: 0, yearly: Some(0) };

    #[test]
    fn each_rule_keeps_the_newest_of_each_period() {
        let check = |backups: &[&str], rules: Rules, gone: &[usize]| {
            let backups: Vec<Dated> = backups.iter().map(|text| good(text)).collect();
            let found = may_go(&backups, at("2027-01-10T00:00:00Z"), &rules);
            assert_eq!(found, gone.iter().copied().collect(), "{backups:?} {rules:?}");
        };
        let days = [
            "2025-05-01T03:00:00Z",
            "2026-12-30T03:00:00Z",
            "2026-12-31T03:00:00Z",
            "2027-01-01T03:00:00Z",
            "2027-01-01T09:00:00Z",
            "2027-01-02T03:00:00Z",
            "2027-01-03T03:00:00Z",
            "2027-01-04T03:00:00Z",
        ];
        check(&days, NONE, &[0, 1, 2, 3, 4]);
        check(&days, Rules { daily: 4, ..NONE }, &[0, 1, 2, 3]);
        check(&days, Rules { daily: 5, ..NONE }, &[0, 1, 3]);
        check(&days, Rules { hourly: 5, ..NONE }, &[0, 1, 2]);
        check(&days, Rules { monthly: 2, ..NONE }, &[0, 1, 3, 4]);
        check(&days, Rules { yearly: Some(2), ..NONE }, &[0, 1, 3, 4]);
        check(&days, Rules { yearly: None, ..NONE }, &[1, 3, 4]);
        check(&days, Rules::default(), &[3]);
        check(&[], Rules::default(), &[]);
    }

    #[test]
    fn one_that_is_not_good_or_lies_ahead_neither_goes_nor_counts() {
        let now = at("2027-01-10T00:00:00Z");
        let mut backups: Vec<Dated> =
            (1..=5).map(|day| good(&format!("2027-01-0{day}T00:00:00Z"))).collect();
        assert_eq!(may_go(&backups, now, &NONE), [0, 1].into());
        backups[4].mark = Mark::NotGood;
        assert_eq!(may_go(&backups, now, &NONE), [0].into());
        backups[3].at = at("2036-01-01T00:00:00Z");
        assert_eq!(may_go(&backups, now, &NONE), [].into());
    }

    /// One day of the simulated installation.
    #[derive(Clone, Debug)]
    enum Day {
        /// Backups at these minutes of the day, and whether each is good.
        Taken(Vec<(u16, bool)>),
        /// The machine is off for so many days.
        Off(u8),
        /// The clock is wrong by so many hours from here on, until the next such day.
        Clock(i16),
    }

    fn day() -> impl Strategy<Value = Day> {
        let taken = prop::collection::vec((0..1440_u16, prop::bool::weighted(0.9)), 0..4);
        prop_oneof![
            30 => taken.prop_map(Day::Taken),
            1 => (1..60_u8).prop_map(Day::Off),
            1 => prop_oneof![Just(-24_i16), Just(0), Just(24), -48..48_i16, Just(24 * 400)]
                .prop_map(Day::Clock),
        ]
    }

    fn rules() -> impl Strategy<Value = Rules> {
        let yearly = prop_oneof![Just(None), (0..4_u32).prop_map(Some)];
        let some = (0..30_u32, 0..35_u32, 0..14_u32, yearly)
            .prop_map(|(hourly, daily, monthly, yearly)| Rules { hourly, daily, monthly, yearly });
        prop_oneof![Just(Rules::default()), Just(NONE), some]
    }

    /// A backup of the simulation, and its time as `2027-01-10T09:…`, whose beginnings are the names of
    /// its year, month, day and hour.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Told {
        dated: Dated,
        time: String,
    }

    impl Told {
        fn counts(&self, high: Timestamp) -> bool {
            self.dated.mark == Mark::Good && self.dated.at <= high
        }
    }

    /// What was promised, said of all that was ever taken: written from the words, not the code.
    ///
    /// `high` is the latest time that the clock ever showed. What had to go at that time is not asked
    /// for again when the clock goes back.
    fn check(taken: &[Told], left: &[Told], high: Timestamp, rules: &Rules) {
        let mut good: Vec<&Told> = taken.iter().filter(|told| told.counts(high)).collect();
        good.sort_by_key(|told| told.dated.at);
        for last in good.iter().rev().take(3) {
            assert!(left.contains(last), "one of the last three: {last:?}");
        }
        for (letters, count) in [
            ("2027-01-10T09".len(), rules.hourly as usize),
            ("2027-01-10".len(), rules.daily as usize),
            ("2027-01".len(), rules.monthly as usize),
            ("2027".len(), rules.yearly.map_or(usize::MAX, |count| count as usize)),
        ] {
            let of = |told: &Told| told.time[..letters].to_owned();
            let periods: BTreeSet<String> = good.iter().map(|told| of(told)).collect();
            let survive: BTreeSet<String> =
                left.iter().filter(|told| told.dated.mark == Mark::Good).map(of).collect();
            for period in periods.iter().rev().take(count) {
                assert!(survive.contains(period), "nothing is left of {period}");
            }
        }
        let nobodys = |told: &&Told| told.dated.mark == Mark::NotGood || told.dated.at > high;
        for told in taken.iter().filter(nobodys) {
            assert!(left.contains(told), "{told:?} is nobody's to remove");
        }
    }

    /// No more stays than the rules name.
    fn check_bound(left: &[Told], now: Timestamp, rules: &Rules) {
        let counted = || left.iter().filter(|told| told.counts(now));
        let years: BTreeSet<&str> = counted().map(|told| &told.time[..4]).collect();
        let yearly = rules.yearly.map_or(years.len(), |count| count as usize);
        let bound = 3 + (rules.hourly + rules.daily + rules.monthly) as usize + yearly;
        assert!(counted().count() <= bound, "more is left than any rule keeps");
    }

    fn simulate(days: &[Day], rules: &Rules) {
        let mut truth = at("2020-02-27T00:00:00Z");
        let mut wrong = SignedDuration::ZERO;
        let mut high = Timestamp::MIN;
        let (mut taken, mut left): (Vec<Told>, Vec<Told>) = (Vec::new(), Vec::new());
        for (number, day) in days.iter().enumerate() {
            match day {
                Day::Off(days) => truth += (i64::from(*days) * 24).hours(),
                Day::Clock(hours) => wrong = SignedDuration::from_hours(i64::from(*hours)),
                Day::Taken(backups) => {
                    let mut backups = backups.clone();
                    backups.sort_unstable();
                    for (minute, good) in backups {
                        let now = truth + wrong + SignedDuration::from_mins(i64::from(minute));
                        let mark = if good { Mark::Good } else { Mark::NotGood };
                        let new = Told { dated: Dated { at: now, mark }, time: now.to_string() };
                        taken.push(new.clone());
                        left.push(new.clone());
                        high = high.max(now);
                        // A backup that failed is followed by no removal.
                        if good {
                            let dated: Vec<Dated> = left.iter().map(|told| told.dated).collect();
                            let gone = may_go(&dated, now, rules);
                            let mut place = 0..;
                            left.retain(|_| place.next().is_none_or(|at| !gone.contains(&at)));
                            assert!(left.contains(&new), "the one that was just taken is gone");
                            check_bound(&left, now, rules);
                        }
                    }
                    truth += 24.hours();
                }
            }
            // Reading the whole history each day would take its square.
            if number.is_multiple_of(97) {
                check(&taken, &left, high, rules);
            }
        }
        check(&taken, &left, high, rules);
    }

    /// Tries as many lives of four thousand days as it is told: each takes a good while, so that what
    /// `PROPTEST_CASES` says to properties in general is not for it.
    fn try_lives(cases: u32) {
        let config =
            ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        let lives = (prop::collection::vec(day(), 4000), rules());
        let tried = TestRunner::new(config).run(&lives, |life| {
            let (days, rules) = life;
            simulate(&days, &rules);
            Ok(())
        });
        if let Err(why) = tried {
            panic!("{why}");
        }
    }

    /// Four thousand days of a machine whose clock jumps and whose backups fail now and then.
    #[test]
    fn four_thousand_days_lose_nothing_that_a_rule_keeps() {
        try_lives(4);
    }

    mod soak {
        #[test]
        fn many_machines_lose_nothing_that_a_rule_keeps_in_four_thousand_days() {
            super::try_lives(60);
        }
    }
}
