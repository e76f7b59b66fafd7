//! Simulated years against the model. More of them: `cargo run --example schedule_model`.

use crate::life::run;
use crate::model::{ZONES, start_of};
use jiff::{Timestamp, tz::TimeZone};
use std::ops::RangeInclusive;

#[test]
fn every_slot_ends_as_fired_or_missed_once() {
    live(1..=2);
}

mod soak {
    #[test]
    fn every_slot_of_fifty_lives_ends_as_fired_or_missed_once() {
        super::live(3..=50);
    }
}

fn live(seeds: RangeInclusive<u64>) {
    let mut slots = 0;
    for seed in seeds {
        let tally = run(seed, 10, (2025, 2026)).unwrap_or_else(|error| panic!("{error}"));
        assert!(tally.fired > 0 && tally.missed > 0 && tally.lost > 0, "{tally:?}");
        slots += tally.fired + tally.missed;
    }
    // A model that finds nothing due agrees with everything.
    assert!(slots > 100_000, "{slots} slots are too few to prove anything");
}

#[test]
fn the_model_counts_years_as_the_calendar_does() {
    for (year, expected) in [
        (1970, "1970-01-01T00:00:00Z"),
        (2025, "2025-01-01T00:00:00Z"),
        (2101, "2101-01-01T00:00Z"),
    ] {
        let expected: Timestamp = expected.parse().unwrap();
        assert_eq!(start_of(year) * 60, expected.as_second());
    }
    for zone in &ZONES {
        assert!(TimeZone::get(zone.name).is_ok(), "{} is not in the database", zone.name);
    }
}
