//! Chat channels: how long a message is on its way, and what a channel costs on which nobody writes.

use super::super::judge::{BARE, Figure, Mark, Unit};
use super::super::record::Over;

pub(super) const ALL: &[Figure] = &[
    Figure {
        id: "C1",
        what: "told by Telegram until the model is asked, p50; the floor is the same over HTTP",
        from: ("chat", "/asked/p50_ms"),
        floor: Some(("chat", "/http/p50_ms")),
        ..BARE
    },
    Figure {
        id: "C1",
        what: "told by Telegram until the first words are seen, p50",
        from: ("chat", "/seen/p50_ms"),
        ..BARE
    },
    Figure {
        id: "C1",
        what: "the model's last word until the message that stays, p50",
        from: ("chat", "/stays/p50_ms"),
        ..BARE
    },
    Figure {
        id: "C1",
        what: "the model's last word until the message that stays, p99",
        from: ("chat", "/stays/p99_ms"),
        over: Over::Worst,
        ..BARE
    },
    Figure {
        id: "C1",
        what: "told by Signal until the model is asked, p50; the floor is the same over HTTP",
        from: ("chat", "/signal/asked/p50_ms"),
        floor: Some(("chat", "/http/p50_ms")),
        ..BARE
    },
    Figure {
        id: "C1",
        what: "the model's last word until the message on Signal, p50",
        from: ("chat", "/signal/stays/p50_ms"),
        ..BARE
    },
    Figure {
        id: "C1",
        what: "the model's last word until the message on Signal, p99",
        from: ("chat", "/signal/stays/p99_ms"),
        over: Over::Worst,
        ..BARE
    },
    Figure {
        id: "C1",
        what: "memory that two idle channels add",
        from: ("chat", "/idle_mib"),
        unit: Unit::Mebibytes,
        goal: Some(Mark::Absolute(2.0)),
        ..BARE
    },
    Figure {
        id: "C1",
        what: "processor time that two idle channels add, of one core",
        from: ("chat", "/idle_cpu_percent"),
        unit: Unit::Percent,
        ..BARE
    },
];
