//! The list of escapes: a plugin whose programs try to get out of where they run, and to find what stands around;
//! and how what came of each attempt is judged.
//!
//! ```text
//! escape/run ─► kernel, runner, files, network ─► what every home holds
//!          └──► pod, or machine and doors ──────► what one home has around a plugin
//! ```
//!
//! Refuses to know what really stands around, and what is let through all the same: a home says both.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::plugin::File;

const PROGRAMS: [(&str, &str); 9] = [
    ("run.py", include_str!("../escape/run.py")),
    ("place.py", include_str!("../escape/place.py")),
    ("kernel.py", include_str!("../escape/kernel.py")),
    ("runner.py", include_str!("../escape/runner.py")),
    ("files.py", include_str!("../escape/files.py")),
    ("network.py", include_str!("../escape/network.py")),
    ("pod.py", include_str!("../escape/pod.py")),
    ("machine.py", include_str!("../escape/machine.py")),
    ("doors.py", include_str!("../escape/doors.py")),
];

const INIT: &str = include_str!("../escape/init.py");

/// At least so many are on the list of a home.
const ATTEMPTS: usize = 350;

/// What came of each attempt, by `PART: ATTEMPT`.
pub type Outcomes = BTreeMap<String, String>;

/// Where things are in a home, for the programs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Places {
    /// The parts of the list that are tried there.
    pub parts: &'static [&'static str],
    mounted: &'static str,
    kept: &'static str,
    /// The runner's program.
    program: &'static str,
    /// The runner's port, or the path of its socket.
    listens: &'static str,
}

/// A Pod of a cluster.
pub const POD: Places = Places {
    parts: &["kernel", "runner", "files", "network", "pod"],
    mounted: "/run/famulus/mounted",
    kept: "/run/famulus/kept",
    program: "/usr/local/bin/famulus-runner",
    listens: "8090",
};

/// A sandbox of one machine.
pub const SANDBOX: Places = Places {
    parts: &["kernel", "runner", "files", "network", "machine", "doors"],
    mounted: "/famulus/mounted",
    kept: "/famulus/kept",
    program: "/famulus/runner",
    listens: "/famulus/doors/run",
};

impl Places {
    /// The files of the tool `escape`: it tries the `part` that it is given, of what it is told to be `around`.
    pub fn tool(&self) -> Vec<File> {
        let text = json!({"type": "string", "description": "A text."});
        let manifest = json!({"name": "escape", "description": "Tries.", "entrypoint": "run.py", "async": true,
            "parameters": {"part": text, "around": text}});
        let places = json!(self);
        let programs =
            PROGRAMS.iter().map(|(name, program)| file(&format!("escape/{name}"), program));
        programs
            .chain([
                file("escape/manifest.json", &manifest.to_string()),
                file("escape/place.json", &places.to_string()),
            ])
            .collect()
    }

    /// The same with `init.py`, which tries all parts of what is around, and the tool `seen`, which shows what came
    /// of them.
    pub fn init(&self, around: &Value) -> Vec<File> {
        let seen = json!({"name": "seen", "description": "Shows.", "entrypoint": "run.sh", "parameters": {}});
        let mut files = self.tool();
        files.extend([
            file("init.py", INIT),
            file("around.json", &around.to_string()),
            file("seen/manifest.json", &seen.to_string()),
            file("seen/run.sh", "#!/bin/sh\ncat ../tried.json\n"),
        ]);
        files
    }
}

fn file(path: &str, content: &str) -> File {
    File { path: path.to_owned(), content: content.to_owned() }
}

/// What the tool said of a part.
///
/// # Errors
/// It said something else.
pub fn of_part(part: &str, text: &str) -> serde_json::Result<Outcomes> {
    serde_json::from_str(text).map(|outcomes| named(part, outcomes))
}

/// What an init script tried, and where it did.
pub struct Tried {
    /// Files of `/proc`, by their names.
    pub place: BTreeMap<String, String>,
    pub outcomes: Outcomes,
}

