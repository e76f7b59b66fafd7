use crate::catalogue::{Catalogue, CatalogueError};
use crate::fake::plugins::{Play, digest};
use crate::fixture::{Bench, call_of};
use crate::output::LONGEST_OUTPUT;
use crate::tool::{Policy, Tool, ToolError};
use async_trait::async_trait;
use famulus_core::StoreError;
use famulus_core::agent::Grants;
use famulus_core::tool::{CallContext, Effect, Plan, Repeat, ToolOutput, Tools as _, Verdict};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A tool that misbehaves in the way that its name says.
struct Odd {
    name: &'static str,
    policy: &'static [Policy],
    schema: Value,
}

const READS: &[Policy] = &[Policy::new(None, Effect::Read, Repeat::Safe)];
const WRITES: &[Policy] = &[Policy::new(None, Effect::External, Repeat::Never)];

fn odd(name: &'static str, policy: &'static [Policy]) -> Arc<dyn Tool> {
    Arc::new(Odd { name, policy, schema: json!({"type": "object"}) })
}

#[async_trait]
impl Tool for Odd {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &'static str {
        "Misbehaves."
    }

    fn schema(&self) -> Value {
        self.schema.clone()
    }

    fn policy(&self) -> &[Policy] {
        self.policy
    }

    async fn run(&self, arguments: Value, _: &CallContext) -> Result<ToolOutput, ToolError> {
        match self.name {
            "panics" => panic!("as its name says"),
            "hangs" => std::future::pending().await,
            "floods" => Ok(ToolOutput::Text("x".repeat(1_000_000))),
            "loses" => {
                let cause = std::io::Error::other("connection reset");
                Err(StoreError::Unavailable(Box::new(cause)).into())
            }
            _ => Ok(ToolOutput::Json(arguments.to_string())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_always_ends_in_an_output() {
    let odd_ones = |policy| {
        let names = ["panics", "hangs", "floods", "loses", "echoes"];
        Bench::with(names.map(|name| odd(name, policy)).to_vec())
    };
    let mut reads = odd_ones(READS);
    let mut writes = odd_ones(WRITES);
    let panicked = "`panics` broke off by a fault of its own";
    let hung = "`hangs` did not finish within 30 s";
    // A read is safe to repeat, and so repeated until its time is up.
    let (lost, lost_for_good) =
        ("`loses` did not finish within 30 s", "the database did not answer");
    for (name, expected, of_write) in
        [("panics", panicked, panicked), ("hangs", hung, hung), ("loses", lost, lost_for_good)]
    {
        let output = reads.call(name, json!({})).await;
        assert!(matches!(output, ToolOutput::Error(_)), "{output:?}");
        assert!(output.text().starts_with(expected), "{output:?}");
        // What may have reached the world is not called an error.
        let output = writes.call(name, json!({})).await;
        assert!(matches!(output, ToolOutput::Unknown(_)), "{output:?}");
        assert!(output.text().starts_with(of_write), "{output:?}");
    }
    let output = reads.call("floods", json!({})).await;
    assert!(output.text().chars().count() <= LONGEST_OUTPUT);
    assert_eq!(
        reads.call("echoes", json!({"a": 1, "b": null})).await,
        ToolOutput::Json(r#"{"a":1}"#.into())
    );
    let error = reads.error("nowhere", json!({})).await;
    assert!(error.starts_with("there is no tool `nowhere`; the tools are: get_time,"), "{error}");
    assert!(error.ends_with(", panics, hangs, floods, loses, echoes"), "{error}");
    reads.context.grants = Grants::default();
    assert_eq!(
        reads.error("echoes", json!({})).await,
        "there is no tool `echoes`; this agent has none, answer in text"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_turn_ends_its_calls() {
    let mut bench = Bench::with(vec![odd("hangs", WRITES), odd("echoes", WRITES)]);
    let cancel = bench.context.cancel.clone();
    let (output, ()) = tokio::join!(bench.call("hangs", json!({})), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    assert!(matches!(&output, ToolOutput::Unknown(text) if text.contains("stopped with the turn")));
    assert_eq!(
        bench.error("echoes", json!({})).await,
        "`echoes` did not run: the turn was stopped"
    );
}

#[tokio::test]
async fn what_is_not_granted_does_not_run() {
    let mut bench = Bench::new();
    bench.context.grants = Grants::from_names(["manage_knowledge.list", "get_time"]);
    let check = |tool: &str, arguments: Value, allowed: bool| {
        let call = call_of(tool, &arguments.to_string());
        let plan = bench.check(&call).map(|checked| checked.plan().verdict);
        assert_eq!(plan == Ok(Verdict::Allow), allowed, "{call:?}: {plan:?}");
        // It was granted when it was checked, and is judged again when it runs.
        let checked = bench.catalogue.checked(&call, &Grants::all()).ok().unwrap();
        let context = &bench.context;
        async move {
            let output = checked.run(context).await;
            assert_eq!(!output.is_error(), allowed, "{call:?}: {output:?}");
            assert!(plan.err().is_none_or(|refusal| refusal == output), "{call:?}: {output:?}");
            output
        }
    };
    check("get_time", json!({}), true).await;
    check("manage_knowledge", json!({"action": "list", "store": "memory"}), true).await;
    let upsert = json!({"action": "upsert", "store": "memory", "content": "x"});
    let refused = check("manage_knowledge", upsert, false).await;
    assert!(
        refused.text().contains(
            "at arguments/action: \"upsert\" is not one of \"list\" (schema /properties/action/enum)"
        ),
        "{refused:?}"
    );
    let refused = check("manage_schedules", json!({"action": "list"}), false).await;
    assert_eq!(
        refused.text(),
        "there is no tool `manage_schedules`; the tools are: get_time, manage_knowledge"
    );
}

/// One call of every action of every tool, and what is planned for it.
fn every_action() -> Vec<(&'static str, Value, Effect, Repeat, bool)> {
    let id = "019b0000-0000-7000-8000-000000000000";
    // Whether the time has passed is for the call to see: a plan knows no clock.
    let create = json!({"action": "create", "note": "n", "at": "2020-01-01T00:00"});
    let (read, write, safe) = (Effect::Read, Effect::Write, Repeat::Safe);
    let knowledge = "manage_knowledge";
    vec![
        ("get_time", json!({}), read, safe, false),
        (
            knowledge,
            json!({"action": "upsert", "store": "memory", "content": "x"}),
            write,
            safe,
            false,
        ),
        (knowledge, json!({"action": "read", "store": "memory", "id": id}), read, safe, false),
        (knowledge, json!({"action": "list", "store": "memory"}), read, safe, false),
        (knowledge, json!({"action": "delete", "store": "memory", "id": id}), write, safe, true),
        ("manage_schedules", create, write, safe, false),
        ("manage_schedules", json!({"action": "update", "id": id}), write, safe, false),
        ("manage_schedules", json!({"action": "delete", "id": id}), write, safe, false),
        ("manage_schedules", json!({"action": "list"}), read, safe, false),
        ("send_message", json!({"action": "send", "text": "x"}), Effect::External, safe, false),
        (
            "send_message",
            json!({"action": "send_first", "to": "Bob", "text": "x"}),
            Effect::External,
            safe,
            true,
        ),
        ("text_to_speech", json!({"text": "hello"}), Effect::External, safe, false),
        ("manage_plugins", json!({"action": "list"}), read, safe, false),
        ("manage_plugins", json!({"action": "show", "name": "weather"}), read, safe, false),
        ("manage_plugins", json!({"action": "help"}), read, safe, false),
        (
            "manage_plugins",
            json!({"action": "install", "url": "https://example.com/p"}),
            Effect::External,
            safe,
            false,
        ),
        (
            "manage_plugins",
            json!({"action": "install_unsaid", "url": "https://example.com/p"}),
            Effect::External,
            safe,
            true,
        ),
        (
            "manage_plugins",
            json!({"action": "update", "name": "weather"}),
            Effect::External,
            safe,
            false,
        ),
        (
            "manage_plugins",
            json!({"action": "permit", "name": "weather", "revision": digest("weather")}),
            write,
            safe,
            true,
        ),
        (
            "manage_plugins",
            json!({"action": "configure", "name": "weather", "key": "k", "value": "1"}),
            write,
            safe,
            false,
        ),
        (
            "manage_plugins",
            json!({"action": "rollback", "name": "weather"}),
            write,
            Repeat::Never,
            true,
        ),
        ("manage_plugins", json!({"action": "remove", "name": "weather"}), write, safe, true),
        ("manage_plugins", json!({"action": "create", "name": "dice"}), write, safe, false),
        ("manage_plugins", json!({"action": "list_files", "name": "dice"}), read, safe, false),
        (
            "manage_plugins",
            json!({"action": "read_file", "name": "dice", "path": "manifest.json"}),
            read,
            safe,
            false,
        ),
        (
            "manage_plugins",
            json!({"action": "write_file", "name": "dice", "path": "a", "content": "x"}),
            write,
            safe,
            false,
        ),
        (
            "manage_plugins",
            json!({"action": "delete_file", "name": "dice", "path": "a"}),
            write,
            safe,
            false,
        ),
        (
            "manage_plugins",
            json!({"action": "move_file", "name": "dice", "path": "manifest.json", "to": "b"}),
            write,
            safe,
            false,
        ),
        (
            "run_plugin_tool",
            json!({"plugin": "weather", "tool": "look"}),
            Effect::External,
            Repeat::Never,
            false,
        ),
    ]
}

/// Nothing of what a plan might look at changes it: the time, what is stored, what ran before, which
/// plugins there are, what else is granted, or how the arguments are written. It is not told who asks.
#[tokio::test]
async fn a_plan_depends_on_the_call_alone() {
    let mut bench = Bench::new();
    let granted = |bench: &Bench, grants: &Grants, tool: &str, arguments: &str| {
        let checked = bench.catalogue.checked(&call_of(tool, arguments), grants);
        checked.map_or_else(Plan::refused, |checked| checked.plan())
    };
    let plan = |bench: &Bench, tool: &str, arguments: &str| {
        granted(bench, &Grants::all(), tool, arguments)
    };
    let all = |bench: &Bench| -> Vec<Plan> {
        every_action().iter().map(|(tool, it, ..)| plan(bench, tool, &it.to_string())).collect()
    };
    let first = all(&bench);
    for ((tool, arguments, effect, repeat, asks), plan) in every_action().into_iter().zip(&first) {
        assert_eq!((plan.effect, plan.repeat), (effect, repeat), "{tool} {arguments}");
        let asked = matches!(plan.verdict, Verdict::Ask { .. });
        assert_eq!((asked, plan.verdict == Verdict::Allow), (asks, !asks), "{tool} {arguments}");
    }
    let mut named: Vec<(String, Vec<String>)> = Vec::new();
    for (tool, arguments, ..) in every_action() {
        let action = arguments["action"].as_str().map(str::to_owned);
        match named.last_mut() {
            Some((last, actions)) if last == tool => actions.extend(action),
            _ => named.push((tool.to_owned(), action.into_iter().collect())),
        }
    }
    assert_eq!(named, bench.catalogue.grantable(), "each action of each tool is planned here");

    for (tool, arguments, ..) in every_action() {
        bench.call(tool, arguments).await;
    }
    assert_eq!(all(&bench), first, "after all of them ran");
    bench.clock.advance(SignedDuration::from_hours(10 * 365 * 24));
    assert_eq!(all(&bench), first, "ten years later");
    bench.sandboxes.plugins.lock().clear();
    assert_eq!(all(&bench), first, "without plugins");
    assert_eq!(all(&Bench::playing(|_| Play::Later)), first, "elsewhere");
    for (tool, arguments, ..) in every_action() {
        let written = arguments.as_object().unwrap().iter().rev();
        let written: Vec<String> = written.map(|(name, it)| format!("\n {name:?} :{it}")).collect();
        let written = format!(" {{{}\t}} ", written.join(" ,"));
        let compact = plan(&bench, tool, &arguments.to_string());
        assert_eq!(plan(&bench, tool, &written), compact, "{written}");
    }

    let grant_of = |tool: &str, arguments: &Value| {
        let action = arguments["action"].as_str().map(|action| format!("{tool}.{action}"));
        action.unwrap_or_else(|| tool.to_owned())
    };
    let grants: Vec<String> =
        every_action().iter().map(|(tool, it, ..)| grant_of(tool, it)).collect();
    for ((tool, arguments, ..), first) in every_action().iter().zip(&first) {
        let (own, arguments) = (grant_of(tool, arguments), arguments.to_string());
        for grant in [*tool, own.as_str()] {
            let plan = granted(&bench, &Grants::from_names([grant]), tool, &arguments);
            assert_eq!(plan, *first, "{tool} {arguments} by the grant {grant}");
        }
        let others = Grants::from_names(grants.iter().filter(|grant| **grant != own).cloned());
        let verdict = granted(&bench, &others, tool, &arguments).verdict;
        assert!(matches!(verdict, Verdict::Refuse(_)), "{tool} {arguments} without {own}");
    }

    for (tool, arguments, expected) in [
        ("manage_knowledge", "{\"action\": ", "line 1 column 11"),
        ("manage_knowledge", r#"{"action":"list","action":"delete"}"#, "stands twice"),
        ("manage_knowledge", "{}", "\"action\" is a required property"),
        ("rm", "{}", "there is no tool `rm`"),
    ] {
        let Verdict::Refuse(ToolOutput::Error(text)) = plan(&bench, tool, arguments).verdict else {
            panic!("{tool} {arguments} was not refused");
        };
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_tool_that_does_not_fit_is_not_taken() {
    let take = |name, policy, schema| -> CatalogueError {
        let tool: Arc<dyn Tool> = Arc::new(Odd { name, policy, schema });
        Catalogue::with(&Bench::ports(&Bench::new().clock), vec![tool]).err().unwrap()
    };
    const LIST: &[Policy] = &[Policy::read("list")];
    let actions = |names: &[&str]| json!({"type": "object", "properties": {"action": {"enum": names}}, "required": ["action"]});
    for (error, expected) in [
        (take("get_time", READS, json!({})), "there are two tools named `get_time`"),
        (take("Get.Time", READS, json!({})), "`Get.Time` is not a name for a tool"),
        (take("x", READS, json!({"type": 7})), "the schema of tool `x` is not a JSON Schema"),
        (take("x", &[], json!({})), "tool `x` has the actions [] but policy lines for []"),
        (take("x", LIST, json!({})), "tool `x` has the actions [] but policy lines for [list]"),
        (take("x", READS, actions(&["list"])), "has the actions [list] but policy lines for [-]"),
        (take("x", LIST, actions(&["list", "drop"])), "has the actions [list, drop]"),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
    }
}
