//! Every step that leaves something behind is one at which the crash harness can end the process.
//!
//! What a process does may end at any await. A step that writes, or that has an effect outside, stands
//! between `crash::before` and `crash::after`, with its name in `POINTS` of famulus-core. Functions
//! whose steps have no point are listed by name: what only reads, which is looked at, and what may end
//! anywhere for the reason given. Any other step without a point is a complaint.

use std::collections::{BTreeMap, BTreeSet};

use super::Complaint;
use super::files::Source;

/// Where the durable steps are.
const FOLDERS: [&str; 11] = [
    "app/agent/src/",
    "app/api/src/",
    "app/channels/src/",
    "app/cluster/src/",
    "app/machine/src/",
    "app/plugins/src/",
    "app/queue/src/",
    "app/sandbox/src/",
    "app/server/src/",
    "app/store/src/",
    "app/tools/src/",
];

/// The harness itself, tests, and what stands in for a sandbox in them.
const NOT_SHIPPED: [&str; 4] =
    ["app/server/src/bin/", "app/tools/src/fake/", "app/tools/src/fixture.rs", "/tests.rs"];

/// How a step is written: the end of a transaction, a session for statements of its own, and the ways
/// out.
const STEPS: [&str; 8] = [
    ".commit().await",
    ".acquire().await",
    "accept_in(",
    "model.ask(",
    "channel.send(",
    "checked.run(",
    "sandboxes.run(",
    "sandboxes.acknowledge(",
];

/// A statement is a step of its own wherever it goes, unless to one of these: there something else
/// commits it.
const STATEMENTS: [&str; 6] =
    [".execute(", ".fetch(", ".fetch_all(", ".fetch_many(", ".fetch_one(", ".fetch_optional("];
const IN_TRANSACTION: [&str; 4] = ["conn", "&mut *conn", "&mut *tx", "&mut **tx"];

/// What a function that only reads does not hold.
const WRITES: [&str; 4] = [".execute(", "insert into ", "update ", "delete from "];

/// What only reads. A function is named once for each of its steps that have no point, here and below.
const READS: [(&str, &[&str]); 33] = [
    ("app/queue/src/claim.rs", &["head", "next_due", "now"]),
    ("app/queue/src/inspect.rs", &["depth", "dead_letters"]),
    ("app/store/src/agents.rs", &["agent_by_name", "agents"]),
    ("app/store/src/approvals.rs", &["approvals"]),
    ("app/store/src/arrivals.rs", &["arrivals_from"]),
    ("app/store/src/backup_reports.rs", &["reader"]),
    ("app/store/src/blobs.rs", &["blob", "blob_bytes_within_a_day", "piece"]),
    ("app/store/src/channel_accounts.rs", &["accounts"]),
    ("app/store/src/conversations.rs", &["conversation", "conversations"]),
    ("app/store/src/event_table.rs", &["events_after", "list_marks", "stream_start"]),
    ("app/store/src/inspect.rs", &["database_facts", "queue_report"]),
    ("app/store/src/knowledge.rs", &["digest", "knowledge", "knowledge_entry"]),
    ("app/store/src/late_calls.rs", &["is_late", "late_call"]),
    ("app/store/src/outbox.rs", &["load_delivery"]),
    ("app/store/src/outbox_list.rs", &["outbox"]),
    ("app/store/src/pairings.rs", &["pairings", "whose"]),
    ("app/store/src/plugins.rs", &["plugins_like", "plugin_history"]),
    ("app/store/src/people/mod.rs", &["person", "people", "identity"]),
    ("app/store/src/people/tokens.rs", &["token_standing", "authenticate", "tokens"]),
    ("app/store/src/restored.rs", &["installation", "installation", "installation", "soundness"]),
    ("app/store/src/restored.rs", &["plugins_there"; 2]),
    ("app/store/src/restoring.rs", &["restored"; 2]),
    ("app/store/src/revisions.rs", &["described", "bundle_of", "bundle_piece"]),
    ("app/store/src/questions.rs", &["closed_questions", "unasked_questions"]),
    ("app/store/src/reach.rs", &["home_of", "origin_of"]),
    ("app/store/src/say.rs", &["was_said"]),
    ("app/store/src/schedules/mod.rs", &["schedules", "schedule", "schedule_slots"]),
    ("app/store/src/stop.rs", &["cancel_turn"]),
    ("app/store/src/sweep/mod.rs", &["next_slot"]),
    ("app/store/src/take_up.rs", &["stored_events"]),
    ("app/store/src/turns.rs", &["cancelled"]),
    ("app/store/src/unknown.rs", &["untold_outcomes"]),
    ("app/store/src/views.rs", &["messages", "turn", "turn_of"]),
];
const READING: &str = "it reads";

