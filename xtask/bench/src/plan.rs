//! What is measured, in the order in which it runs. A new measurement is a line here.

use anyhow::{Result, bail};

/// What is run for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Bench(Bench),
    /// graphile-worker.
    Peer,
    /// cargo, on an empty target folder.
    CleanBuild,
}

/// A bench target of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bench {
    pub(super) package: &'static str,
    pub(super) target: &'static str,
    /// Of the package, with commas.
    pub(super) features: &'static str,
    /// The programs that it starts as they are released: the first, and what stands beside it.
    pub(super) starts: &'static [Released],
}

/// A program of a release: its package and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Released(pub(super) &'static str, pub(super) &'static str);

pub(super) const FAMULUS: Released = Released("famulus-server", "famulus");
const RUNNER: Released = Released("famulus-runner", "famulus-runner");

/// How often a measurement runs in a full benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Often {
    EveryRun,
    /// Long enough, or without any noise that more runs would even out.
    Once,
    /// Once, and only when it is named.
    Asked,
}

/// How much is measured, in a full and in a quick run; preparing and checking come on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Seconds(u64, u64),
    /// Of what the measurement counts.
    Count(u64, u64),
}

#[derive(Debug)]
pub(super) struct Measurement {
    /// Unique here; figures refer to it.
    pub(super) name: &'static str,
    pub(super) program: Program,
    /// The program's own word for it.
    pub(super) asks: &'static str,
    /// The benchmarks that need it.
    pub(super) serves: &'static [&'static str],
    pub(super) extent: Extent,
    pub(super) often: Often,
}

const STORE: Measurement = Measurement {
    name: "",
    program: Program::Bench(Bench {
        package: "famulus-store",
        target: "durable",
        features: "",
        starts: &[],
    }),
    asks: "",
    serves: &[],
    extent: Extent::Seconds(15, 5),
    often: Often::EveryRun,
};

const PEER: Measurement = Measurement { program: Program::Peer, ..STORE };

const SERVED: Measurement = Measurement {
    program: Program::Bench(Bench {
        package: "famulus-server",
        target: "served",
        features: "",
        starts: &[FAMULUS],
    }),
    ..STORE
};

/// With the program that runs plugins beside it.
const WITH_RUNNER: Measurement = Measurement {
    program: Program::Bench(Bench {
        package: "famulus-server",
        target: "served",
        features: "",
        starts: &[FAMULUS, RUNNER],
    }),
    ..STORE
};

const KILLS: Measurement = Measurement {
    program: Program::Bench(Bench {
        package: "famulus-server",
        target: "kills",
        features: "harness",
        starts: &[],
    }),
    often: Often::Once,
    ..STORE
};

