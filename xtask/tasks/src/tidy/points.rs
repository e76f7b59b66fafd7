//! Every step that leaves something behind is one at which the crash harness can end the process.
//!
//! What a process does may end at any await. A step that writes, or that has an effect outside, stands
//! between `crash::before` and `crash::after`, with its name in `POINTS` of famulus-core. The table
//! lists how many steps of each file have no point: what only reads, and what may end anywhere for the
//! reason given. A new step without a point is a complaint.

use std::collections::{BTreeMap, BTreeSet};

use super::Complaint;
use super::files::Source;

/// Where the durable steps are.
const FOLDERS: [&str; 5] =
    ["app/queue/src/", "app/store/src/", "app/agent/src/", "app/server/src/", "app/tools/src/"];

/// The harness itself, tests, and what stands in for a sandbox in them.
const NOT_SHIPPED: [&str; 4] =
    ["app/server/src/bin/", "app/tools/src/fake/", "app/tools/src/fixture.rs", "/tests.rs"];

/// How a step is written: the end of a transaction, a statement without one, and the ways out.
const STEPS: [&str; 11] = [
    ".commit().await",
    ".execute(&self.",
    ".fetch_all(&self.",
    ".fetch_one(&self.",
    ".fetch_optional(&self.",
    ".acquire().await",
    "accept_in(",
    "model.ask(",
    "channel.send(",
    "checked.run(",
    "sandboxes.run(",
];

/// Reads, which leave nothing behind, are not told apart from writes: each file names what it has.
const LISTED: [(&str, usize, &str); 28] = [
    ("app/agent/src/title.rs", 1, "a title is asked for again by the next turn"),
    ("app/queue/src/claim.rs", 6, "reads; a lease that is not given back ends by itself"),
    ("app/store/src/agents.rs", 4, "reads; a request of the owner's, which is repeated"),
    ("app/store/src/approvals.rs", 1, "reads"),
    ("app/store/src/blobs.rs", 3, "reads; what is left of a file goes by retention"),
    ("app/store/src/bundle_age.rs", 1, "a sweep, which comes again"),
    ("app/store/src/conversations.rs", 5, "reads; requests that open or name a conversation"),
    ("app/store/src/db.rs", 1, "a look whether the database answers"),
    ("app/store/src/demand.rs", 3, "one process wins, and whoever comes next sees the time"),
    ("app/store/src/events.rs", 3, "reads; the writer of events, within `event.append`"),
    ("app/store/src/hand_over.rs", 2, "reads; a sweep, which comes again"),
    ("app/store/src/inspect.rs", 2, "reads"),
    ("app/store/src/knowledge.rs", 5, "reads; requests of a person's, which are repeated"),
    ("app/store/src/late_calls.rs", 3, "reads; a note behind a message that counts once"),
    ("app/store/src/outbox.rs", 3, "reads; a request of the owner's, which is repeated"),
    ("app/store/src/people/mod.rs", 7, "reads; requests of the owner's, and the start"),
    ("app/store/src/people/tokens.rs", 5, "reads; requests of the owner's, and the start"),
    ("app/store/src/restored.rs", 2, "a restore, which begins again on an empty database"),
    ("app/store/src/retention.rs", 1, "a sweep, which comes again"),
    ("app/store/src/revisions.rs", 7, "reads; what a build sends, which is sent again"),
    ("app/store/src/schedules/mod.rs", 6, "reads; requests, whose caller looks what there is"),
    ("app/store/src/schema.rs", 1, "the start, all of it in one transaction"),
    ("app/store/src/stop.rs", 1, "reads"),
    ("app/store/src/sweep.rs", 2, "reads; the acceptance within `schedule.fire`"),
    ("app/store/src/titles.rs", 1, "a title is asked for again by the next turn"),
    ("app/store/src/take_up.rs", 1, "reads"),
    ("app/store/src/turns.rs", 1, "reads"),
    ("app/store/src/views.rs", 3, "reads"),
];
/// What a point is around from another function.
const AROUND: [(&str, usize, &str); 1] =
    [("app/tools/src/builtin/run_plugin_tool/mod.rs", 1, "within `plugin.call`")];

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let all = || LISTED.iter().chain(&AROUND);
    let listed: BTreeMap<&str, (usize, &str)> =
        all().map(|(path, count, why)| (*path, (*count, *why))).collect();
    let is_shipped = |source: &&Source| {
        let path = source.path.as_str();
        FOLDERS.iter().any(|folder| path.starts_with(folder))
            && !NOT_SHIPPED.iter().any(|not| path.contains(not))
    };
    let found: BTreeMap<&str, Vec<usize>> = sources
        .iter()
        .filter(is_shipped)
        .map(|source| (source.path.as_str(), without_point(&source.text)))
        .collect();
    let paths: BTreeSet<&str> = listed.keys().chain(found.keys()).copied().collect();
    let mut complaints = Vec::new();
    for path in paths {
        let none = Vec::new();
        let found = found.get(path).unwrap_or(&none);
        let (count, why) = listed.get(path).copied().unwrap_or((0, "none may"));
        if found.len() != count {
            complaints.push(format!(
                "{path}: {} steps without a crash point, on the lines {found:?}; {count} may have none \
                 ({why}); put a new one between `crash::before` and `crash::after` and its name into \
                 POINTS, or argue a change of the table in xtask/tasks/src/tidy/points.rs",
                found.len()
            ));
        }
    }
    complaints
}