/// What may end anywhere, and why.
const LISTED: [(&str, &[&str], &str); 44] = [
    ("app/agent/src/title.rs", &["ask"], "a title is asked for again by the next turn"),
    ("app/api/src/callback/results.rs", &["take"], "a runner brings a result until it is let go"),
    (
        "app/api/src/handlers/plugins.rs",
        &["ended"; 2],
        "a person's trial, of which nothing is kept",
    ),
    ("app/machine/src/steps.rs", &["step"], "a place beside other steps, and no session"),
    ("app/queue/src/claim.rs", &["give_back"], "a lease that is not given back ends by itself"),
    ("app/queue/src/claim.rs", &["settle_empty"], "whoever claims the lane next does it"),
    ("app/queue/src/claim.rs", &["expire_leases_of_others"], "only where a safety is taken out"),
    ("app/queue/src/hint.rs", &["run_notifier"], "without the hint others poll"),
    ("app/queue/src/hint.rs", &["listen"], "a look whether the database answers"),
    ("app/store/src/accept_batch.rs", &["accept_in"], "a step of whoever calls it"),
    ("app/store/src/agents.rs", &["create_agent", "change_agent"], "requests of the owner's"),
    (
        "app/store/src/backup_reports.rs",
        &["report_backup"],
        "whoever hears nothing goes by the clock",
    ),
    ("app/store/src/blobs.rs", &["discard"], "what is left of a file goes by retention"),
    ("app/store/src/bundle_age.rs", &["forget_revisions"], "a sweep, which comes again"),
    ("app/store/src/change.rs", &["put_in_place"; 2], "what a platform told, which is read again"),
    (
        "app/store/src/channel_accounts.rs",
        &[
            "account_is",
            "channel_is_down",
            "channel_is_down",
            "hold_account",
            "leave_account",
            "take_account",
            "take_account",
            "take_account",
        ],
        "a lease, which ends by itself, and what is said of it",
    ),
    ("app/store/src/conversations.rs", &["ensure_conversation", "rename"], "requests, repeated"),
    ("app/store/src/db.rs", &["ping"], "a look whether the database answers"),
    ("app/store/src/db.rs", &["rename"], "it holds for its transaction"),
    ("app/store/src/opening.rs", &["take_role"], "it holds for its session"),
    ("app/store/src/opening.rs", &["prepare_role"; 2], "the start, which looks what there is"),
    (
        "app/store/src/demand.rs",
        &["note_use", "start_runner", "stop_runner"],
        "whoever comes next sees the time",
    ),
    ("app/store/src/events.rs", &["store"], "within `event.append`"),
    ("app/store/src/hand_over.rs", &["hand_over_leftovers"; 2], "a sweep, which comes again"),
    ("app/store/src/invitations.rs", &["invite"], "a request of the owner's, which is repeated"),
    ("app/store/src/knowledge.rs", &["write_knowledge", "delete_knowledge"], "requests, repeated"),
    (
        "app/store/src/late_calls.rs",
        &["late_call_delivered"],
        "a note behind a message that counts once",
    ),
    (
        "app/store/src/outbox_list.rs",
        &["retry_outbound"],
        "a request of the owner's, which is repeated",
    ),
    (
        "app/store/src/people/mod.rs",
        &["ensure_owner", "create_person", "try_change", "link_identity"],
        "the start, and requests of the owner's, which are repeated",
    ),
    (
        "app/store/src/people/tokens.rs",
        &["create_token", "revoke_token"],
        "the start, and requests of the owner's, which are repeated",
    ),
    ("app/store/src/plugins.rs", &["noted"], "within the point of whoever calls it"),
    (
        "app/store/src/reach.rs",
        &["may_reach", "note_chat", "note_home"],
        "what a platform told, which is read again",
    ),
    (
        "app/store/src/restored.rs",
        &["hold_back", "hold_messages", "pass_over_due"],
        "a restore, which begins again on an empty database",
    ),
    (
        "app/store/src/restoring.rs",
        &["begin", "begin", "end", "undo", "hold", "drop_all"],
        "a restore, which begins again on an empty database",
    ),
    ("app/store/src/retention.rs", &["sweep_kind"], "a sweep, which comes again"),
    (
        "app/store/src/revisions.rs",
        &["describe", "flush", "finish", "discard"],
        "what a build sends, which is sent again",
    ),
    (
        "app/store/src/schedules/mod.rs",
        &["create_schedule", "change_schedule", "delete_schedule"],
        "requests, whose caller looks what there is",
    ),
    (
        "app/store/src/schema.rs",
        &["bring_up_to_date"; 4],
        "the start, all of it in one transaction",
    ),
    ("app/store/src/sweep/mod.rs", &["start"], "within `schedule.fire`"),
    ("app/store/src/titles.rs", &["title_of_turn"], "a title is asked for again by the next turn"),
    ("app/store/src/unknown.rs", &["outcome_told"], "a note behind a notice that is told once"),
    ("app/tools/src/builtin/run_plugin_tool/mod.rs", &["send"], "within `plugin.call`"),
    ("app/store/src/vanishing.rs", &["let_vanish"], "what a platform told, which is read again"),
    ("app/store/src/vanishing.rs", &["vanish"], "a sweep, which comes again"),
];

