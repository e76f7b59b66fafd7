//! What is published of the measurements, and what it is held against. A new figure is a line here.

use super::judge::{BARE, FLUSH, Figure, Mark, Unit};
use super::record::{Over, Source};

const HEARD: Source = ("floor", "/insert_to_listener/p50_ms");
const HEARD_P99: Source = ("floor", "/insert_to_listener/p99_ms");
const INSERTS: Source = ("floor", "/inserts_per_second/64");

/// Of what must not happen.
const NONE: Mark = Mark::Absolute(0.0);
/// In milliseconds.
const A_SECOND: Mark = Mark::Absolute(1_000.0);

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
        what: "deaths of processes and database sessions while people talk",
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
    Figure {
        id: "F1",
        what: "memory of an idle server with 10,000 conversations and all its sessions",
        from: ("footprint", "/idle/pss_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        needed: &[Mark::Absolute(40.0)],
        goal: Some(Mark::Absolute(12.0)),
        ..BARE
    },
    Figure {
        id: "F1",
        what: "of it written by the process (heap, stacks)",
        from: ("footprint", "/idle/anonymous_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        ..BARE
    },
    Figure {
        id: "F1",
        what: "of it pages of the program and its libraries",
        from: ("footprint", "/idle/file_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        ..BARE
    },
    Figure {
        id: "F2",
        what: "turns worked, before 1,000 streams and 30 quiet seconds",
        from: ("used", "/turns"),
        unit: Unit::Count,
        ..BARE
    },
    Figure {
        id: "F2",
        what: "memory after them",
        from: ("used", "/quiet/pss_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        goal: Some(Mark::Absolute(20.0)),
        ..BARE
    },
    Figure {
        id: "F2",
        what: "of it written by the process (heap, stacks)",
        from: ("used", "/quiet/anonymous_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        ..BARE
    },
    Figure {
        id: "F3",
        what: "the program, stripped",
        from: ("size", "/mib"),
        unit: Unit::Mebibytes,
        goal: Some(Mark::Absolute(12.0)),
        ..BARE
    },
    Figure {
        id: "F4",
        what: "exec until `/readyz` says 200, schema current, p50",
        from: ("start", "/ready/p50_ms"),
        goal: Some(Mark::Absolute(40.0)),
        ..BARE
    },
    Figure {
        id: "F4",
        what: "exec until `/readyz` says 200, schema current, p99",
        from: ("start", "/ready/p99_ms"),
        over: Over::Worst,
        goal: Some(Mark::Absolute(40.0)),
        ..BARE
    },
    Figure {
        id: "F5",
        what: "processor time of an idle server, of one core",
        from: ("footprint", "/cpu_percent"),
        over: Over::Worst,
        unit: Unit::Percent,
        goal: Some(Mark::Absolute(0.1)),
        ..BARE
    },
    Figure {
        id: "backup",
        what: "`famulus backup` of 1 GB of files, encrypted and read back; the floor is `pg_dump -Fc`",
        from: ("backup", "/seconds"),
        unit: Unit::Seconds,
        floor: Some(("backup", "/floor_seconds")),
        goal: Some(Mark::Floor(1.2)),
        ..BARE
    },
    Figure {
        id: "backup",
        what: "most memory that it had at once",
        from: ("backup", "/peak_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        goal: Some(Mark::Absolute(64.0)),
        ..BARE
    },
    Figure {
        id: "backup",
        what: "`famulus restore` of it on empty data, until the new database answered",
        from: ("backup", "/restore/seconds"),
        unit: Unit::Seconds,
        goal: Some(Mark::Absolute(60.0)),
        ..BARE
    },
    Figure {
        id: "backup",
        what: "message due to turn begun, 20/s, during one; the floor is without one, p99",
        from: ("backup", "/load/begun/p99_ms"),
        floor: Some(("backup", "/load/quiet/p99_ms")),
        goal: Some(Mark::Floor(1.5)),
        ..BARE
    },
    Figure {
        id: "backup-large",
        what: "`famulus backup` of 10 GB of files, encrypted and read back; the floor is `pg_dump -Fc`",
        from: ("large backup", "/seconds"),
        unit: Unit::Seconds,
        floor: Some(("large backup", "/floor_seconds")),
        goal: Some(Mark::Floor(1.2)),
        ..BARE
    },
    Figure {
        id: "backup-large",
        what: "most memory that it had at once",
        from: ("large backup", "/peak_mib"),
        over: Over::Worst,
        unit: Unit::Mebibytes,
        goal: Some(Mark::Absolute(64.0)),
        ..BARE
    },
    Figure {
        id: "backup-large",
        what: "`famulus restore` of it on empty data, until the new database answered",
        from: ("large backup", "/restore/seconds"),
        unit: Unit::Seconds,
        ..BARE
    },
    Figure {
        id: "build",
        what: "clean release build of `famulus`",
        from: ("build", "/seconds"),
        unit: Unit::Seconds,
        goal: Some(Mark::Absolute(300.0)),
        ..BARE
    },
];
