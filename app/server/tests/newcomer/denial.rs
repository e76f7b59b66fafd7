//! Taking all there is on one machine: each attempt ends with an error that names what was taken, and while it
//! goes on the assistant answers, its neighbour serves, and nothing of it stays.

use crate::{
    home::{PATIENCE, printed},
    processes::{self, Stat},
    up::{Place, Up, client},
    who::Who,
};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, iter,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// What is taken, and words of what the caller reads of it.
const ATTACKS: [(&str, &str); 12] = [
    ("forks", "more than 128, and was ended"),
    ("memory", TOO_MUCH),
    ("memories", TOO_MUCH),
    ("scratch", "No space left on device"),
    ("flood", "the output was cut: "),
    ("daemons", "processes that the tool left running were ended"),
    ("descriptors", "Too many open files"),
    ("threads", "can't start new thread"),
    ("deaf", "was not done after 30 s"),
    ("busy", "calculated"),
    ("processors", "was not done after 30 s"),
    ("state", "became more than they may be"),
];

const TOO_MUCH: &str = "close to its memory limit and the tool was ended";

/// How long one waits for an answer meanwhile. Alone it takes far less than a second, and much more beside other
/// tests on two slow cores; who has to wait for the attack to end waits for half a minute.
const ANSWERED: Duration = Duration::from_secs(10);