/// Where a function is: its file and its name.
type Place<'a> = (&'a str, &'a str);

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let mut found: BTreeMap<Place<'_>, Function<'_>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_shipped(source)) {
        for function in functions(&source.text) {
            let all = found.entry((&source.path, function.name)).or_default();
            all.steps.extend(function.steps);
            all.writes |= function.writes;
        }
    }
    let listed = listed();
    let places: BTreeSet<&Place<'_>> = listed.keys().chain(found.keys()).collect();
    let mut complaints = Vec::new();
    for place in places {
        let ((path, name), none) = (place, Function::default());
        let Function { steps, writes, .. } = found.get(place).unwrap_or(&none);
        let (count, why) = listed.get(place).copied().unwrap_or((0, "it is not listed"));
        if steps.len() != count {
            complaints.push(format!(
                "{path}: {} steps of `{name}` have no crash point, on the lines {steps:?}; {count} may \
                 have none ({why}); put a new one between `crash::before` and `crash::after` and its \
                 name into POINTS, or argue a change of the lists in xtask/tasks/src/tidy/points.rs",
                steps.len()
            ));
        }
        if *writes && why == READING {
            complaints.push(format!(
                "{path}: `{name}` is listed as one that reads, and writes; give it a crash point, or say \
                 in LISTED of xtask/tasks/src/tidy/points.rs why it may end anywhere"
            ));
        }
    }
    complaints
}

/// Whether it is part of the product, where the durable steps are.
pub(super) fn is_shipped(source: &Source) -> bool {
    let path = source.path.as_str();
    FOLDERS.iter().any(|folder| path.starts_with(folder))
        && !NOT_SHIPPED.iter().any(|not| path.contains(not))
}

/// How many steps without a point each function has, and why.
fn listed() -> BTreeMap<Place<'static>, (usize, &'static str)> {
    let reads = READS.iter().map(|(path, names)| (*path, *names, READING));
    let mut listed = BTreeMap::new();
    for (path, names, why) in reads.chain(LISTED) {
        for name in names {
            listed.entry((path, *name)).or_insert((0, why)).0 += 1;
        }
    }
    listed
}

#[derive(Debug, Default)]
struct Function<'a> {
    name: &'a str,
    /// The lines of those that stand between no `before` and `after`.
    steps: Vec<usize>,
    writes: bool,
}

fn functions(text: &str) -> Vec<Function<'_>> {
    let (mut functions, mut within) = (Vec::new(), false);
    let mut function = Function::default();
    for (line, text) in (1..).zip(text.lines()) {
        let mut code = text.split("//").next().unwrap_or_default();
        if code.contains("mod tests {") {
            break;
        }
        if let Some(name) = name(code) {
            functions
                .push(std::mem::replace(&mut function, Function { name, ..Function::default() }));
            within = false;
            code = code.split_once('{').map_or("", |(_head, body)| body);
        }
        if code.contains("crash::before(") {
            within = true;
        }
        if code.contains("crash::after(") {
            within = false;
        }
        if !within {
            function.steps.extend(std::iter::repeat_n(line, steps(code)));
        }
        function.writes |= WRITES.iter().any(|write| code.contains(write));
    }
    functions.push(function);
    functions
}

