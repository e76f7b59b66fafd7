//! What cron expressions mean, one line each.

use famulus_core::schedule::{Rule, RuleError, canonical_zone, rezone};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

const BERLIN: &str = "Europe/Berlin";

fn cron(expression: &str) -> Rule {
    Rule::Cron { expression: expression.to_owned() }
}

fn instant(zone: &str, civil: &str) -> Timestamp {
    let civil: DateTime = civil.parse().unwrap();
    TimeZone::get(zone).unwrap().to_ambiguous_zoned(civil).earlier().unwrap().timestamp()
}

/// The first slots after a time of the zone's wall clock (its first passing).
fn slots(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let rule = cron(expression);
    let anchor = instant(zone, after);
    let tz = TimeZone::get(zone).unwrap();
    let mut at = anchor;
    let mut found = Vec::new();
    while found.len() < count {
        let Some(next) = rule.next_after(zone, anchor, at).unwrap() else { break };
        assert!(next > at, "{expression} stands still at {at}");
        found.push(next.to_zoned(tz.clone()).strftime("%a %F %H:%M%:z").to_string());
        at = next;
    }
    found
}

#[track_caller]
fn check(expression: &str, zone: &str, after: &str, expected: &[&str]) {
    assert_eq!(slots(expression, zone, after, expected.len()), expected, "{expression} in {zone}");
}

#[test]
fn weekdays_count_from_sunday() {
    let friday = "2026-07-31T12:00";
    check("0 0 * * 1", BERLIN, friday, &["Mon 2026-08-03 00:00+02:00"]);
    check("0 9 * * 0", BERLIN, friday, &["Sun 2026-08-02 09:00+02:00"]);
    check("0 9 * * 7", BERLIN, friday, &["Sun 2026-08-02 09:00+02:00"]);
    check("0 9 * * SUN", BERLIN, friday, &["Sun 2026-08-02 09:00+02:00"]);
    let saturday = "2026-08-01T12:00";
    check("0 9 * * 1-5", BERLIN, saturday, &["Mon 2026-08-03 09:00+02:00"]);
    check("0 9 * * mon-fri", BERLIN, saturday, &["Mon 2026-08-03 09:00+02:00"]);
    check("0 9 * * FRI-SUN", BERLIN, saturday, &["Sun 2026-08-02 09:00+02:00"]);
}

#[test]
fn nicknames_and_names() {
    let after = "2026-07-31T12:00";
    check("@weekly", BERLIN, after, &["Sun 2026-08-02 00:00+02:00"]);
    check("@daily", BERLIN, after, &["Sat 2026-08-01 00:00+02:00"]);
    check("@hourly", BERLIN, after, &["Fri 2026-07-31 13:00+02:00"]);
    check("@monthly", BERLIN, after, &["Sat 2026-08-01 00:00+02:00"]);
    check("@yearly", BERLIN, after, &["Fri 2027-01-01 00:00+01:00"]);
    check("0 9 1 JAN,jul *", BERLIN, after, &["Fri 2027-01-01 09:00+01:00"]);
}

#[test]
fn modifiers_of_the_day() {
    let after = "2026-07-31T12:00";
    check("0 9 * * MON#1", BERLIN, after, &["Mon 2026-08-03 09:00+02:00"]);
    check("0 9 * * 1#1", BERLIN, "2026-08-03T09:00", &["Mon 2026-09-07 09:00+02:00"]);
    check(
        "0 9 L * *",
        BERLIN,
        after,
        &["Mon 2026-08-31 09:00+02:00", "Wed 2026-09-30 09:00+02:00", "Sat 2026-10-31 09:00+01:00"],
    );
    check(
        "0 9 L 2 *",
        BERLIN,
        after,
        &["Sun 2027-02-28 09:00+01:00", "Tue 2028-02-29 09:00+01:00"],
    );
    check("0 9 * * 5L", BERLIN, after, &["Fri 2026-08-28 09:00+02:00"]);
    check("0 9 15W * *", BERLIN, after, &["Fri 2026-08-14 09:00+02:00"]);
    check("0 9 LW 10 *", BERLIN, after, &["Fri 2026-10-30 09:00+01:00"]);
    // Two day fields mean either of them.
    check(
        "0 0 13 * 5",
        BERLIN,
        after,
        &["Fri 2026-08-07 00:00+02:00", "Thu 2026-08-13 00:00+02:00"],
    );
    check("0 0 29 2 *", BERLIN, "2096-03-01T00:00", &["Fri 2104-02-29 00:00+01:00"]);
}

