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
        what: "memory that an idle channel adds",
        from: ("chat", "/idle_mib"),
        unit: Unit::Mebibytes,
        goal: Some(Mark::Absolute(1.0)),
        ..BARE
    },
    Figure {
        id: "C1",
        what: "processor time that an idle channel adds, of one core",
        from: ("chat", "/idle_cpu_percent"),
        unit: Unit::Percent,
        ..BARE
    },
];
