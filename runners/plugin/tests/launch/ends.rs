//! How a sandbox ends, and what is left of it: nothing.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use famulus_protocol::launch::NOT_LAUNCHED;
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, Who, is_there};

const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a sandbox with processes that would stay, and waits until they are there.
fn started(bench: &Bench, seconds: &str) -> Child {
    let script = format!(
        "(setsid sleep {seconds} &); trap '' TERM; echo ready; sleep {seconds}; sleep {seconds}"
    );
    let mut child = bench.start(&["/bin/sh", "-c", &script]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let begun = Instant::now();
    while !is_there(seconds) {
        assert!(begun.elapsed() < PATIENCE, "the process is not seen from outside");
        sleep(Duration::from_millis(10));
    }
    child
}

fn until_gone(word: &str) {
    let begun = Instant::now();
    while is_there(word) {
        assert!(begun.elapsed() < PATIENCE, "a process of the sandbox is left");
        sleep(Duration::from_millis(10));
    }
}

/// The word by which processes of one test are known.
fn seconds(number: u32) -> String {
    (5_000_000 + std::process::id() % 100_000 * 10 + number).to_string()
}

#[test]
fn whoever_started_it_takes_it_along() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let word = seconds(1);
        let mut child = started(&bench, &word);
        // The death of a process closes what it held.
        drop(child.stdin.take());
        until_gone(&word);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(NOT_LAUNCHED.into()), "{who:?}");
    }
}

#[test]
fn a_launcher_that_is_killed_takes_it_along() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let word = seconds(2);
        let mut child = started(&bench, &word);
        child.kill().unwrap();
        until_gone(&word);
        child.wait().unwrap();
    }
}

#[test]
fn its_program_hears_that_it_is_to_end_and_its_code_is_told() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let script = "trap 'echo heard; exit 7' TERM; echo ready; while true; do sleep 0.01; done";
        let mut child = bench.start(&["/bin/sh", "-c", script]);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        output.read_to_string(&mut line).unwrap();
        assert_eq!(line, "ready\nheard\n", "{who:?}");
        assert_eq!(child.wait().unwrap().code(), Some(7), "{who:?}");
        let killed = bench.shell("sh -c 'kill -9 $$'; exit $?");
        assert_eq!(killed.status.code(), Some(137), "{who:?}");
    }
}
