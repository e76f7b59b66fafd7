//! A sandbox that reaches the internet, and nothing but it.

use std::fs;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use famulus_protocol::launch::LaunchNetwork;
use rustix::process::getuid;

use crate::bench::{Bench, Who, finished};
use crate::world::{FAR, FAR_V6, NEIGHBOUR, OWN, OWN_HOUSE, World, ran, told};

/// What programs in the sandbox try with.
const TOOLS: &str = "
import socket, sys, threading, time
def attempt(address, port=80):
    try:
        with socket.create_connection((address, port), 5) as one:
            one.sendall(b'hello')
            one.shutdown(socket.SHUT_WR)
            return one.recv(100).decode()
    except OSError as error:
        return type(error).__name__
def datagram(address, port=80, wait=5):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(wait)
        one.sendto(b'hello', (address, port))
        try:
            return one.recv(100).decode()
        except OSError as error:
            return type(error).__name__
";

/// Starts something in a sandbox of the world's machine.
fn start(world: &World, bench: &Bench, command: &[&str]) -> Child {
    let user = (bench.who == Who::Ordinary).then(|| bench.who.inside());
    let before = world.entering(user);
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    bench.start_as_root(&before, command)
}

/// Runs a program of Python there.
fn python(world: &World, bench: &Bench, program: &str) -> Output {
    let program = format!("{TOOLS}\n{program}");
    finished(start(world, bench, &["/usr/bin/python3", "-I", "-c", &program]))
}

fn says(world: &World, bench: &Bench, program: &str) -> String {
    let output = python(world, bench, program);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {}: {told}", bench.who, output.status);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn bench(who: Who) -> Bench {
    let mut bench = Bench::new(who);
    bench.order.network = LaunchNetwork::Internet { also: Vec::new() };
    bench
}

/// Networks are made by root alone.
fn everybody() -> Vec<Who> {
    assert!(getuid().is_root(), "these tests make networks; run them as root");
    Who::all()
}

#[test]
fn the_internet_is_reached_and_the_house_is_not() {
    let world = World::new();
    for who in everybody() {
        let bench = bench(who);
        let said = says(
            &world,
            &bench,
            &format!(
                "print(attempt('{FAR}'), attempt('{FAR_V6}'), datagram('{FAR}'))
print(attempt('{FAR}', 9))
for private in ('{OWN}', '{OWN_HOUSE}', '{NEIGHBOUR}', '169.254.169.254', '192.0.0.1', '192.0.0.3',
                '2001:db8:77::1', '::ffff:{NEIGHBOUR}', 'fd66:616d:756c::1', '127.0.0.1'):
    print(attempt(private))
print(datagram('{NEIGHBOUR}', wait=1), datagram('{OWN}', wait=1))
print(sorted(name for _, name in socket.if_nameindex()))"
            ),
        );
        let refused = "ConnectionRefusedError";
        let none = [refused; 10].join("\n");
        assert_eq!(
            said,
            format!(
                "hello hello hello\n{refused}\n{none}\nTimeoutError TimeoutError\n['lo', 'net0']"
            ),
            "{who:?}"
        );
    }
}

#[test]
fn what_the_owner_names_is_reached_at_its_port() {
    let world = World::new();
    for who in everybody() {
        let mut bench = bench(who);
        let also = vec![format!("{NEIGHBOUR}:80").parse().unwrap()];
        bench.order.network = LaunchNetwork::Internet { also };
        let said = says(
            &world,
            &bench,
            &format!("print(attempt('{NEIGHBOUR}'), attempt('{NEIGHBOUR}', 81))"),
        );
        assert_eq!(said, "hello ConnectionRefusedError", "{who:?}");
    }
}

#[test]
fn names_are_those_of_the_machines_resolver() {
    let world = World::new();
    for who in everybody() {
        let said = says(
            &world,
            &bench(who),
            "print(socket.gethostbyname('far.example'), attempt('far.example'))
print(open('/etc/resolv.conf').read().strip())",
        );
        assert_eq!(said, format!("{FAR} hello\nnameserver 192.0.0.3"), "{who:?}");
    }
}

