//! A figure: its unit, what it is held against, and the line of the table that comes of both.

use super::plan::Measurement;
use super::record::{Over, Record, Source};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
    PerSecond,
    Kibibytes,
    Mebibytes,
    Percent,
    Count,
}

/// What a figure must or should be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// At most (for what is small when good) or at least so many times the floor.
    Floor(f64),
    /// The same for the peer.
    Peer(f64),
    /// In the figure's own unit.
    Absolute(f64),
    /// The same for what must not be less.
    Least(f64),
    /// At most so many flushes of the same run, and so many milliseconds more.
    Flushes(f64, f64),
}

/// What is published of a measurement.
pub(super) struct Figure {
    /// Of the benchmark.
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) from: Source,
    pub(super) over: Over,
    pub(super) unit: Unit,
    pub(super) floor: Option<Source>,
    pub(super) peer: Option<Source>,
    /// Without these the work is not done.
    pub(super) needed: &'static [Mark],
    pub(super) goal: Option<Mark>,
}

/// What a mark of flushes is counted in.
pub(super) const FLUSH: Source = ("floor", "/fdatasync/p50_ms");

/// A figure that nothing is said of.
pub(super) const BARE: Figure = Figure {
    id: "",
    what: "",
    from: ("", ""),
    over: Over::Median,
    unit: Unit::Milliseconds,
    floor: None,
    peer: None,
    needed: &[],
    goal: None,
};

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    /// Figure, × floor, × peer, goal, verdict, when, command; `None` when it was not measured now.
    pub(super) cells: Option<[String; 7]>,
    pub(super) needed_missed: bool,
}

/// All figures, those that were measured now with their values.
pub(super) fn table(
    figures: impl Iterator<Item = &'static Figure>,
    record: &Record,
    measurements: &[&Measurement],
    today: String,
    quick: bool,
) -> Vec<Row> {
    let measured = |figure: &Figure| measurements.iter().any(|one| one.name == figure.from.0);
    let row = |figure: &Figure| {
        let value = record.figure(figure.from, figure.over).filter(|_| measured(figure));
        let Some(value) = value else {
            let Figure { id, what, .. } = *figure;
            return Row { id, what, cells: None, needed_missed: false };
        };
        let runs = record.runs(figure.from.0);
        let when = match (quick, runs) {
            (true, _) => format!("{today}, quick"),
            (false, 1) => format!("{today}, 1 run"),
            (false, _) => format!("{today}, {runs} runs"),
        };
        figure.row(&Values::of(figure, value, record), when)
    };
    figures.map(row).collect()
}

struct Values {
    value: f64,
    floor: Option<f64>,
    peer: Option<f64>,
    flush: Option<f64>,
}

impl Values {
    fn of(figure: &Figure, value: f64, record: &Record) -> Self {
        let beside = |source: Option<Source>| record.figure(source?, figure.over);
        Self {
            value,
            floor: beside(figure.floor),
            peer: beside(figure.peer),
            flush: record.figure(FLUSH, Over::Median),
        }
    }
}

impl Figure {
    fn row(&self, values: &Values, when: String) -> Row {
        let times = |other: Option<f64>| {
            other.map_or_else(
                || "–".to_owned(),
                |other| format!("{} ×", short(values.value / other)),
            )
        };
        let (verdict, needed_missed) = self.verdict(values);
        let cells = [
            self.unit.show(values.value),
            times(values.floor),
            times(values.peer),
            self.wanted(),
            verdict,
            when,
            format!("`cargo xtask bench {}`", self.id.to_lowercase()),
        ];
        Row { id: self.id, what: self.what, cells: Some(cells), needed_missed }
    }

    fn wanted(&self) -> String {
        let mut parts = Vec::new();
        if !self.needed.is_empty() {
            let marks: Vec<String> = self.needed.iter().map(|mark| self.describe(*mark)).collect();
            parts.push(format!("needed {}", marks.join(" and ")));
        }
        parts.extend(self.goal.map(|mark| format!("goal {}", self.describe(mark))));
        if parts.is_empty() { "–".to_owned() } else { parts.join("; ") }
    }

