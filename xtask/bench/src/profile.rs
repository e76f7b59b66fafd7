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
    /// An object of KiB by name.
    from: Source,
}

const PROFILES: [Profile; 3] = [
    Profile { id: "F1", what: "memory by mapping", from: ("footprint", "/by_mapping_kib") },
    Profile { id: "F2", what: "memory by mapping", from: ("used", "/by_mapping_kib") },
    Profile { id: "F3", what: "the program by section", from: ("size", "/sections_kib") },
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
            rest: found.map(|found| format!("{when}): {}", parts(found))),
        }
    };
    PROFILES.iter().map(line).collect()
}

fn parts(found: &Value) -> String {
    let fields = found.as_object().into_iter().flatten();
    let mut parts: Vec<(&str, f64)> =
        fields.filter_map(|(name, kib)| Some((name.as_str(), kib.as_f64()?))).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let largest = parts.first().map_or(0.0, |part| part.1);
    let named = parts.iter().filter(|part| part.1 >= largest * LEAST);
    named.map(|(name, kib)| format!("`{name}` {kib:.0} KiB")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_largest_part_comes_first_and_crumbs_are_left_out() {
        let found = json!({"a": 1.0, "b": 300.0, "c": 9.6});
        assert_eq!(parts(&found), "`b` 300 KiB, `c` 10 KiB");
    }
}