/// Connections end as they do elsewhere: by halves, all at once, and by force.
#[test]
fn a_connection_carries_much_and_ends_as_its_ends_want_it() {
    let world = World::new();
    for who in everybody() {
        let said = says(
            &world,
            &bench(who),
            &format!(
                "
with socket.create_connection(('{FAR}', 81), 60) as one:
    got = 0
    while piece := one.recv(1 << 20):
        got += len(piece)
    print(got)
whole = bytes(range(256)) * 65536
with socket.create_connection(('{FAR}', 80), 60) as one:
    threading.Thread(target=lambda: (one.sendall(whole), one.shutdown(socket.SHUT_WR))).start()
    got = b''
    while piece := one.recv(1 << 20):
        got += piece
    print(got == whole)
with socket.create_connection(('{FAR}', 82), 60) as one:
    one.sendall(b'x')
    try:
        print(one.recv(1))
    except OSError as error:
        print(type(error).__name__)
# One that is given up does not keep others.
for _ in range(20):
    given_up = socket.create_connection(('{FAR}', 81), 60)
    given_up.recv(10)
    given_up.close()
print(attempt('{FAR}'))"
            ),
        );
        assert_eq!(said, "33554432\nTrue\nConnectionResetError\nhello", "{who:?}");
    }
}

/// Whoever wants too much gets no more, and has the rest when he lets go of some.
#[test]
fn many_connections_have_an_end_and_datagrams_without_end_do_no_harm() {
    let world = World::new();
    for who in everybody() {
        let said = says(
            &world,
            &bench(who),
            &format!(
                "
held = []
for _ in range(400):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(('{FAR}', 80))
    held.append(one)
def is_open(one):
    try:
        one.getpeername()
        return True
    except OSError:
        return False
until = time.time() + 30
while sum(map(is_open, held)) < 256 and time.time() < until:
    time.sleep(0.1)
time.sleep(1)
print(sum(map(is_open, held)))
for one in held:
    one.close()
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flood.setblocking(False)
until = time.time() + 1
sent = 0
while time.time() < until:
    try:
        flood.sendto(b'x' * 1000, ('203.0.113.%d' % (sent % 200 + 10), sent % 60000 + 1))
        sent += 1
    except BlockingIOError:
        pass
time.sleep(1)
print(attempt('{FAR}'))"
            ),
        );
        assert_eq!(said, "256\nhello", "{who:?}");
    }
}

/// A machine that has no such file has sandboxes without the internet, and says why.
#[test]
fn without_the_file_of_interfaces_nothing_runs_and_why_is_said() {
    let world = World::new();
    world.in_machine("rm /dev/net/tun");
    for who in everybody() {
        let output = python(&world, &bench(who), "print('runs')");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            said.contains("no interface to the internet can be made from /dev/net/tun"),
            "{said}"
        );
        assert!(said.contains("load the module tun"), "{said}");
    }
}

/// Who serves the network ends with the sandbox, and the sandbox with him.
#[test]
fn a_sandbox_and_who_serves_its_network_end_together() {
    let world = World::new();
    for who in everybody() {
        let user = who.inside().to_string();
        for kills_network in [true, false] {
            let bench = bench(who);
            let mark = bench.path("root").display().to_string();
            let mut child = start(&world, &bench, &["/bin/sh", "-c", "echo; exec sleep 600"]);
            told(&mut child);
            let served = of_word(&mark, "network");
            assert_eq!(served.len(), 1, "{who:?}");
            let rights = fs::read_to_string(format!("/proc/{}/status", served[0])).unwrap();
            for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"]
            {
                assert!(rights.contains(line), "{who:?}: {line}\n{rights}");
            }
            assert!(rights.contains(&format!("Uid:\t{user}\t{user}\t{user}\t{user}")), "{rights}");
            let root = fs::read_dir(format!("/proc/{}/root", served[0])).unwrap();
            assert_eq!(root.count(), 0, "it sees no file");
            let killed = if kills_network { served[0] } else { child.id() };
            ran(&["kill", "-9", &killed.to_string()]);
            if kills_network {
                let ended = child.wait().unwrap();
                assert_eq!(ended.code(), Some(125), "{who:?}");
            } else {
                child.wait().unwrap();
            }
            let begun = Instant::now();
            while !of_word(&mark, "").is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(10), "{who:?}: it goes on");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Processes whose arguments name this folder, and have this word.
fn of_word(folder: &str, word: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.contains(folder) && (word.is_empty() || line.split('\0').any(|one| one == word))
    })
    .collect()
}