/// The lines of steps that stand between no `before` and `after` of their function.
fn without_point(text: &str) -> Vec<usize> {
    let (mut lines, mut within) = (Vec::new(), false);
    for (line, text) in (1..).zip(text.lines()) {
        let code = text.split("//").next().unwrap_or_default();
        if code.contains("mod tests {") {
            break;
        }
        if is_function(code) {
            within = false;
            continue;
        }
        if code.contains("crash::before(") {
            within = true;
        }
        if code.contains("crash::after(") {
            within = false;
        }
        let steps = STEPS.iter().map(|step| code.matches(step).count()).sum();
        if !within {
            lines.extend(std::iter::repeat_n(line, steps));
        }
    }
    lines
}

fn is_function(code: &str) -> bool {
    let code = code.trim_start();
    let code =
        code.strip_prefix("pub(crate) ").or_else(|| code.strip_prefix("pub ")).unwrap_or(code);
    let code = code.strip_prefix("async ").unwrap_or(code);
    code.starts_with("fn ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_without_a_point_is_found_on_its_line() {
        let table: [(&str, &[usize]); 6] = [
            ("fn a() {\n    tx.commit().await?;\n}\n", &[2]),
            (
                "fn a() {\n    crash::before(\"x\");\n    tx.commit().await?;\n    crash::after(\"x\");\n}",
                &[],
            ),
            (
                "fn a() {\n    crash::before(\"x\");\n}\npub(crate) async fn b() {\n    tx.commit().await\n}",
                &[5],
            ),
            ("crash::before(\"x\");\ncrash::after(\"x\");\nmodel.ask(request);\n", &[3]),
            ("// tx.commit().await\n/// `model.ask(`\n", &[]),
            ("query.execute(&self.pool)\nmod tests {\ntx.commit().await", &[1]),
        ];
        for (text, expected) in table {
            assert_eq!(without_point(text), expected, "{text}");
        }
    }

    #[test]
    fn a_file_with_another_number_is_a_complaint() {
        let source = |path: &str, text: String| Source { path: path.to_owned(), text };
        let steps = |count: usize| "tx.commit().await?;\n".repeat(count);
        let mut sources: Vec<Source> = LISTED
            .iter()
            .chain(&AROUND)
            .map(|(path, count, _)| source(path, steps(*count)))
            .collect();
        sources.push(source("app/api/src/lib.rs", steps(1)));
        sources.push(source("app/server/src/bin/harness/main.rs", steps(1)));
        assert_eq!(check(&sources), Vec::<Complaint>::new());
        sources.push(source("app/store/src/new.rs", steps(2)));
        sources[0].text.clear();
        let complaints = check(&sources);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[1].starts_with("app/store/src/new.rs: 2 steps"), "{complaints:?}");
    }
}