#[test]
fn a_fixed_time_in_a_gap_comes_right_after_it() {
    let eve = "2026-03-28T12:00";
    check("30 2 * * *", BERLIN, eve, &["Sun 2026-03-29 03:00+02:00", "Mon 2026-03-30 02:30+02:00"]);
    check(
        "30 2,14 * * *",
        BERLIN,
        "2026-03-28T15:00",
        &["Sun 2026-03-29 03:00+02:00", "Sun 2026-03-29 14:30+02:00"],
    );
    // Several swallowed times are one slot, and so is the time that stands at the gap's end.
    check(
        "0,20,40 2-3 * * *",
        BERLIN,
        eve,
        &["Sun 2026-03-29 03:00+02:00", "Sun 2026-03-29 03:20+02:00"],
    );
    check(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T12:00",
        &["Sun 2026-10-04 02:30+11:00", "Mon 2026-10-05 02:15+11:00"],
    );
    // The gap ends on the next day, which the expression does not name.
    check(
        "30 23 * * 6",
        "America/Nuuk",
        "2026-03-28T12:00",
        &["Sun 2026-03-29 00:00-01:00", "Sat 2026-04-04 23:30-01:00"],
    );
    // A whole day was left out.
    check(
        "30 12 * * *",
        "Pacific/Apia",
        "2011-12-29T13:00",
        &["Sat 2011-12-31 00:00+14:00", "Sat 2011-12-31 12:30+14:00"],
    );
}

#[test]
fn a_fixed_time_in_a_repeated_hour_comes_once() {
    check(
        "30 2 * * *",
        BERLIN,
        "2026-10-24T12:00",
        &["Sun 2026-10-25 02:30+02:00", "Mon 2026-10-26 02:30+01:00"],
    );
    check(
        "30 2,14 * * *",
        BERLIN,
        "2026-10-25T00:00",
        &["Sun 2026-10-25 02:30+02:00", "Sun 2026-10-25 14:30+01:00"],
    );
    check(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T12:00",
        &["Sun 2026-04-05 01:45+11:00", "Mon 2026-04-06 01:45+10:30"],
    );
    check(
        "30 1 * * *",
        "America/New_York",
        "2026-10-31T12:00",
        &["Sun 2026-11-01 01:30-04:00", "Mon 2026-11-02 01:30-05:00"],
    );
}

#[test]
fn counted_times_follow_the_time_that_passes() {
    check(
        "30 * * * *",
        BERLIN,
        "2026-03-29T01:00",
        &["Sun 2026-03-29 01:30+01:00", "Sun 2026-03-29 03:30+02:00"],
    );
    check(
        "30 * * * *",
        BERLIN,
        "2026-10-25T02:00",
        &["Sun 2026-10-25 02:30+02:00", "Sun 2026-10-25 02:30+01:00", "Sun 2026-10-25 03:30+01:00"],
    );
    check(
        "*/30 2 * * *",
        BERLIN,
        "2026-03-28T12:00",
        &["Mon 2026-03-30 02:00+02:00", "Mon 2026-03-30 02:30+02:00"],
    );
}

#[test]
fn a_zone_without_summer_time() {
    check(
        "0 9 * * *",
        "Asia/Kathmandu",
        "2026-03-28T12:00",
        &["Sun 2026-03-29 09:00+05:45", "Mon 2026-03-30 09:00+05:45"],
    );
    check("0 9 * * *", "UTC", "2026-03-28T12:00", &["Sun 2026-03-29 09:00+00:00"]);
}