/// What is tried day by day: as root what the kernel limits where it can, and what nobody gives back by
/// himself; as an ordinary user what the runner holds alone. Who takes all processors does it for a while, and in the
/// soak for as long as a call may.
fn daily(who: Who, what: &str) -> bool {
    match who {
        Who::Root => !["daemons", "descriptors", "deaf", "processors"].contains(&what),
        Who::Ordinary => ["forks", "memories", "scratch", "threads"].contains(&what),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_all_there_is_leaves_the_assistant_of_root_answering() {
    assert!(geteuid().is_root(), "run this test as root");
    taken(Who::Root, daily).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_all_there_is_leaves_the_assistant_of_an_ordinary_user_answering() {
    taken(Who::Ordinary, daily).await;
}

/// All of it: two of them last as long as a call may.
mod soak {
    use super::{Who, taken};

    #[tokio::test(flavor = "multi_thread")]
    async fn whatever_is_taken_leaves_the_assistant_answering() {
        taken(Who::Root, |_, _| true).await;
        taken(Who::Ordinary, |_, _| true).await;
    }
}

async fn taken(who: Who, is_tried: fn(Who, &str) -> bool) {
    let place = who.place("denial");
    let up = Up::from(&place, who.famulus(&place, &["up"]));
    for name in ["greedy", "frugal"] {
        install(&up, name).await;
        is_usable(&up, name).await;
    }
    Sandboxes::of(&up).are_limited(&doctor(&place, &up, who));
    for (what, words) in ATTACKS.into_iter().filter(|(what, _)| is_tried(who, what)) {
        attacked(&up, who, what, words).await;
    }
    let sandboxes = Sandboxes::of(&up);
    up.stop();
    sandboxes.are_gone().await;
}

/// One attack, beside which everything else goes on.
async fn attacked(up: &Up, who: Who, what: &str, words: &str) {
    let has_ended = AtomicBool::new(false);
    let attack = async {
        let said = run(up, "greedy", what).await;
        has_ended.store(true, Ordering::Relaxed);
        said
    };
    let hindered = async {
        if (who, what) == (Who::Root, "forks") {
            hold_supervisor(up).await;
        }
    };
    let (said, (), ()) = tokio::join!(attack, answers(up, &has_ended), hindered);
    let text = said.to_string();
    // Where nobody but the runner counts, what many hold may be too much before they are too many.
    let also = (who, what) == (Who::Ordinary, "forks") && text.contains(TOO_MUCH);
    assert!(text.contains(words) || also, "{who:?}, {what}: {}", short(&said));
    if what == "state" {
        // It stays too much until the owner removes it.
        let refused = run(up, "greedy", "others").await;
        assert!(refused.to_string().contains("are more than"), "{}", short(&refused));
        remove(up, "greedy").await;
        install(up, "greedy").await;
    }
    is_usable(up, "greedy").await;
}

/// Gives the supervisor of who forks no time for a while, as it is on a machine that is busy: there come to be as many
/// as the kernel lets, and they take the memory, too.
async fn hold_supervisor(up: &Up) {
    let begun = Instant::now();
    let supervisor = loop {
        let all = processes::all();
        let children = |of: u32| all.iter().filter(move |(_, stat)| stat.parent == of);
        let forks = |of: u32| children(of).any(|(tool, _)| children(*tool).next().is_some());
        let mut supervisors = processes::descendants(&all, up.child.id())
            .into_iter()
            .filter(|pid| processes::line(*pid).contains("supervise-one-call") && forks(*pid));
        if let Some(pid) = supervisors.next() {
            break Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "nobody forks");
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    kill_process(supervisor, Signal::STOP).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    kill_process(supervisor, Signal::CONT).unwrap();
}

/// Asks whatever else there is until the attack has ended, once at least.
async fn answers(up: &Up, has_ended: &AtomicBool) {
    loop {
        let lives = async || {
            for path in ["/livez", "/readyz"] {
                let asked = client().get(format!("{}{path}", up.url)).send().await.unwrap();
                assert_eq!(asked.status().as_u16(), 200, "{path}");
            }
        };
        let talks = async || assert!(!up.chat("What time is it?").await.is_empty());
        within("/livez and /readyz", lives()).await;
        within("a turn", talks()).await;
        within("a neighbour's call", is_usable(up, "frugal")).await;
        if has_ended.load(Ordering::Relaxed) {
            return;
        }
    }
}

async fn within(what: &str, answer: impl Future<Output = ()>) {
    let answered = tokio::time::timeout(ANSWERED, answer).await;
    assert!(answered.is_ok(), "{what} took more than {ANSWERED:?}");
}

/// A call works, and finds nobody of an earlier one.
async fn is_usable(up: &Up, name: &str) {
    let said = run(up, name, "others").await;
    assert_eq!(said["output"]["text"], "[]", "{name}: {}", short(&said));
}

/// What one run of the tool came to.
async fn run(up: &Up, plugin: &str, what: &str) -> Value {
    let path = format!("{}/v1/plugins/{plugin}/tools/attack/run", up.url);
    let request = client().post(path).bearer_auth(&up.token).timeout(PATIENCE * 2);
    let answer = request.json(&json!({"parameters": {"what": what}})).send().await.unwrap();
    let lines = answer.text().await.unwrap();
    let last = lines.lines().next_back().unwrap_or_default();
    let last: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{plugin}: {lines}"));
    // Who is refused has no run.
    if last["result"]["runs"][0].is_null() { last } else { last["result"]["runs"][0].clone() }
}

async fn install(up: &Up, name: &str) {
    let file = |path: &str, content: String| json!({"path": path, "content": content});
    let tool = json!({"name": "attack", "description": "Takes.", "entrypoint": "run.py",
        "parameters": {"what": {"type": "string", "description": "What is taken."}}});
    let run_py = include_str!("../../../../tests/plugins/denial/run.py");
    let files = [
        file("manifest.json", json!({"name": name, "description": "Takes."}).to_string()),
        file("attack/manifest.json", tool.to_string()),
        file("attack/run.py", run_py.to_owned()),
    ];
    let source = json!({"source": {"inline": {"files": files}}});
    let (status, offer) = up.post("/v1/plugins", source).await;
    assert!((200..300).contains(&status), "{status} {offer}");
    let (path, begun) = (format!("/v1/plugins/{name}"), Instant::now());
    let permit = json!({"revision": offer["revision"], "tools": ["*"]});
    let (status, answer) = up.post(&format!("{path}/permit"), permit).await;
    assert!((200..300).contains(&status), "{status} {answer}");
    loop {
        let shown = up.get(&path).await;
        if shown["ready"] == json!(true) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{shown}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn remove(up: &Up, name: &str) {
    let gone = client().delete(format!("{}/v1/plugins/{name}", up.url)).bearer_auth(&up.token);
    let answer = gone.send().await.unwrap();
    let (status, said) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{status} {said}");
}

fn doctor(place: &Place, up: &Up, who: Who) -> String {
    let mut command = who.famulus(place, &["doctor", "--url", &up.url]);
    printed(&command.env("FAMULUS_TOKEN", &up.token).output().unwrap())
}

/// What the assistant started for its plugins, as the machine sees it.
struct Sandboxes {
    /// Processes, with when they began.
    processes: BTreeMap<u32, String>,
    /// Limits of control groups that they are in, and the assistant is not.
    limits: BTreeSet<PathBuf>,
}

/// Controllers, and the files of their limits in both versions.
const LIMITS: [(&str, &str, &str); 2] =
    [("memory", "memory.limit_in_bytes", "memory.max"), ("pids", "pids.max", "pids.max")];

impl Sandboxes {
    /// All that came of its launchers.
    fn of(up: &Up) -> Self {
        let all = processes::all();
        let assistant = up.child.id();
        let is_launcher = |(pid, stat): &(&u32, &Stat)| {
            stat.parent == assistant && processes::line(**pid).contains("famulus-runner")
        };
        let launchers = all.iter().filter(is_launcher).map(|(pid, _)| *pid);
        let of_one = |pid| iter::once(pid).chain(processes::descendants(&all, pid));
        let begun = |pid| (pid, all[&pid].begun.clone());
        let processes: BTreeMap<_, _> = launchers.flat_map(of_one).map(begun).collect();
        assert!(processes.len() >= 4, "two launchers, and their runners: {processes:?}");
        let own = limits(assistant);
        let of_all = processes.keys().flat_map(|pid| limits(*pid));
        let limits = of_all.filter(|limit| !own.contains(limit)).collect();
        Self { processes, limits }
    }

    /// By whom it is said; and the kernel's limits are there.
    fn are_limited(&self, doctor: &str) {
        if self.limits.is_empty() {
            let words = "memory and processes limited by its runner alone";
            assert!(doctor.contains(words), "{doctor}");
            return;
        }
        assert!(doctor.contains("limited by the kernel"), "{doctor}");
        for limit in &self.limits {
            let value: u64 = fs::read_to_string(limit).unwrap().trim().parse().unwrap();
            assert!(value <= 256 << 20, "{}: {value}", limit.display());
            let same = self.limits.iter().filter(|other| other.file_name() == limit.file_name());
            assert_eq!(same.count(), 2, "one for each plugin: {:?}", self.limits);
        }
    }

    /// Neither a process nor a group of them is there any more.
    async fn are_gone(&self) {
        let begun = Instant::now();
        loop {
            let lives = |(pid, begun): &(&u32, &String)| {
                processes::stat(**pid).is_some_and(|stat| stat.begun == **begun)
            };
            let living: Vec<_> = self.processes.iter().filter(lives).collect();
            let limits: Vec<_> = self.limits.iter().filter(|limit| limit.exists()).collect();
            if living.is_empty() && limits.is_empty() {
                return;
            }
            // Whoever is killed takes a moment.
            assert!(begun.elapsed() < Duration::from_secs(2), "{living:?} {limits:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The files that limit the control groups of a process.
fn limits(pid: u32) -> BTreeSet<PathBuf> {
    let told = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut found = BTreeSet::new();
    for line in told.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        for (controller, of_one, of_two) in LIMITS {
            let is_its = controllers.split(',').any(|one| one == controller);
            let (top, file) = if is_its { (controller, of_one) } else { ("", of_two) };
            if is_its || controllers.is_empty() {
                let group =
                    Path::new("/sys/fs/cgroup").join(top).join(path.trim_start_matches('/'));
                found.extend(Some(group.join(file)).filter(|limit| limit.exists()));
            }
        }
    }
    found
}

/// The beginning of it: an answer may be a MiB.
fn short(said: &Value) -> String {
    said.to_string().chars().take(2000).collect()
}