    fn describe(&self, mark: Mark) -> String {
        let sign =
            if self.unit == Unit::PerSecond && self.is_rate_to_raise() { "≥" } else { "≤" };
        match mark {
            Mark::Floor(times) => format!("{sign} {} × floor", short(times)),
            Mark::Peer(times) => format!("{sign} {} × peer", short(times)),
            Mark::Absolute(value) if value == 0.0 => self.unit.show(value),
            Mark::Absolute(value) => format!("{sign} {}", self.unit.show(value)),
            Mark::Least(value) => format!("≥ {}", self.unit.show(value)),
            Mark::Flushes(times, plus) if plus > 0.0 => {
                format!("{sign} {} fdatasync + {} ms", short(times), short(plus))
            }
            Mark::Flushes(times, _) => format!("{sign} {} fdatasync", short(times)),
        }
    }

    /// A rate is good when it is high, unless the worst of it counts.
    fn is_rate_to_raise(&self) -> bool {
        self.over == Over::Median
    }

    fn verdict(&self, values: &Values) -> (String, bool) {
        let needed: Vec<Option<bool>> =
            self.needed.iter().map(|mark| self.holds(*mark, values)).collect();
        let needed_missed = needed.contains(&Some(false));
        let verdict = if needed_missed {
            "**needed: missed**".to_owned()
        } else if needed.contains(&None) {
            "not judged".to_owned()
        } else {
            let met = if self.needed.is_empty() { "" } else { "needed: met; " };
            match self.goal.map(|mark| self.holds(mark, values)) {
                Some(Some(true)) => format!("{met}goal: met"),
                Some(Some(false)) => format!("{met}goal: **missed**"),
                Some(None) => "not judged".to_owned(),
                None if self.needed.is_empty() => "–".to_owned(),
                None => "needed: met".to_owned(),
            }
        };
        (verdict, needed_missed)
    }

    /// `None` when what it is held against was not measured.
    fn holds(&self, mark: Mark, values: &Values) -> Option<bool> {
        let bound = match mark {
            Mark::Floor(times) => times * values.floor?,
            Mark::Peer(times) => times * values.peer?,
            Mark::Absolute(value) => value,
            Mark::Least(value) => return Some(values.value >= value),
            Mark::Flushes(times, plus) => times * values.flush? + plus,
        };
        let raise = self.unit == Unit::PerSecond && self.is_rate_to_raise();
        Some(if raise { values.value >= bound } else { values.value <= bound })
    }
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Milliseconds => format!("{} ms", short(value)),
            Self::Seconds => format!("{} s", short(value)),
            Self::PerSecond => format!("{}/s", short(value)),
            Self::Kibibytes => format!("{} KiB", short(value)),
            Self::Mebibytes => format!("{} MiB", short(value)),
            Self::Percent => format!("{} %", precise(value)),
            Self::Count => short(value),
        }
    }
}

