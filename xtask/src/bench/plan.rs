//! What is measured, in the order in which it runs. A new measurement is a line here.

use anyhow::{Result, bail};

/// What is run for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// A bench target of ours.
    Bench { package: &'static str, bench: &'static str },
    /// graphile-worker.
    Peer,
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
    /// Seconds that are measured, in a full and in a quick run.
    pub(super) seconds: (u64, u64),
}

const STORE: Program = Program::Bench { package: "famulus-store", bench: "durable" };

pub(super) const MEASUREMENTS: [Measurement; 10] = [
    Measurement {
        name: "floor",
        program: STORE,
        asks: "floor",
        serves: &["floor", "q1", "q2", "q5", "q6"],
        seconds: (20, 4),
    },
    Measurement {
        name: "pickup",
        program: STORE,
        asks: "pickup",
        serves: &["q1"],
        seconds: (30, 5),
    },
    Measurement {
        name: "peer pickup",
        program: Program::Peer,
        asks: "pickup",
        serves: &["q1"],
        seconds: (30, 5),
    },
    Measurement {
        name: "pickup elsewhere",
        program: STORE,
        asks: "pickup-elsewhere",
        serves: &["q1"],
        seconds: (30, 5),
    },
    Measurement {
        name: "lifecycles",
        program: STORE,
        asks: "lifecycles",
        serves: &["q2"],
        seconds: (30, 6),
    },
    Measurement {
        name: "peer live",
        program: Program::Peer,
        asks: "live",
        serves: &["q2"],
        seconds: (30, 6),
    },
    Measurement {
        name: "peer batched",
        program: Program::Peer,
        asks: "batched",
        serves: &["q2"],
        seconds: (15, 6),
    },
    Measurement { name: "turns", program: STORE, asks: "turns", serves: &["q2"], seconds: (30, 6) },
    Measurement { name: "idle", program: STORE, asks: "idle", serves: &["q5"], seconds: (60, 10) },
    Measurement {
        name: "fairness",
        program: STORE,
        asks: "fairness",
        serves: &["q6"],
        seconds: (30, 5),
    },
];

/// The measurements that the named benchmarks need; all of them when none is named.
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
        names.is_empty() || one.serves.iter().any(|name| names.iter().any(|n| n == name))
    };
    Ok(MEASUREMENTS.iter().filter(wanted).collect())
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
        assert_eq!(names(&[]).unwrap().len(), MEASUREMENTS.len());
        let refused = names(&["q9"]).unwrap_err().to_string();
        assert!(
            refused.starts_with("there is no benchmark `q9`; there are floor, q1"),
            "{refused}"
        );
    }
}
