//! Times as the model reads and writes them: in a zone, with the offset.

use crate::tool::ToolError;
use famulus_core::schedule::canonical_zone;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

/// The zone of a name, with the name as the database spells it.
pub(crate) fn zone(name: &str) -> Result<(TimeZone, String), ToolError> {
    let name = canonical_zone(name)?;
    let unknown = || famulus_core::schedule::RuleError::Zone { zone: name.clone() };
    let tz = TimeZone::get(&name).map_err(|_| unknown())?;
    Ok((tz, name))
}

/// RFC 3339 with the zone's offset, to the second. An unreadable zone shows UTC: the instant is
/// right all the same.
pub(crate) fn written(at: Timestamp, zone: &str) -> String {
    let tz = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    written_in(at, &tz)
}

pub(crate) fn written_in(at: Timestamp, tz: &TimeZone) -> String {
    at.to_zoned(tz.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Reads an instant: RFC 3339 with an offset, or a wall-clock time of the zone without one. A time
/// that a change of the clocks swallows is as much later; one that comes twice is the first.
pub(crate) fn read(text: &str, tz: &TimeZone) -> Result<Timestamp, ToolError> {
    let text = text.trim();
    let instant = text.parse::<Timestamp>().ok().or_else(|| {
        // A date alone is not a time.
        let civil: DateTime = text.contains(':').then(|| text.parse().ok()).flatten()?;
        tz.to_ambiguous_zoned(civil).compatible().ok().map(|zoned| zoned.timestamp())
    });
    instant
        // The store keeps microseconds.
        .and_then(|at| Timestamp::from_microsecond(at.as_microsecond()).ok())
        .ok_or_else(|| {
            ToolError::Call(format!(
                "`at` is `{text}`, which is not a time; write it like 2026-05-01T09:00:00+02:00, or without the offset for the schedule's zone"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_an_offset() {
        let (berlin, name) = zone("europe/berlin").unwrap();
        assert_eq!(name, "Europe/Berlin");
        let check = |text: &str, expected: &str| {
            assert_eq!(written_in(read(text, &berlin).unwrap(), &berlin), expected, "{text}");
        };
        check("2026-05-01T09:00:00Z", "2026-05-01T11:00:00+02:00");
        check("2026-05-01T09:00:00+05:45", "2026-05-01T05:15:00+02:00");
        check("2026-05-01T09:00", "2026-05-01T09:00:00+02:00");
        check(" 2026-05-01 09:00:00 ", "2026-05-01T09:00:00+02:00");
        check("2026-03-29T02:30", "2026-03-29T03:30:00+02:00");
        check("2026-10-25T02:30", "2026-10-25T02:30:00+02:00");
        for text in ["", "tomorrow", "2026-05-01", "09:00", "2026-02-30T09:00"] {
            assert!(read(text, &berlin).is_err(), "{text}");
        }
        assert_eq!(written(Timestamp::UNIX_EPOCH, "nowhere"), "1970-01-01T00:00:00+00:00");
        assert!(zone("Mars/Olympus").is_err());
    }
}
