//! Where a figure comes from: the parts that a measurement found, largest first.

use serde_json::Value;

use super::plan::Measurement;
use super::record::{Record, Source};

/// Parts smaller than this share of the largest are not named.
const LEAST: f64 = 0.02;

struct Profile {
    /// Of the benchmark.
    id: &'static str,
    what: &'static str,
    /// An object of numbers by name.
    from: Source,
    /// Of the numbers.
    unit: &'static str,
}

const PROFILES: [Profile; 5] = [
    Profile {
        id: "Q2",
        what: "whole turns, share of a turn's time",
        from: ("turns", "/turn_percent"),
        unit: "%",
    },
    Profile {
        id: "Q2",
        what: "whole turns, share of what sessions do",
        from: ("turns", "/where_percent"),
        unit: "%",
    },
    Profile {
        id: "F1",
        what: "memory by mapping",
        from: ("footprint", "/by_mapping_kib"),
        unit: "KiB",
    },
    Profile { id: "F2", what: "memory by mapping", from: ("used", "/by_mapping_kib"), unit: "KiB" },
    Profile {
        id: "F3",
        what: "the program by section",
        from: ("size", "/sections_kib"),
        unit: "KiB",
    },
];

/// A line of the list; without parts when it was not measured now.
pub(super) struct Parts {
    pub(super) begins: String,
    pub(super) rest: Option<String>,
}

/// All profiles, those that were measured now with what was found in the last run.
pub(super) fn list(
    record: &Record,
    measurements: &[&Measurement],
    today: &str,
    quick: bool,
) -> Vec<Parts> {
    let line = |profile: &Profile| {
        let measured = measurements.iter().any(|one| one.name == profile.from.0);
        let found = record.last(profile.from).filter(|_| measured);
        let when = if quick { format!("{today}, quick") } else { today.to_owned() };
        Parts {
            begins: format!("- {}, {} (", profile.id, profile.what),
            rest: found.map(|found| format!("{when}): {}", parts(found, profile.unit))),
        }
    };
    PROFILES.iter().map(line).collect()
}

fn parts(found: &Value, unit: &str) -> String {
    let fields = found.as_object().into_iter().flatten();
    let mut parts: Vec<(&str, f64)> =
        fields.filter_map(|(name, size)| Some((name.as_str(), size.as_f64()?))).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let largest = parts.first().map_or(0.0, |part| part.1);
    let named = parts.iter().filter(|part| part.1 >= largest * LEAST);
    named.map(|(name, size)| format!("`{name}` {size:.0} {unit}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::plan::MEASUREMENTS;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_largest_part_comes_first_and_crumbs_are_left_out() {
        let found = json!({"a": 1.0, "b": 300.0, "c": 9.6});
        assert_eq!(parts(&found, "KiB"), "`b` 300 KiB, `c` 10 KiB");
    }

    #[test]
    fn shares_of_whole_turns_are_told_in_percent() {
        let shares = json!({"waiting for the log": 61.4, "commit": 38.6});
        let found = json!({"where_percent": shares, "turn_percent": {"take up": 100.0}});
        let record = Record::of(&[("turns", found)]);
        let measured: Vec<&Measurement> = MEASUREMENTS.iter().collect();
        let lines = list(&record, &measured, "2026-11-24", false);
        let rest = |begins: &str| {
            let line = lines.iter().find(|line| line.begins.starts_with(begins)).unwrap();
            line.rest.clone().unwrap()
        };
        assert_eq!(
            rest("- Q2, whole turns, share of what sessions do ("),
            "2026-11-24): `waiting for the log` 61 %, `commit` 39 %"
        );
        assert_eq!(
            rest("- Q2, whole turns, share of a turn's time ("),
            "2026-11-24): `take up` 100 %"
        );
    }
}
