//! Memory, size, starting, backups and the build.

use super::super::judge::{BARE, Figure, Mark, Unit};
use super::super::record::Over;

pub(super) const ALL: &[Figure] = &[
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
