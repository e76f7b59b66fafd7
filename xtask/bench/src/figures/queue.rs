//! The queue and turns: how long they take, how many there are in a second, what a stop costs.

use super::super::judge::{BARE, FLUSH, Figure, Mark, Unit};
use super::super::record::{Over, Source};
use super::{A_SECOND, NONE};

const HEARD: Source = ("floor", "/insert_to_listener/p50_ms");
const HEARD_P99: Source = ("floor", "/insert_to_listener/p99_ms");
const INSERTS: Source = ("floor", "/inserts_per_second/64");

pub(super) const ALL: &[Figure] = &[
    Figure { id: "floor", what: "fdatasync of 8 kB, p50", from: FLUSH, ..BARE },
    Figure {
        id: "floor",
        what: "round trip to Postgres (`select 1`), p50",
        from: ("floor", "/round_trip/p50_ms"),
        ..BARE
    },
    Figure { id: "floor", what: "INSERT with NOTIFY until heard, p50", from: HEARD, ..BARE },
    Figure {
        id: "floor",
        what: "INSERT with NOTIFY until heard, p99",
        from: HEARD_P99,
        over: Over::Worst,
        ..BARE
    },
    Figure {
        id: "floor",
        what: "durable single-row inserts, 1 writer",
        from: ("floor", "/inserts_per_second/1"),
        unit: Unit::PerSecond,
        ..BARE
    },
    Figure {
        id: "floor",
        what: "durable single-row inserts, 64 writers",
        from: INSERTS,
        unit: Unit::PerSecond,
        ..BARE
    },
    Figure {
        id: "Q1",
        what: "accepted to turn begun, one process, p50",
        from: ("pickup", "/picked_up/p50_ms"),
        floor: Some(HEARD),
        peer: Some(("peer pickup", "/picked_up/p50_ms")),
        needed: &[Mark::Floor(2.0), Mark::Peer(1.0)],
        goal: Some(Mark::Flushes(1.0, 1.0)),
        ..BARE
    },
    Figure {
        id: "Q1",
        what: "accepted to turn begun, one process, p99",
        from: ("pickup", "/picked_up/p99_ms"),
        over: Over::Worst,
        floor: Some(HEARD_P99),
        peer: Some(("peer pickup", "/picked_up/p99_ms")),
        goal: Some(Mark::Flushes(12.0, 0.0)),
        ..BARE
    },
    Figure {
        id: "Q1",
        what: "accepted to turn begun in another process, p50",
        from: ("pickup elsewhere", "/picked_up/p50_ms"),
        floor: Some(HEARD),
        ..BARE
    },
    Figure {
        id: "Q1",
        what: "accepted to turn begun in another process, p99",
        from: ("pickup elsewhere", "/picked_up/p99_ms"),
        over: Over::Worst,
        floor: Some(HEARD_P99),
        ..BARE
    },
    Figure {
        id: "Q1",
        what: "accepted to acknowledged, p50",
        from: ("pickup", "/accepted/p50_ms"),
        floor: Some(HEARD),
        ..BARE
    },
    Figure {
        id: "Q2",
        what: "whole turns (accept, turn loop, instant model, reply stored)",
        from: ("turns", "/per_second"),
        unit: Unit::PerSecond,
        floor: Some(INSERTS),
        peer: Some(("peer live", "/per_second")),
        goal: Some(Mark::Peer(1.0)),
        ..BARE
    },
    Figure {
        id: "Q2",
        what: "the peer's, one job per call",
        from: ("peer live", "/per_second"),
        unit: Unit::PerSecond,
        floor: Some(INSERTS),
        ..BARE
    },
    Figure {
        id: "Q2",
        what: "the peer's, 100 jobs per call",
        from: ("peer batched", "/per_second"),
        unit: Unit::PerSecond,
        floor: Some(INSERTS),
        ..BARE
    },
    Figure {
        id: "Q2",
        what: "ceiling of door and lanes (a worker of the benchmark settles 128 at a time)",
        from: ("lifecycles", "/per_second"),
        unit: Unit::PerSecond,
        floor: Some(INSERTS),
        ..BARE
    },
    Figure {
        id: "Q5",
        what: "transactions of two idle instances, 10,000 conversations",
        from: ("idle", "/per_second"),
        over: Over::Worst,
        unit: Unit::PerSecond,
        goal: Some(Mark::Absolute(2.0)),
        ..BARE
    },
    Figure {
        id: "Q5",
        what: "the next message after it, accepted to turn begun, p50",
        from: ("idle", "/picked_up_afterwards/p50_ms"),
        floor: Some(HEARD),
        goal: Some(Mark::Flushes(1.0, 1.0)),
        ..BARE
    },
    Figure {
        id: "Q6",
        what: "accepted to turn begun before the flood, p99",
        from: ("fairness", "/before/p99_ms"),
        over: Over::Worst,
        floor: Some(HEARD_P99),
        ..BARE
    },
    Figure {
        id: "Q6",
        what: "while 50,000 messages of another conversation come in, p99",
        from: ("fairness", "/while_dumping/p99_ms"),
        over: Over::Worst,
        floor: Some(HEARD_P99),
        ..BARE
    },
    Figure {
        id: "Q6",
        what: "while they wait, p99",
        from: ("fairness", "/behind_the_backlog/p99_ms"),
        over: Over::Worst,
        floor: Some(HEARD_P99),
        ..BARE
    },
    Figure {
        id: "Q6",
        what: "rise of the p99 while they wait",
        from: ("fairness", "/rise_ms"),
        goal: Some(Mark::Absolute(1.0)),
        ..BARE
    },
    Figure {
        id: "Q4",
        what: "processes killed while people talk",
        from: ("deaths", "/kills"),
        unit: Unit::Count,
        goal: Some(Mark::Least(10_000.0)),
        ..BARE
    },
    Figure {
        id: "Q4",
        what: "messages acknowledged meanwhile",
        from: ("deaths", "/messages"),
        unit: Unit::Count,
        ..BARE
    },
    Figure {
        id: "Q4",
        what: "messages lost, or answered out of order",
        from: ("deaths", "/lost"),
        over: Over::Worst,
        unit: Unit::Count,
        needed: &[NONE],
        ..BARE
    },
    Figure {
        id: "Q4",
        what: "effects doubled",
        from: ("deaths", "/doubled"),
        over: Over::Worst,
        unit: Unit::Count,
        needed: &[NONE],
        ..BARE
    },
    Figure {
        id: "stop",
        what: "stop sent to the process that runs the turn, until the turn's last effect, p50",
        from: ("stop", "/same/p50_ms"),
        ..BARE
    },
    Figure {
        id: "stop",
        what: "stop sent to the process that runs the turn, until the turn's last effect, p99",
        from: ("stop", "/same/p99_ms"),
        over: Over::Worst,
        needed: &[A_SECOND],
        ..BARE
    },
    Figure {
        id: "stop",
        what: "stop sent to another process, until the turn's last effect, p50",
        from: ("stop", "/other/p50_ms"),
        ..BARE
    },
    Figure {
        id: "stop",
        what: "stop sent to another process, until the turn's last effect, p99",
        from: ("stop", "/other/p99_ms"),
        over: Over::Worst,
        needed: &[A_SECOND],
        ..BARE
    },
];
