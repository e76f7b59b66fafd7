//! What a tool sees and reaches, and who may talk to the runner.

use std::process::Command;

use famulus_protocol::{Health, Landlock, SelfTest, paths};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Bench, call_id, json_of, program};

#[tokio::test]
async fn nothing_but_the_liveness_path_answers_without_the_bearer() {
    let bench = Bench::new();
    bench.tool("touch", json!({}), "#!/bin/sh\ntouch STATE/ran\n");
    let runner = bench.start();
    let id = call_id("c1");
    let doors = [
        (Method::GET, paths::HEALTH.to_owned()),
        (Method::POST, paths::SELF_TEST.to_owned()),
        (Method::POST, paths::call(&id)),
        (Method::GET, paths::call(&id)),
        (Method::GET, paths::progress(&id)),
        (Method::PUT, paths::upload(&id, 0)),
        (Method::GET, paths::file(&id, 0)),
        (Method::POST, paths::cancel(&id)),
        (Method::POST, paths::acknowledge(&id)),
        (Method::GET, "/nowhere".to_owned()),
    ];
    for (method, path) in doors {
        for bearer in [None, Some("wrong"), Some("a-bearer-for-test"), Some("a-bearer-for-testss")]
        {
            let status = runner.send_as(bearer, method.clone(), &path).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path} {bearer:?}");
        }
    }
    assert!(!bench.path("state/ran").exists());
    assert_eq!(runner.send_as(None, Method::GET, paths::ALIVE).await, StatusCode::OK);
    // A new bearer counts without a restart.
    bench.write("bearer", "another-bearer");
    let status = runner.send_as(Some("another-bearer"), Method::GET, paths::HEALTH).await;
    assert_eq!(status, StatusCode::OK);
    let status = runner.send_as(Some(crate::support::BEARER), Method::GET, paths::HEALTH).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn the_environment_holds_five_variables_and_no_more() {
    let bench = Bench::new();
    let script = "#!/usr/bin/env python3\nimport json\n\
        raw = open('/proc/self/environ').read().split('\\0')\n\
        print(json.dumps(dict(part.split('=', 1) for part in raw if part)))\n";
    bench.tool("environment", json!({}), script);
    let runner = bench.start();
    let seen = json_of(&runner.run("c1", "environment", json!({})).await);
    let mut names: Vec<&str> = seen.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "PATH", "TMPDIR", "UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR"]);
    assert_eq!(seen["HOME"], bench.path("cache/home").to_str().unwrap());
    assert_eq!(seen["PATH"], "/usr/bin:/bin");
}

#[tokio::test]
async fn no_descriptor_of_the_runner_reaches_a_tool() {
    let bench = Bench::new();
    let script = "#!/usr/bin/env python3\nimport json, os\nfound = []\n\
        for fd in range(1000):\n    try: found.append([fd, os.readlink(f'/proc/self/fd/{fd}')])\n\
        \x20   except OSError: pass\n\
        print(json.dumps(found))\n";
    bench.tool("descriptors", json!({}), script);
    // A descriptor that the runner was given and knows nothing of, open and without any mark.
    let mut shell = Command::new("/bin/sh");
    let bearer = bench.path("bearer");
    shell.args(["-c", "exec 9<\"$1\"; exec \"$2\"", "sh"]).arg(&bearer).arg(program());
    let runner = bench.run(shell, &[]);
    let own = format!("/proc/{}/fd/9", runner.child.id());
    if Bench::has_own_user() {
        assert!(
            std::fs::read_link(own).is_ok(),
            "the runner has the descriptor, or this proves nothing"
        );
    }
    let seen = json_of(&runner.run("c1", "descriptors", json!({})).await);
    let numbers: Vec<&Value> = seen.as_array().unwrap().iter().map(|one| &one[0]).collect();
    assert_eq!(numbers, [&json!(0), &json!(1), &json!(2)], "{seen}");
}

/// Tries each thing and says which worked.
const ESCAPE: &str = r"#!/usr/bin/env python3
import ctypes, json, os, resource, signal, socket
worked = []
def attempt(name, act):
    try:
        act()
        worked.append(name)
    except Exception:
        pass
def up(pid):
    return int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1])
