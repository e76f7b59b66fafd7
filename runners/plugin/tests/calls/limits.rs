//! Time, processes, output and memory have bounds, and who hits one reads which.

use std::time::{Duration, Instant};

use famulus_protocol::{ANSWER_BYTES, RESULT_BYTES, Reason};
use serde_json::json;

use crate::support::{Bench, failure_of, lives, text_of, until};
use tokio::sync::Mutex;

/// Two bombs at once share the processors with those who are to end them: each waits for the other.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn a_tool_that_ignores_the_request_to_end_is_killed() {
    let bench = Bench::new();
    let deaf = "#!/bin/sh\ntrap '' TERM\necho $$ > STATE/pid\necho waiting >&2\n\
                while :; do sleep 0.1; done\n";
    bench.tool("deaf", json!({}), deaf);
    let runner = bench.start_with(&[("SYNC_SECONDS", "3"), ("GRACE_SECONDS", "0.5")]);
    let begun = Instant::now();
    let run = runner.run("c1", "deaf", json!({})).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(3500) && took < Duration::from_secs(25), "{took:?}");
    let failure = failure_of(&run);
    assert_eq!(failure.reason, Reason::Deadline);
    assert!(failure.message.starts_with("the tool was not done after 3 s"), "{failure:?}");
    assert!(failure.message.ends_with("waiting"), "{failure:?}");
    assert!(run.notes.iter().any(|note| note.contains("was killed")), "{:?}", run.notes);
    assert!(!lives(&bench.read("state/pid")));
}

#[tokio::test]
async fn a_tool_that_ends_when_it_is_asked_to_is_not_killed() {
    let bench = Bench::new();
    let polite =
        "#!/bin/sh\ntrap 'echo bye > STATE/bye; exit 0' TERM\nwhile :; do sleep 0.05; done\n";
    bench.tool("polite", json!({}), polite);
    let runner = bench.start_with(&[("SYNC_SECONDS", "3"), ("GRACE_SECONDS", "60")]);
    let run = runner.run("c1", "polite", json!({})).await;
    assert_eq!(failure_of(&run).reason, Reason::Deadline);
    assert_eq!(bench.read("state/bye"), "bye\n");
    assert!(!run.notes.iter().any(|note| note.contains("was killed")), "{:?}", run.notes);
    assert!(run.millis < 60_000, "{run:?}");
}

