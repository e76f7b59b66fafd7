//! The list of escapes, tried on one machine: by a tool and by the init script of a build, where the assistant is
//! root's and where it is an ordinary user's. What a cluster does with it is in `tests/cluster/tests/hostile`.
//!
//! Beside what the programs of the list say, what stands around is asked: nobody knocked there, nothing was written,
//! and nothing that is secret was told.

mod around;

use crate::{
    up::{Up, client},
    who::Who,
};
use around::{Around, Neighbour};
use famulus_plugin_life::{
    File,
    escape::{Outcomes, SANDBOX, judged, of_init, of_part},
};
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Attempts that may work, and why that lets nobody out.
const HARMLESS: [(&str, &str); 2] = [
    (
        "files: watches the bearer",
        "Landlock knows no watches: it hears that the runner opened the file, and cannot open it",
    ),
    (
        "machine: learns where its folders lie outside",
        "the kernel names them with its mounts, and inside these names lead nowhere",
    ),
];

/// What an init script may do where it has the internet, for packages.
const PUBLIC: [&str; 3] = [
    "network: connects to public canary",
    "network: asks the public for names",
    "network: sends echo requests to public canary",
];

/// The key in the ring of the session, and the word in all that nobody may read.
const KEY: &str = "famulus-hostile";
const CANARY: &str = "canary-of-one-machine-4711";

/// How long a plugin may take to be built and to try the list, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// As somebody logs in: a session with a key in its ring; and becomes what follows.
const LOGIN: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
name, key = sys.argv[1].encode(), sys.argv[2].encode()
assert libc.syscall(250, 1, None) > 0, 'no ring of keys'
assert libc.syscall(248, b'user', name, key, len(key), -3) > 0, 'no key'
os.execv(sys.argv[3], sys.argv[3:])
";

/// Both at once: most of it is waiting for what does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn no_way_out_of_a_sandbox_of_one_machine_is_found() {
    let wrong = join_all(Who::all().into_iter().map(tried)).await.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What went otherwise than it must.
async fn tried(who: Who) -> Vec<String> {
    let place = who.place("hostile");
    // That of the system, which is the one that sandboxes have, too.
    let mut login = who.runs(&place, "/usr/bin/python3");
    login.args(["-c", LOGIN, KEY, CANARY]).arg(place.0.join("famulus")).arg("up");
    let up = Up::from(&place, login);
    let neighbour = Neighbour::start(&up, &place, who).await;
    let around = Around::new(&place, who);
    let told = around.told(&up, &place, &neighbour);

    install(&up, &plugin("escape", None, SANDBOX.tool()), "none").await;
    let by_tool = tried_by_tool(&up, &told.to_string()).await;
    let files = plugin("escape-init", Some("init.py"), SANDBOX.init(&told));
    install(&up, &files, "none").await;
    let shown = run(&up, "escape-init", "seen", &json!({})).await;
    let by_init = of_init(&shown).unwrap_or_else(|error| panic!("{who:?}: {error}: {shown}"));
    let mut wrong = went_wrong(&format!("{who:?}, tool"), &by_tool, &[]);
    wrong.extend(went_wrong(&format!("{who:?}, init"), &by_init.outcomes, &PUBLIC));
    let bearer = neighbour.bearer();
    let secrets = [CANARY, &up.token, &bearer];
    for (attempt, outcome) in by_tool.iter().chain(&by_init.outcomes) {
        if secrets.iter().any(|secret| outcome.contains(secret)) {
            wrong.push(format!("{who:?}, {attempt}: a secret was told"));
        }
    }

    around.stands_as_before();
    assert_eq!(neighbour.processes(), neighbour.before, "{who:?}: the neighbour runs on");
    assert_eq!(run(&up, "neighbour", "look", &json!({})).await, "there\n");
    assert!(!up.chat("What time is it?").await.is_empty());
    up.stop();
    wrong
}

async fn tried_by_tool(up: &Up, around: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for part in SANDBOX.parts {
        let said = run(up, "escape", "escape", &json!({"part": part, "around": around})).await;
        let of_part = of_part(part, &said);
        outcomes.extend(of_part.unwrap_or_else(|error| panic!("{part}: {error}: {said}")));
    }
    outcomes
}

fn went_wrong(who: &str, outcomes: &Outcomes, also: &[&str]) -> Vec<String> {
    let is_harmless = |attempt: &str| {
        HARMLESS.iter().any(|(name, _why)| *name == attempt) || also.contains(&attempt)
    };
    let mut wrong = judged(who, outcomes, is_harmless).wrong;
    let unknown = HARMLESS.iter().filter(|(name, _why)| !outcomes.contains_key(*name));
    wrong.extend(unknown.map(|(name, _why)| format!("{who}: nobody tries `{name}`")));
    wrong
}

/// The files of a plugin: these, and its manifest.
fn plugin(name: &str, init: Option<&str>, mut files: Vec<File>) -> Vec<File> {
    let mut manifest = json!({"name": name, "description": "Wants more than its own."});
    if let Some(init) = init {
        manifest["init"] = json!({"entrypoint": init, "async": true});
    }
    files.push(file("manifest.json", manifest.to_string()));
    files
}

fn file(path: &str, content: String) -> File {
    File { path: path.to_owned(), content }
}

/// Installs a plugin of these files with a yes to all of it, and waits until it serves.
async fn install(up: &Up, files: &[File], egress: &str) {
    let source = json!({"source": {"inline": {"files": files}}});
    let (status, offer) = up.post("/v1/plugins", source).await;
    assert!((200..300).contains(&status), "{status} {offer}");
    let path = format!("/v1/plugins/{}", offer["plugin"].as_str().unwrap());
    let yes = json!({"revision": offer["revision"], "tools": ["*"], "egress": egress});
    let (status, answer) = up.post(&format!("{path}/permit"), yes).await;
    assert!((200..300).contains(&status), "{status} {answer}");
    let begun = Instant::now();
    loop {
        let shown = up.get(&path).await;
        if shown["ready"] == json!(true) {
            return;
        }
        let failed = shown["reason"] == json!("InitFailed") || begun.elapsed() > PATIENCE;
        assert!(!failed, "it does not become ready: {shown}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a tool printed.
async fn run(up: &Up, plugin: &str, tool: &str, parameters: &Value) -> String {
    let path = format!("{}/v1/plugins/{plugin}/tools/{tool}/run", up.url);
    let request = client().post(path).bearer_auth(&up.token).timeout(PATIENCE);
    let answer = request.json(&json!({"parameters": parameters})).send().await.unwrap();
    let lines = answer.text().await.unwrap();
    let last: Value = serde_json::from_str(lines.lines().next_back().unwrap_or_default()).unwrap();
    let output = last["result"]["runs"][0]["output"]["text"].as_str();
    output.unwrap_or_else(|| panic!("{plugin} {tool}: {lines}")).to_owned()
}