pub(super) const MEASUREMENTS: &[Measurement] = &[
    Measurement {
        name: "floor",
        asks: "floor",
        serves: &["floor", "q1", "q2", "q5", "q6"],
        extent: Extent::Seconds(10, 4),
        ..STORE
    },
    Measurement { name: "pickup", asks: "pickup", serves: &["q1"], ..STORE },
    Measurement { name: "peer pickup", asks: "pickup", serves: &["q1"], ..PEER },
    Measurement { name: "pickup elsewhere", asks: "pickup-elsewhere", serves: &["q1"], ..STORE },
    Measurement {
        name: "lifecycles",
        asks: "lifecycles",
        serves: &["q2"],
        extent: Extent::Seconds(15, 6),
        ..STORE
    },
    Measurement {
        name: "peer live",
        asks: "live",
        serves: &["q2"],
        extent: Extent::Seconds(15, 6),
        ..PEER
    },
    Measurement {
        name: "peer batched",
        asks: "batched",
        serves: &["q2"],
        extent: Extent::Seconds(8, 6),
        ..PEER
    },
    Measurement {
        name: "turns",
        asks: "turns",
        serves: &["q2"],
        extent: Extent::Seconds(15, 6),
        ..STORE
    },
    Measurement {
        name: "idle",
        asks: "idle",
        serves: &["q5"],
        extent: Extent::Seconds(30, 10),
        ..STORE
    },
    Measurement { name: "fairness", asks: "fairness", serves: &["q6"], ..STORE },
    Measurement {
        name: "stop",
        asks: "stop",
        serves: &["stop"],
        extent: Extent::Count(200, 20),
        ..SERVED
    },
    Measurement {
        name: "viewers",
        asks: "viewers",
        serves: &["s1"],
        extent: Extent::Count(15_000, 2_000),
        ..SERVED
    },
    Measurement {
        name: "token",
        asks: "token",
        serves: &["s2"],
        extent: Extent::Count(1_000, 200),
        ..SERVED
    },
    Measurement {
        name: "stuck",
        asks: "stuck",
        serves: &["s4"],
        extent: Extent::Seconds(15, 6),
        ..SERVED
    },
    Measurement {
        name: "chat",
        asks: "chat",
        serves: &["c1"],
        extent: Extent::Count(60, 20),
        often: Often::Once,
        ..SERVED
    },
    Measurement {
        name: "plugins",
        asks: "plugins",
        serves: &["p1"],
        extent: Extent::Count(500, 50),
        ..WITH_RUNNER
    },
    Measurement {
        name: "footprint",
        asks: "footprint",
        serves: &["f1", "f5"],
        extent: Extent::Seconds(60, 20),
        ..SERVED
    },
    Measurement {
        name: "used",
        asks: "used",
        serves: &["f2"],
        extent: Extent::Count(100_000, 2_000),
        often: Often::Once,
        ..SERVED
    },
    Measurement {
        name: "size",
        asks: "size",
        serves: &["f3"],
        extent: Extent::Count(1, 1),
        often: Often::Once,
        ..SERVED
    },
    Measurement {
        name: "start",
        asks: "start",
        serves: &["f4"],
        extent: Extent::Count(100, 50),
        ..SERVED
    },
    Measurement {
        name: "streams",
        asks: "streams",
        serves: &["kills", "s3"],
        extent: Extent::Count(1_000, 20),
        ..KILLS
    },
    Measurement {
        name: "deaths",
        asks: "deaths",
        serves: &["kills", "q4"],
        extent: Extent::Count(10_000, 50),
        ..KILLS
    },
    Measurement {
        name: "backup",
        asks: "backup",
        serves: &["backup"],
        // MiB of files.
        extent: Extent::Count(1_024, 128),
        often: Often::Once,
        ..SERVED
    },
    Measurement {
        name: "large backup",
        asks: "backup",
        serves: &["backup-large"],
        extent: Extent::Count(10_240, 256),
        often: Often::Asked,
        ..SERVED
    },
    Measurement {
        name: "build",
        program: Program::CleanBuild,
        serves: &["build"],
        extent: Extent::Count(1, 1),
        often: Often::Asked,
        ..STORE
    },
];

/// The measurements that the named benchmarks need; when none is named, all that need not be.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Measurement>> {
    for name in names {
        if !MEASUREMENTS.iter().any(|one| one.serves.contains(&name.as_str())) {
            let mut known: Vec<&str> =
                MEASUREMENTS.iter().flat_map(|one| one.serves).copied().collect();
            known.sort_unstable();
            known.dedup();
            bail!("there is no benchmark `{name}`; there are {}", known.join(", "));
        }
    }
    let wanted = |one: &&Measurement| {
        if names.is_empty() {
            one.often != Often::Asked
        } else {
            one.serves.iter().any(|name| names.iter().any(|n| n == name))
        }
    };
    Ok(MEASUREMENTS.iter().filter(wanted).collect())
}

impl Measurement {
    /// Whether it is part of this run, the first of which is 1.
    pub(super) fn is_in(&self, run: u32) -> bool {
        match self.often {
            Often::EveryRun => true,
            Often::Once | Often::Asked => run == 1,
        }
    }
}

impl Extent {
    /// What a program is told: seconds or a count.
    pub(super) fn told(self, quick: bool) -> (&'static str, u64) {
        match self {
            Self::Seconds(full, short) => ("seconds", if quick { short } else { full }),
            Self::Count(full, short) => ("count", if quick { short } else { full }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_brings_its_floor_and_its_peer() {
        let names = |chosen: &[&str]| {
            let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
            super::chosen(&chosen).map(|all| all.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["q1"]).unwrap(), ["floor", "pickup", "peer pickup", "pickup elsewhere"]);
        assert_eq!(names(&["kills"]).unwrap(), ["streams", "deaths"]);
        assert_eq!(names(&["build"]).unwrap(), ["build"]);
        assert_eq!(names(&[]).unwrap().len(), MEASUREMENTS.len() - 2, "all but what is asked for");
        let refused = names(&["q9"]).unwrap_err().to_string();
        assert!(
            refused.starts_with(
                "there is no benchmark `q9`; there are backup, backup-large, build, c1, f1"
            ),
            "{refused}"
        );
    }

    #[test]
    fn what_runs_once_is_in_the_first_run() {
        let runs = |name: &str| {
            let one = MEASUREMENTS.iter().find(|one| one.name == name).unwrap();
            (1..=3).filter(|run| one.is_in(*run)).collect::<Vec<_>>()
        };
        assert_eq!(runs("stop"), [1, 2, 3]);
        assert_eq!(runs("deaths"), [1]);
        assert_eq!(runs("build"), [1]);
    }
}