/// Two forks, a session of its own, no open pipe, deaf to what can be ignored.
const DAEMON: &str = r"#!/usr/bin/env python3
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        null = os.open('/dev/null', os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        with open('STATE/daemon.new', 'w') as file:
            file.write(str(os.getpid()))
        os.rename('STATE/daemon.new', 'STATE/daemon')
        time.sleep(300)
    os._exit(0)
os.wait()
while not os.path.exists('STATE/daemon'):
    time.sleep(0.01)
print('done')
";

#[tokio::test]
async fn a_daemon_does_not_outlive_its_call() {
    let bench = Bench::new();
    bench.tool("daemon", json!({}), DAEMON);
    let runner = bench.start();
    let run = runner.run("c1", "daemon", json!({})).await;
    assert_eq!(text_of(&run), "done\n");
    let daemon = bench.read("state/daemon");
    assert!(!daemon.is_empty());
    assert!(!lives(&daemon), "the daemon {daemon} lives on");
    assert!(run.notes.contains(&"1 processes that the tool left running were ended".to_owned()));
}

#[tokio::test]
async fn a_flood_of_output_is_cut_and_costs_no_memory() {
    let bench = Bench::new();
    bench.tool("flood", json!({}), "#!/bin/sh\nyes 0123456789 | head -c 200000000\n");
    bench.tool("endless", json!({}), "#!/bin/sh\nexec yes >&2\n");
    let settings = [("STDOUT_BYTES", "100000"), ("STDERR_BYTES", "1000"), ("SYNC_SECONDS", "60")];
    let runner = bench.start_with(&settings);
    let run = runner.run("c1", "flood", json!({})).await;
    assert_eq!(text_of(&run).len(), 100_000);
    let note = "the output was cut: 199900000 bytes are missing, the first 100000 are here";
    assert_eq!(run.notes, [note]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", runner.child.id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let peak: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(peak < 100_000, "the runner took {peak} kB");
    drop(runner);

    let runner = bench.start_with(&[("STDERR_BYTES", "1000"), ("SYNC_SECONDS", "0.5")]);
    let failure = failure_of(&runner.run("c2", "endless", json!({})).await);
    assert_eq!(failure.reason, Reason::Deadline);
    assert!(failure.message.len() < 1200, "{}", failure.message.len());
}

#[tokio::test]
async fn a_result_of_many_runs_is_as_large_as_one_may_be() {
    let bench = Bench::new();
    // A byte that takes six in JSON.
    bench.tool("big", json!({}), "#!/bin/sh\nhead -c 1000000 /dev/zero\n");
    let runner = bench.start();
    let items = vec![json!({}); 20];
    let result = runner.result("c1", "big", items.into()).await;
    assert_eq!(result.runs.len(), 20);
    let whole = result.runs.iter().filter(|run| text_of(run).len() == 1_000_000).count();
    assert_eq!(whole, 1);
    assert!(result.runs.iter().all(|run| text_of(run).len() > 2000));
    let note = &result.runs[19].notes[0];
    assert!(note.contains(&format!("may have {RESULT_BYTES} bytes")), "{note}");
    let size = serde_json::to_vec(&result).unwrap().len();
    assert!(size <= ANSWER_BYTES, "{size}");
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_and_leaves_nobody() {
    let _alone = ALONE.lock().await;
    let bench = Bench::new();
    // Bounded by itself when nobody has bounded it: the test may fail, the machine must not.
    let bomb = "#!/usr/bin/env python3\nimport os, time\nend = time.time() + 60\n\
                for _ in range(11):\n    try: os.fork()\n    except OSError: pass\n\
                while time.time() < end: time.sleep(0.1)\n";
    bench.tool("bomb", json!({}), bomb);
    bench.tool("calm", json!({}), "#!/bin/sh\necho calm\n");
    let runner = bench.start_with(&[("PROCESSES", "40"), ("SYNC_SECONDS", "60")]);
    let begun = Instant::now();
    let run = runner.run("c1", "bomb", json!({})).await;
    let failure = failure_of(&run);
    assert_eq!(failure.reason, Reason::Processes, "{failure:?}");
    assert!(failure.message.contains("more than 40"), "{failure:?}");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    if Bench::has_own_user() {
        assert_eq!(bench.others(&runner), Vec::<u32>::new());
    }
    assert_eq!(text_of(&runner.run("c2", "calm", json!({})).await), "calm\n");
}

/// Each of them makes others for as long as it lives; where it is told to, in a group of its own.
const BOMB: &str = r"#!/usr/bin/env python3
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
end = time.time() + 60
while time.time() < end:
    try:
        if os.fork() == 0 and GROUPS:
            os.setpgid(0, 0)
    except OSError:
        pass
";

#[tokio::test]
async fn a_fork_bomb_that_never_rests_is_ended() {
    let _alone = ALONE.lock().await;
    // Without a user of its own nothing would bound it while it is ended.
    assert!(Bench::has_own_user(), "this test must be run by root");
    let bench = Bench::new();
    for (tool, groups) in [("group", "False"), ("groups", "True")] {
        bench.tool(tool, json!({}), &BOMB.replace("GROUPS", groups));
        let runner = bench.start_with(&[("SYNC_SECONDS", "60")]);
        let begun = Instant::now();
        let failure = failure_of(&runner.run("c1", tool, json!({})).await);
        assert_eq!(failure.reason, Reason::Processes, "{tool}: {failure:?}");
        assert!(begun.elapsed() < Duration::from_secs(40), "{tool}: {:?}", begun.elapsed());
        assert_eq!(bench.others(&runner), Vec::<u32>::new());
    }
}

#[tokio::test]
async fn the_kernel_holds_a_tool_to_its_limits() {
    let bench = Bench::new();
    let limits = "#!/usr/bin/env python3\nimport json, resource as r, os\n\
        print(json.dumps({'core': r.getrlimit(r.RLIMIT_CORE)[1], 'files': r.getrlimit(r.RLIMIT_NOFILE)[1],\n\
        'size': r.getrlimit(r.RLIMIT_FSIZE)[1], 'threads': r.getrlimit(r.RLIMIT_NPROC)[1],\n\
        'leads': os.getsid(0) == os.getpid()}))\n";
    bench.tool("limits", json!({}), limits);
    let runner = bench.start_with(&[("DESCRIPTORS", "99"), ("FILE_BYTES", "4096")]);
    let run = runner.run("c1", "limits", json!({})).await;
    let seen = crate::support::json_of(&run);
    assert_eq!(
        (&seen["core"], &seen["files"], &seen["size"]),
        (&json!(0), &json!(99), &json!(4096))
    );
    assert_eq!(seen["leads"], true);
    if Bench::has_own_user() {
        assert_eq!(seen["threads"], 1024);
    }
}

#[tokio::test]
async fn a_call_ends_before_the_container_is_out_of_memory() {
    let bench = Bench::new();
    bench.write("cgroups/memory.max", "100000000\n");
    bench.write("cgroups/memory.current", "10000000\n");
    bench.write("cgroups/memory.stat", "inactive_file 0\n");
    bench.tool("grows", json!({}), "#!/bin/sh\ntouch STATE/begun\nsleep 60\n");
    let runner = bench.start();
    let call = runner.run("c1", "grows", json!({}));
    let grow = async {
        until("the tool runs", || bench.path("state/begun").exists()).await;
        bench.write("cgroups/memory.current", "96000000\n");
    };
    let (run, ()) = tokio::join!(call, grow);
    let failure = failure_of(&run);
    assert_eq!(failure.reason, Reason::Memory);
    assert!(failure.message.contains("memory limit"), "{failure:?}");
    assert!(run.millis < 30_000);
}

#[tokio::test]
async fn a_tool_that_the_kernel_ended_for_the_lack_of_memory_is_told_so() {
    let bench = Bench::new();
    bench.write("cgroups/memory.max", "100000000\n");
    bench.write("cgroups/memory.current", "10000000\n");
    bench.write("cgroups/memory.stat", "inactive_file 0\n");
    bench.write("cgroups/memory.events", "oom 0\noom_kill 0\n");
    let killed = "#!/bin/sh\ntouch STATE/begun\nwhile [ ! -e STATE/counted ]; do sleep 0.02; done\n\
                  kill -9 $$\n";
    bench.tool("killed", json!({}), killed);
    let runner = bench.start();
    let call = runner.run("c1", "killed", json!({}));
    let count = async {
        until("the tool runs", || bench.path("state/begun").exists()).await;
        bench.write("cgroups/memory.events", "oom 1\noom_kill 1\n");
        bench.write("state/counted", "");
    };
    let (run, ()) = tokio::join!(call, count);
    assert_eq!(failure_of(&run).reason, Reason::Memory);
}