/// What the tool `seen` said.
///
/// # Errors
/// It said something else.
pub fn of_init(text: &str) -> serde_json::Result<Tried> {
    let mut parts: BTreeMap<String, Outcomes> = serde_json::from_str(text)?;
    let place = parts.remove("where").unwrap_or_default();
    let outcomes = parts.into_iter().flat_map(|(part, outcomes)| named(&part, outcomes)).collect();
    Ok(Tried { place, outcomes })
}

fn named(part: &str, outcomes: Outcomes) -> Outcomes {
    outcomes.into_iter().map(|(attempt, came)| (format!("{part}: {attempt}"), came)).collect()
}

/// How a list went.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    pub attempts: usize,
    pub blocked: usize,
    /// What went otherwise than it must, in words.
    pub wrong: Vec<String>,
}

/// Who tried, what came of it, and what may work because it lets nobody out.
pub fn judged(who: &str, outcomes: &Outcomes, is_harmless: impl Fn(&str) -> bool) -> Judgement {
    let mut judgement = Judgement { attempts: outcomes.len(), ..Judgement::default() };
    for (attempt, outcome) in outcomes {
        let succeeded = outcome.starts_with("SUCCEEDED");
        let must = attempt.contains(": control: ");
        judgement.blocked += usize::from(outcome.starts_with("blocked"));
        let harms = succeeded && !must && !is_harmless(attempt);
        if outcome.starts_with("broken") || must && !succeeded || harms {
            judgement.wrong.push(format!("{who}, {attempt}: {outcome}"));
        }
    }
    if judgement.attempts < ATTEMPTS {
        let few = format!("{who}: {} attempts of {ATTEMPTS}", judgement.attempts);
        judgement.wrong.push(few);
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_works_that_is_not_let_through_is_told() {
        let mut all: Outcomes = (0..ATTEMPTS)
            .map(|number| (format!("kernel: {number}"), "blocked: no".to_owned()))
            .collect();
        let check = |outcomes: &Outcomes, wrong: &[&str]| {
            let judgement = judged("a tool", outcomes, |attempt| attempt == "kernel: 7");
            let told: Vec<&str> = judgement.wrong.iter().map(String::as_str).collect();
            assert_eq!(told, wrong);
        };
        check(&all, &[]);
        let mut said = |attempt: &str, outcome: &str| {
            all.insert(attempt.to_owned(), outcome.to_owned());
        };
        said("kernel: 7", "SUCCEEDED: harmless");
        said("kernel: control: asks", "SUCCEEDED: 1");
        said("kernel: 8", "SUCCEEDED: out");
        said("kernel: 9", "broken: KeyError");
        said("network: control: has", "blocked: no");
        let wrong = [
            "a tool, kernel: 8: SUCCEEDED: out",
            "a tool, kernel: 9: broken: KeyError",
            "a tool, network: control: has: blocked: no",
        ];
        check(&all, &wrong);
        all.retain(|attempt, _| attempt.ends_with('1'));
        check(&all, &[&format!("a tool: {} attempts of {ATTEMPTS}", all.len())]);
    }

    #[test]
    fn every_part_of_a_home_is_a_program_of_the_plugin() {
        for places in [POD, SANDBOX] {
            let files = places.init(&json!({}));
            for part in places.parts {
                let path = format!("escape/{part}.py");
                let program = files.iter().find(|file| file.path == path).unwrap();
                assert!(program.content.contains("\nATTEMPTS = {"), "{path}");
            }
        }
    }

    #[test]
    fn what_was_tried_is_told_by_part_and_attempt() {
        let outcomes = |entries: &[(&str, &str)]| -> Outcomes {
            entries.iter().map(|(name, came)| ((*name).to_owned(), (*came).to_owned())).collect()
        };
        let of_tool = of_part("files", r#"{"reads": "blocked: no"}"#).unwrap();
        assert_eq!(of_tool, outcomes(&[("files: reads", "blocked: no")]));
        let Tried { place, outcomes: tried } =
            of_init(r#"{"where": {"version": "Linux"}, "files": {"reads": "blocked: no"}}"#)
                .unwrap();
        assert_eq!(place, outcomes(&[("version", "Linux")]));
        assert_eq!(tried, of_tool);
        assert!(of_part("files", "no JSON").is_err());
    }
}