/// Three decimals, because what is wanted of a share is a tenth of a percent.
fn precise(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Three digits at least, and commas between thousands.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1000.0 {
        let whole = value.round() as i64;
        return format!("{},{:03}", whole / 1000, whole.abs() % 1000);
    }
    let digits = match magnitude {
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures;
    use super::super::plan::MEASUREMENTS;
    use super::*;
    use serde_json::{Value, json};

    fn rows(results: &[(&'static str, Value)]) -> Vec<Row> {
        let measured: Vec<&Measurement> = MEASUREMENTS.iter().collect();
        table(figures::all(), &Record::of(results), &measured, "2026-11-21".to_owned(), false)
    }

    fn floor() -> (&'static str, Value) {
        let heard = json!({"p50_ms": 1.0, "p99_ms": 4.0});
        let inserts = json!({"1": 300.0, "64": 8000.0});
        let floor = json!({"fdatasync": {"p50_ms": 0.5}, "round_trip": {"p50_ms": 0.05},
            "insert_to_listener": heard, "inserts_per_second": inserts});
        ("floor", floor)
    }

    #[test]
    fn a_figure_is_judged_by_floor_and_peer() {
        let check = |ours: f64, peer: Option<f64>, verdict: &str| {
            let mut results =
                vec![floor(), ("pickup", json!({"picked_up": {"p50_ms": ours, "p99_ms": 5.0}}))];
            results.extend(peer.map(|p50| ("peer pickup", json!({"picked_up": {"p50_ms": p50}}))));
            let rows = rows(&results);
            let row = rows.iter().find(|row| row.id == "Q1").unwrap();
            let cells = row.cells.as_ref().unwrap();
            assert_eq!(cells[4], verdict, "{cells:?}");
            assert_eq!(row.needed_missed, verdict.contains("needed: missed"));
            cells.clone()
        };
        let cells = check(1.4, Some(2.0), "needed: met; goal: met");
        assert_eq!(cells[..3], ["1.4 ms", "1.4 ×", "0.7 ×"]);
        assert_eq!(cells[3], "needed ≤ 2 × floor and ≤ 1 × peer; goal ≤ 1 fdatasync + 1 ms");
        assert_eq!(cells[5..], ["2026-11-21, 1 run", "`cargo xtask bench q1`"]);
        check(1.6, Some(2.0), "needed: met; goal: **missed**");
        check(1.6, Some(1.5), "**needed: missed**");
        check(2.1, Some(3.0), "**needed: missed**");
        check(2.1, None, "**needed: missed**");
        check(1.4, None, "not judged");
    }

    #[test]
    fn a_rate_is_good_when_it_is_high() {
        let check = |ours: f64, peer: f64, verdict: &str| {
            let rate = |value: f64| json!({"per_second": value});
            let rows = rows(&[floor(), ("turns", rate(ours)), ("peer live", rate(peer))]);
            // What is held against the peer comes first.
            let row = rows.iter().find(|row| row.id == "Q2").unwrap();
            assert!(row.what.starts_with("whole turns"), "{}", row.what);
            let cells = row.cells.as_ref().unwrap();
            assert_eq!((cells[3].as_str(), cells[4].as_str()), ("goal ≥ 1 × peer", verdict));
            cells[2].clone()
        };
        assert_eq!(check(1000.0, 2000.0, "goal: **missed**"), "0.5 ×");
        assert_eq!(check(2000.0, 2000.0, "goal: met"), "1 ×");
    }

    #[test]
    fn a_ceiling_that_the_product_does_not_reach_is_held_against_no_peer() {
        let rate = |value: f64| json!({"per_second": value});
        let rows = rows(&[floor(), ("lifecycles", rate(5000.0)), ("peer live", rate(1000.0))]);
        let row = rows.iter().find(|row| row.what.starts_with("ceiling of door")).unwrap();
        let cells = row.cells.as_ref().unwrap();
        assert_eq!(cells[2..5], ["–", "–", "–"]);
    }

    #[test]
    fn idle_transactions_are_good_when_they_are_few() {
        let rows = rows(&[("idle", json!({"per_second": 2.5}))]);
        let row = rows.iter().find(|row| row.id == "Q5").unwrap();
        let cells = row.cells.as_ref().unwrap();
        assert_eq!((cells[3].as_str(), cells[4].as_str()), ("goal ≤ 2/s", "goal: **missed**"));
    }

    #[test]
    fn a_count_is_held_against_what_it_must_reach() {
        let check = |kills: u32, lost: u32, verdicts: [&str; 2]| {
            let rows = rows(&[("deaths", json!({"kills": kills, "messages": 9, "lost": lost}))]);
            let verdict = |what: &str| {
                let row = rows.iter().find(|row| row.what.starts_with(what)).unwrap();
                row.cells.as_ref().unwrap()[4].clone()
            };
            assert_eq!([verdict("processes killed"), verdict("messages lost")], verdicts);
        };
        check(10_000, 0, ["goal: met", "needed: met"]);
        check(9_999, 1, ["goal: **missed**", "**needed: missed**"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(precise(0.0421), "0.042");
        assert_eq!(precise(0.1), "0.1");
        let table =
            [(0.1234, "0.12"), (2.0, "2"), (12.34, "12.3"), (123.4, "123"), (12_345.6, "12,346")];
        for (value, expected) in table {
            assert_eq!(short(value), expected);
        }
    }
}
