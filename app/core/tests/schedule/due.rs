//! Catching up after a time during which nothing ran.

use famulus_core::schedule::{DueSlots, MISSED_LISTED, MissedPolicy, Rule, SlotRow, due_slots};
use jiff::{SignedDuration, Timestamp};

const ZONE: &str = "UTC";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn decide(rule: &Rule, last: &str, now: &str, policy: MissedPolicy) -> DueSlots {
    due_slots(rule, ZONE, at("2026-01-01T00:00:00Z"), at(last), at(now), policy).unwrap()
}

#[test]
fn the_policy_decides_about_late_slots() {
    let daily = Rule::Cron { expression: "0 9 * * *".into() };
    let check = |last, now, policy, missed: &[&str], fire: Option<&str>, next: &str| {
        let expected = DueSlots {
            missed: missed.iter().map(|slot| at(slot)).collect(),
            unlisted: None,
            fire: fire.map(at),
            next: Some(at(next)),
        };
        assert_eq!(decide(&daily, last, now, policy), expected, "{last} to {now}, {policy:?}");
    };
    let (run, skip) = (MissedPolicy::RunOnce, MissedPolicy::Skip);
    let (d1, d2, d3) = ("2026-05-01T09:00:00Z", "2026-05-02T09:00:00Z", "2026-05-03T09:00:00Z");
    let last = "2026-05-01T00:00:00Z";
    // Not due yet, and due at this very instant.
    check(last, "2026-05-01T08:59:59Z", run, &[], None, d1);
    check(last, d1, run, &[], Some(d1), d2);
    check(last, d1, skip, &[], Some(d1), d2);
    // Up to sixty seconds is on time.
    check(last, "2026-05-01T09:01:00Z", skip, &[], Some(d1), d2);
    check(last, "2026-05-01T09:01:00.000001Z", skip, &[d1], None, d2);
    check(last, "2026-05-01T20:00:00Z", run, &[], Some(d1), d2);
    // Two were due.
    check(last, "2026-05-02T20:00:00Z", run, &[d1], Some(d2), d3);
    check(last, "2026-05-02T20:00:00Z", skip, &[d1, d2], None, d3);
    check(last, "2026-05-02T09:00:30Z", skip, &[d1], Some(d2), d3);
    // What was decided is not decided again, not even by a clock that went back.
    check(d2, "2026-05-02T20:00:00Z", run, &[], None, d3);
    check(d2, "2026-05-01T20:00:00Z", run, &[], None, d3);
}

#[test]
fn a_single_slot_ends_once() {
    let once = Rule::At { at: at("2026-05-01T09:00:00Z") };
    let late = decide(&once, "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z", MissedPolicy::RunOnce);
    assert_eq!(late.fire, Some(at("2026-05-01T09:00:00Z")));
    assert_eq!((late.missed_total(), late.next), (0, None));
    let skipped = decide(&once, "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z", MissedPolicy::Skip);
    assert_eq!((skipped.missed_total(), skipped.fire, skipped.next), (1, None, None));
    let done = decide(&once, "2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z", MissedPolicy::RunOnce);
    assert_eq!((done.missed_total(), done.fire, done.next), (0, None, None));
}

#[test]
fn years_of_silence_are_told_in_bounded_space_and_time() {
    let (last, now) = ("2026-01-01T00:00:00Z", "2046-01-01T00:00:00Z");
    let minutes = 20 * 365 * 24 * 60 + 5 * 24 * 60;
    for rule in [
        Rule::Cron { expression: "* * * * *".into() },
        Rule::Cron { expression: "0-59 0-23 * * *".into() },
        Rule::Every { seconds: 60 },
    ] {
        let due = decide(&rule, last, now, MissedPolicy::RunOnce);
        assert_eq!(due.fire, Some(at(now)));
        assert_eq!(due.missed.len(), MISSED_LISTED);
        assert_eq!(due.missed_total(), minutes - 1, "{rule:?}");
        let oldest_listed = at(now) - SignedDuration::from_mins(MISSED_LISTED as i64);
        assert_eq!(due.missed.first(), Some(&oldest_listed));
        assert_eq!(
            due.unlisted,
            Some(SlotRow {
                first: at("2026-01-01T00:01:00Z"),
                last: oldest_listed - SignedDuration::from_mins(1),
                count: minutes - 1 - MISSED_LISTED as u64,
            })
        );
    }
}

#[test]
fn slots_that_a_gap_runs_together_are_counted_once() {
    // On the 29th of March the six slots from two to three are one with that of three o'clock.
    let rule = Rule::Cron { expression: "0,10,20,30,40,50 2-3 * * *".into() };
    let (last, now) = (at("2026-02-28T23:00:00Z"), at("2026-05-31T22:00:00Z"));
    let due = due_slots(&rule, "Europe/Berlin", last, last, now, MissedPolicy::Skip).unwrap();
    assert_eq!(due.missed_total(), 92 * 12 - 6);
}