/// The name of a function whose head begins on this line.
fn name(code: &str) -> Option<&str> {
    let (before, behind) = code.split_once("fn ")?;
    let is_of_head = |word: &str| {
        matches!(word, "pub" | "async" | "const") || word.starts_with("pub(") || word.ends_with(')')
    };
    let name = behind.split(|c: char| !c.is_alphanumeric() && c != '_').next();
    name.filter(|_| before.split_whitespace().all(is_of_head))
}

fn steps(code: &str) -> usize {
    let is_alone = |(before, behind): &(&str, &str)| {
        let to = behind.split(')').next().unwrap_or_default();
        // A method of the struct itself is no statement.
        !before.ends_with("self") && !IN_TRANSACTION.contains(&to)
    };
    let statements =
        |call: &&str| code.split(call).zip(code.split(call).skip(1)).filter(is_alone).count();
    STEPS.iter().map(|step| code.matches(step).count()).sum::<usize>()
        + STATEMENTS.iter().map(statements).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_without_a_point_is_found_on_its_line() {
        let table: [(&str, &[usize]); 14] = [
            ("fn a() {\n    tx.commit().await?;\n}\n", &[2]),
            (
                "fn a() {\n    crash::before(\"x\");\n    tx.commit().await?;\n    crash::after(\"x\");\n}",
                &[],
            ),
            (
                "fn a() {\n    crash::before(\"x\");\n}\npub(crate) async fn b() {\n    tx.commit().await\n}",
                &[5],
            ),
            (
                "fn a() {\n    crash::before(\"x\");\n}\npub(super) async fn b() { tx.commit().await }",
                &[4],
            ),
            ("crash::before(\"x\");\ncrash::after(\"x\");\nmodel.ask(request);\n", &[3]),
            ("// tx.commit().await\n/// `model.ask(`\n", &[]),
            ("query.execute(&self.pool)\nmod tests {\ntx.commit().await", &[1]),
            ("query.execute(&pool)", &[1]),
            ("q.execute(executor)", &[1]),
            ("conn.execute(\n    statement,\n)", &[1]),
            ("sandboxes.acknowledge(plugin, id).await", &[1]),
            ("q.execute(&mut *conn)\nq.fetch_one(&mut **tx)\nq.fetch_all(conn)", &[]),
            ("match self.execute(action).await {", &[]),
            ("pub(crate) async fn accept_in(\n    executor: impl PgExecutor<'_>,\n) {", &[]),
        ];
        for (text, expected) in table {
            let found: Vec<usize> = functions(text).into_iter().flat_map(|f| f.steps).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_function_that_is_not_listed_so_is_a_complaint() {
        let function = |path: &str, name: &str, body: &str| Source {
            path: path.to_owned(),
            text: format!("fn {name}() {{\n{body}}}\n"),
        };
        let step = "tx.commit().await?;\n";
        let mut sources: Vec<Source> = listed()
            .iter()
            .map(|((path, name), (count, _))| function(path, name, &step.repeat(*count)))
            .collect();
        sources.push(function("app/cli/src/lib.rs", "a", step));
        sources.push(function("app/server/src/bin/harness/main.rs", "a", step));
        assert_eq!(check(&sources), Vec::<Complaint>::new());

        let views = "app/store/src/views.rs";
        let table: [(&str, &str, &str); 4] = [
            ("app/store/src/new.rs", "a", "app/store/src/new.rs: 2 steps of `a` have no"),
            (views, "turn", "app/store/src/views.rs: 3 steps of `turn` have no"),
            (views, "rename", "app/store/src/views.rs: 2 steps of `rename` have no"),
            ("app/cluster/src/new.rs", "a", "app/cluster/src/new.rs: 2 steps of `a` have no"),
        ];
        for (path, name, beginning) in table {
            sources.push(function(path, name, &step.repeat(2)));
            is_one(&check(&sources), beginning);
            sources.pop();
        }
        sources.push(function(views, "turn", "query!(\"update turn set state = 'x'\")\n"));
        is_one(&check(&sources), "app/store/src/views.rs: `turn` is listed as one that reads");
        sources.pop();
        sources.retain(|source| source.path != "app/store/src/titles.rs");
        is_one(&check(&sources), "app/store/src/titles.rs: 0 steps of `title_of_turn`");
    }

    fn is_one(complaints: &[Complaint], beginning: &str) {
        assert!(matches!(complaints, [only] if only.starts_with(beginning)), "{complaints:?}");
    }
}
