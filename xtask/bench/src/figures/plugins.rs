//! Plugins on one machine: what a call costs, what one costs that waits, and what the model is told of them.

use super::super::judge::{BARE, Figure, Mark, Unit};
use super::super::record::Over;

pub(super) const ALL: &[Figure] = &[
    Figure {
        id: "P1",
        what: "bare spawn of the same script, p50",
        from: ("plugins", "/floor/p50_ms"),
        ..BARE
    },
    Figure {
        id: "P1",
        what: "warm call of a tool on one machine, p50",
        from: ("plugins", "/warm/p50_ms"),
        floor: Some(("plugins", "/floor/p50_ms")),
        ..BARE
    },
    Figure {
        id: "P1",
        what: "of it above the bare spawn",
        from: ("plugins", "/over_floor_ms"),
        needed: &[Mark::Absolute(8.0)],
        goal: Some(Mark::Absolute(3.0)),
        ..BARE
    },
    Figure {
        id: "P1",
        what: "warm call of a tool on one machine, p99",
        from: ("plugins", "/warm/p99_ms"),
        over: Over::Worst,
        ..BARE
    },
    Figure {
        id: "P1",
        what: "call from nothing, which makes the sandbox, p50",
        from: ("plugins", "/cold/p50_ms"),
        goal: Some(Mark::Absolute(150.0)),
        ..BARE
    },
    Figure {
        id: "P1",
        what: "memory of a plugin that waits, with all processes of its sandbox",
        from: ("plugins", "/closed_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        ..BARE
    },
    Figure {
        id: "P1",
        what: "the same of one with the internet",
        from: ("plugins", "/open_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        ..BARE
    },
    Figure {
        id: "P1",
        what: "what the model is told with a greeting, without a plugin",
        from: ("plugins", "/alone_kib"),
        unit: Unit::Kibibytes,
        ..BARE
    },
    Figure {
        id: "P1",
        what: "the same with twenty plugins of one tool each",
        from: ("plugins", "/with_all_kib"),
        unit: Unit::Kibibytes,
        ..BARE
    },
];