supervisor = os.getppid()
runner = up(supervisor)
attempt('read the bearer', lambda: open('BEARER').read())
attempt('list kept results', lambda: os.listdir('KEPT'))
attempt('write kept results', lambda: open('KEPT/x', 'w'))
attempt('write beside the scratch folder', lambda: open('SCRATCH/other', 'w'))
attempt('write to the system', lambda: open('/etc/x', 'w'))
attempt('write to /tmp', lambda: open('/tmp/famulus-escape', 'w'))
attempt('write to /dev/shm', lambda: open('/dev/shm/famulus-escape', 'w'))
for name, pid in (('supervisor', supervisor), ('runner', runner)):
    attempt(f'read the environment of the {name}', lambda: open(f'/proc/{pid}/environ').read())
    attempt(f'open the memory of the {name}', lambda: open(f'/proc/{pid}/mem', 'rb'))
    attempt(f'list the descriptors of the {name}', lambda: os.listdir(f'/proc/{pid}/fd'))
    attempt(f'signal the {name}', lambda: os.kill(pid, signal.SIGCONT))
    def trace(pid=pid):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(16, pid, 0, 0) != 0:
            raise OSError(ctypes.get_errno())
    attempt(f'trace the {name}', trace)
    attempt(f'limit the {name}', lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)))
    attempt(f'slow the {name} down', lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attempt(f'idle the {name}', lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
    attempt(f'place the {name}', lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)))
attempt('slow its user down', lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt('hear of devices', lambda: socket.socket(16, socket.SOCK_RAW, 15))
# What programs do to themselves goes on.
resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))
os.setpriority(os.PRIO_PROCESS, 0, 19)
os.sched_setaffinity(0, os.sched_getaffinity(0))
socket.socket(16, socket.SOCK_RAW, 0).close()
status = open('/proc/self/status').read()
print(json.dumps({'worked': worked, 'no_new_privs': 'NoNewPrivs:\t1' in status,
    'supervisor': open(f'/proc/{supervisor}/comm').read().strip(), 'runner': open(f'/proc/{runner}/comm').read().strip()}))
";

#[tokio::test]
async fn a_tool_reaches_neither_the_runner_nor_what_belongs_to_it() {
    let bench = Bench::new();
    let text = |name: &str| bench.path(name).to_str().unwrap().to_owned();
    let script = ESCAPE
        .replace("BEARER", &text("bearer"))
        .replace("KEPT", &text("kept"))
        .replace("SCRATCH", &text("tmp"));
    bench.tool("escape", json!({}), &script);
    let runner = bench.start();
    let seen = json_of(&runner.run("c1", "escape", json!({})).await);
    assert_eq!(seen["supervisor"], seen["runner"], "both are this program, or this proves nothing");
    assert_eq!(seen["worked"], json!([]));
    assert_eq!(seen["no_new_privs"], true);
    let health =
        runner.send(Method::GET, paths::HEALTH, None).await.json::<Health>().await.unwrap();
    assert_eq!(health.isolation.unwrap().landlock, Landlock::Full);
}

#[tokio::test]
async fn the_self_test_proves_the_sandbox_and_names_what_is_broken() {
    let bench = Bench::new();
    bench.tool("good", json!({}), "#!/bin/sh\n");
    let runner = bench.start();
    let test = async || {
        let response = runner.send(Method::POST, paths::SELF_TEST, None).await;
        response.json::<SelfTest>().await.unwrap()
    };
    let passed = test().await;
    assert!(passed.passed, "{passed:?}");
    let names: Vec<&str> = passed.checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!(names, ["manifests", "process", "reach", "confinement"]);
    assert_eq!(passed.isolation.unwrap().landlock, Landlock::Full);
    bench.write("plugins/test/good/manifest.json", "{}");
    let failed = test().await;
    assert!(!failed.passed);
    assert!(failed.checks[0].detail.contains("good/manifest.json: key `name` is missing"));
    // Whoever cannot hide the bearer does not start at all.
    let mut command = Command::new(program());
    command.env_clear().env("FAMULUS_RUNNER_PLUGIN", bench.path("plugins/test"));
    command.env("FAMULUS_RUNNER_BEARER_FILE", bench.path("plugins/test/bearer"));
    command.env("FAMULUS_RUNNER_KEPT", bench.path("kept"));
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("which tools can reach; put it elsewhere"), "{said}");
}

#[tokio::test]
async fn a_runner_without_a_mount_does_not_wait_for_one() {
    let bench = Bench::new();
    bench.tool("t", json!({}), "#!/bin/sh\necho 1\n");
    let runner = bench.start();
    let body = json!({"tool": "t", "parameters": {}});
    let response = runner.call_with((crate::support::BEARER, 7), "c1", body).await;
    assert_eq!(response.status(), StatusCode::OK);
}