#[test]
fn what_cannot_be_kept_is_refused_with_the_reason() {
    let now: Timestamp = "2026-07-31T10:00:00Z".parse().unwrap();
    let check = |rule: Rule, expected: &str| {
        let error = rule.validate(BERLIN, now).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(cron("0 0 30 2 *"), "`0 0 30 2 *` never falls due");
    check(cron("0 0 * * L"), "never falls due");
    check(cron("0 0 0 * * 1"), "it has 6 fields instead of five");
    check(cron("* * * *"), "it has 4 fields instead of five");
    check(cron(""), "it has 0 fields instead of five");
    check(cron("@reboot"), "is not a cron expression");
    check(cron("60 * * * *"), "Number out of bounds");
    check(cron("0 9 MON * *"), "`MON` does not belong into the day of month field");
    check(cron("0 9 * MON *"), "`MON` does not belong into the month field");
    check(cron("0 9 * * JAN"), "`JAN` does not belong into the weekday field");
    check(cron("1,, 9 * * *"), "the minute field `1,,` has an empty list element");
    check(cron("0/10 * * * *"), "Use \"*/10\"");
    check(cron("*/0 * * * *"), "Step cannot be zero");
    check(cron(&"1,".repeat(200)), "it is longer than 256 bytes");
    check(Rule::Every { seconds: 59 }, "every 59 s is too often; the shortest interval is 60 s");
    check(
        Rule::Every { seconds: 3_153_600_001 },
        "every 3153600001 s is too seldom; the longest interval is 3153600000 s, a hundred years",
    );
    check(Rule::At { at: now }, "has passed");
    assert_eq!(
        cron("0 9 * * *").validate("Europe/Berln", now),
        Err(RuleError::Zone { zone: "Europe/Berln".into() })
    );
    for rule in
        [cron("*/5 * * * *"), cron("@daily"), cron("0 0 29 2 +1"), Rule::Every { seconds: 60 }]
    {
        assert_eq!(rule.validate(BERLIN, now), Ok(()), "{rule:?}");
    }
}

#[test]
fn an_interval_counts_from_its_anchor() {
    let anchor: Timestamp = "2026-07-31T10:00:00.9Z".parse().unwrap();
    let rule = Rule::Every { seconds: 60 };
    let check = |after: &str, expected: &str| {
        let next = rule.next_after(BERLIN, anchor, after.parse().unwrap()).unwrap();
        assert_eq!(next, Some(expected.parse().unwrap()), "after {after}");
    };
    check("2026-07-31T10:00:00.9Z", "2026-07-31T10:01:00.9Z");
    check("2026-07-31T10:01:00.5Z", "2026-07-31T10:01:00.9Z");
    check("2026-07-31T10:01:00.9Z", "2026-07-31T10:02:00.9Z");
    check("2026-07-31T09:00:00Z", "2026-07-31T10:01:00.9Z");
}

#[test]
fn moving_house_moves_wall_clock_rules_only() {
    let every = Rule::Every { seconds: 3600 };
    let at = Rule::At { at: Timestamp::UNIX_EPOCH };
    let check = |rule: &Rule, zone: &str, expected: Option<&str>| {
        let moved = rezone(rule, zone, BERLIN, "america/new_york").unwrap();
        assert_eq!(moved.as_deref(), expected, "{rule:?} in {zone}");
    };
    check(&cron("0 9 * * *"), BERLIN, Some("America/New_York"));
    check(&cron("0 9 * * *"), "europe/berlin", Some("America/New_York"));
    check(&cron("0 9 * * *"), "Asia/Kathmandu", None);
    check(&every, BERLIN, None);
    check(&at, BERLIN, None);
    assert_eq!(rezone(&cron("0 9 * * *"), BERLIN, BERLIN, "europe/BERLIN").unwrap(), None);
    assert!(rezone(&every, BERLIN, BERLIN, "Mars/Olympus").is_err());
    assert_eq!(canonical_zone("utc").unwrap(), "UTC");
}
