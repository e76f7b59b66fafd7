//! Viewers: how many there may be, and what they cost each other.

use super::super::judge::{BARE, Figure, Mark, Unit};
use super::super::record::Over;
use super::NONE;

pub(super) const ALL: &[Figure] = &[
    Figure {
        id: "S1",
        what: "idle viewers, each of a conversation of its own",
        from: ("viewers", "/viewers"),
        unit: Unit::Count,
        ..BARE
    },
    Figure {
        id: "S1",
        what: "memory for each of them",
        from: ("viewers", "/kib_each"),
        over: Over::Worst,
        unit: Unit::Kibibytes,
        goal: Some(Mark::Absolute(8.0)),
        ..BARE
    },
    Figure {
        id: "S2",
        what: "a word of the model until the first of 1,000 viewers has it, p50",
        from: ("token", "/first_viewer/p50_ms"),
        ..BARE
    },
    Figure {
        id: "S2",
        what: "until the last of them has it, p50",
        from: ("token", "/last_viewer/p50_ms"),
        ..BARE
    },
    Figure {
        id: "S2",
        what: "until the last of them has it, p99",
        from: ("token", "/last_viewer/p99_ms"),
        over: Over::Worst,
        goal: Some(Mark::Absolute(10.0)),
        ..BARE
    },
    Figure {
        id: "S3",
        what: "streams watched while processes and sessions die, ten at each of 100 deaths",
        from: ("streams", "/trials"),
        unit: Unit::Count,
        goal: Some(Mark::Least(1_000.0)),
        ..BARE
    },
    Figure {
        id: "S3",
        what: "streams with a character missing",
        from: ("streams", "/lost"),
        over: Over::Worst,
        unit: Unit::Count,
        needed: &[NONE],
        ..BARE
    },
    Figure {
        id: "S3",
        what: "streams with a character doubled",
        from: ("streams", "/doubled"),
        over: Over::Worst,
        unit: Unit::Count,
        needed: &[NONE],
        ..BARE
    },
    Figure {
        id: "S4",
        what: "memory for a viewer that never reads a fast stream",
        from: ("stuck", "/kib_each"),
        over: Over::Worst,
        unit: Unit::Kibibytes,
        goal: Some(Mark::Absolute(64.0)),
        ..BARE
    },
    Figure {
        id: "S4",
        what: "a word until each of 100 others has it, without one that never reads, p99",
        from: ("stuck", "/alone/p99_ms"),
        ..BARE
    },
    Figure {
        id: "S4",
        what: "the same beside one that never reads, p99",
        from: ("stuck", "/beside_one/p99_ms"),
        ..BARE
    },
    Figure {
        id: "S4",
        what: "the same beside 200 that never read, p99",
        from: ("stuck", "/beside_many/p99_ms"),
        ..BARE
    },
];
