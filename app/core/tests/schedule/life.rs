//! A simulated installation that polls, sleeps, crashes and comes back, held against the model.

use crate::model::{Dice, Expression, ZONES, brute_force, start_of};
use famulus_core::schedule::{DueSlots, MissedPolicy, Rule, due_slots};
use jiff::Timestamp;
use std::fmt::Write as _;

/// How the slots of one schedule ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) fired: u64,
    pub(crate) missed: u64,
    /// Decisions that a crash took back before they were recorded.
    pub(crate) lost: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.fired += other.fired;
        self.missed += other.missed;
        self.lost += other.lost;
    }
}

/// Runs one schedule through naps, crashes and months of silence, and checks that every slot ends
/// as fired or missed, once.
///
/// `slots` are the seconds at which the rule is due after `start` and up to `end`, by the model.
///
/// # Errors
///
/// Says what went wrong, and when.
fn live(
    rule: &Rule,
    zone: &str,
    slots: &[i64],
    (start, end): (i64, i64),
    policy: MissedPolicy,
    dice: &mut Dice,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    // The record: slots are decided in order, so one index says which ones have ended.
    let mut ended = 0;
    let (mut last, mut next) = (start, slots.first().copied());
    let mut now = start;
    while now < end {
        now = wake(now, next, dice).min(end);
        let due = decide(rule, zone, start, last, now, policy)?;
        if dice.chance(15) {
            // Killed before the decision was recorded: it never was.
            tally.lost += 1;
            now = (now + nap(dice)).min(end);
            continue;
        }
        let open = slots[ended..].iter().take_while(|slot| **slot <= now).count();
        check(&due, &slots[ended..ended + open], now, policy)
            .map_err(|error| format!("from {last} to {now}: {error}\n{due:?}"))?;
        ended += open;
        tally.fired += u64::from(due.fire.is_some());
        tally.missed += due.missed_total();
        next = due.next.map(Timestamp::as_second);
        let expected = slots.get(ended).copied();
        // Beyond its end the model knows nothing.
        if next.filter(|slot| *slot <= end) != expected {
            return Err(format!("after {now} comes {next:?}, not {expected:?}"));
        }
        last = now;
        if dice.chance(10) {
            // Killed after: whoever comes next goes on from the record.
            now = (now + nap(dice)).min(end);
        }
    }
    let due = decide(rule, zone, start, last, end, policy)?;
    check(&due, &slots[ended..], end, policy)?;
    tally.fired += u64::from(due.fire.is_some());
    tally.missed += due.missed_total();
    if tally.fired + tally.missed != slots.len() as u64 {
        return Err(format!("{tally:?} do not make {} slots", slots.len()));
    }
    Ok(tally)
}

/// The next time the installation looks: when the slot is due, give or take, or after a nap.
fn wake(now: i64, next: Option<i64>, dice: &mut Dice) -> i64 {
    match next {
        Some(next) if dice.chance(60) => (next + dice.below(90) as i64).max(now + 1),
        Some(_) | None => now + nap(dice),
    }
}

/// From a second to some months, each order of magnitude as likely.
fn nap(dice: &mut Dice) -> i64 {
    let longest = 1 << dice.between(1, 23);
    1 + dice.below(longest) as i64
}

fn decide(
    rule: &Rule,
    zone: &str,
    anchor: i64,
    last: i64,
    now: i64,
    policy: MissedPolicy,
) -> Result<DueSlots, String> {
    let at = |second| Timestamp::from_second(second).map_err(|error| error.to_string());
    due_slots(rule, zone, at(anchor)?, at(last)?, at(now)?, policy)
        .map_err(|error| error.to_string())
}

/// Compares a decision with the slots that it was about.
fn check(due: &DueSlots, open: &[i64], now: i64, policy: MissedPolicy) -> Result<(), String> {
    let mut told = Vec::new();
    if let Some(row) = due.unlisted {
        let count = row.count as usize;
        let (first, last) = (row.first.as_second(), row.last.as_second());
        let Some(unlisted) = open.get(..count) else {
            return Err(format!("{count} unlisted of {} slots", open.len()));
        };
        if (unlisted.first(), unlisted.last()) != (Some(&first), Some(&last)) {
            return Err(format!("the unlisted slots are {unlisted:?}"));
        }
        told.extend(unlisted);
    }
    told.extend(due.missed.iter().map(|slot| slot.as_second()));
    told.extend(due.fire.map(Timestamp::as_second));
    if told != open {
        let mut text = String::from("differs from the model:");
        for (index, slot) in open.iter().enumerate() {
            if told.get(index) != Some(slot) {
                let _infallible = write!(text, " slot {index} is {slot}");
                break;
            }
        }
        return Err(format!("{text} ({} told, {} due)", told.len(), open.len()));
    }
    let on_time = open.last().is_some_and(|newest| now - newest <= 60);
    let fires = match policy {
        MissedPolicy::RunOnce => !open.is_empty(),
        MissedPolicy::Skip => on_time,
    };
    if fires != due.fire.is_some() {
        return Err(format!("fires: {:?}, on time: {on_time}", due.fire));
    }
    Ok(())
}

/// Whole runs for a seed: some expressions in every zone, each through one life, and an interval.
///
/// # Errors
///
/// Names the expression, the zone and what went wrong.
pub(crate) fn run(seed: u64, expressions: usize, years: (i64, i64)) -> Result<Tally, String> {
    let mut dice = Dice(seed);
    let mut total = Tally::default();
    let (start, end) = (start_of(years.0) * 60 - 1, start_of(years.1 + 1) * 60 - 1);
    let policy = |dice: &mut Dice| {
        if dice.chance(50) { MissedPolicy::RunOnce } else { MissedPolicy::Skip }
    };
    for zone in &ZONES {
        let made: Vec<Expression> =
            (0..expressions).map(|_| Expression::random(&mut dice)).collect();
        for (expression, due) in made.iter().zip(brute_force(zone, &made, years.0, years.1)) {
            let rule = Rule::Cron { expression: expression.text() };
            let slots: Vec<i64> = due.iter().map(|minute| minute * 60).collect();
            let policy = policy(&mut dice);
            let tally = live(&rule, zone.name, &slots, (start, end), policy, &mut dice).map_err(
                |error| {
                    format!(
                        "seed {seed}: `{}` in {}, {policy:?}: {error}",
                        expression.text(),
                        zone.name
                    )
                },
            )?;
            total.add(&tally);
        }
    }
    let seconds = dice.between(60, 400_000) as i64;
    let slots: Vec<i64> = (1..=(end - start) / seconds).map(|n| start + n * seconds).collect();
    let policy = policy(&mut dice);
    let every = Rule::Every { seconds };
    let tally = live(&every, "UTC", &slots, (start, end), policy, &mut dice)
        .map_err(|error| format!("seed {seed}: every {seconds} s, {policy:?}: {error}"))?;
    total.add(&tally);
    Ok(total)
}
