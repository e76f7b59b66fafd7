//! What is reached from a sandbox: sockets, networks, and the sandbox beside it.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::{fs, process};

use crate::bench::{Bench, Who};

/// Says for each address whether it was reached.
const TRY: &str = "
import socket, sys
def attempt(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(3)
        try:
            one.connect(address)
            return 'reached'
        except OSError as error:
            return type(error).__name__
";

#[test]
fn no_socket_of_the_machine_answers_but_those_that_are_given() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let everybody = fs::Permissions::from_mode(0o777);
        let listen = |name: &str| {
            let listener = UnixListener::bind(bench.path(name)).unwrap();
            fs::set_permissions(bench.path(name), everybody.clone()).unwrap();
            listener
        };
        let (_given, _other) = (listen("given/app"), listen("other"));
        // A process that another test starts in this moment may hold the one before.
        let name = format!("famulus-launch-{}-{who:?}", process::id());
        let hidden = SocketAddr::from_abstract_name(&name).unwrap();
        let _hidden = UnixListener::bind_addr(&hidden).unwrap();
        let other = bench.path("other");
        let said = bench.python(&format!(
            "{TRY}\nprint(attempt(socket.AF_UNIX, '/given/app'), attempt(socket.AF_UNIX, '{}'), \
             attempt(socket.AF_UNIX, '\\0{name}'))",
            other.display()
        ));
        assert_eq!(said, "reached FileNotFoundError ConnectionRefusedError", "{who:?}");
    }
}

#[test]
fn its_network_is_itself_alone() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let everywhere = TcpListener::bind("[::]:0").unwrap();
        let (port, other) =
            (listener.local_addr().unwrap().port(), everywhere.local_addr().unwrap().port());
        let said = bench.python(&format!(
            "{TRY}
print(attempt(socket.AF_INET, ('127.0.0.1', {port})), attempt(socket.AF_INET6, ('::1', {other})),
      attempt(socket.AF_INET, ('192.0.2.1', 80)), attempt(socket.AF_INET, ('169.254.169.254', 80)))
with socket.create_server(('127.0.0.1', 0)) as own:
    print(attempt(socket.AF_INET, own.getsockname()))
print(sorted(name for _, name in socket.if_nameindex()))"
        ));
        let refused = "ConnectionRefusedError";
        assert_eq!(
            said,
            format!("{refused} {refused} OSError OSError\nreached\n['lo']"),
            "{who:?}"
        );
    }
}

/// Shared memory, message queues and names belong to one sandbox.
#[test]
fn a_sandbox_beside_it_is_not_there() {
    for who in Who::all() {
        let bench = Bench::new(who);
        let mut neighbour = bench.start(&[
            "/bin/sh",
            "-c",
            "ipcmk -M 4096 > /dev/null; echo there > /dev/shm/name; echo ready; sleep 60",
        ]);
        let mut line = String::new();
        let stdout = neighbour.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        let seen =
            bench.says("ls /dev/shm; ipcs -m | grep -c 0x || true; ls /proc | grep -c '^[0-9]'");
        // The shell, and what it runs.
        assert!(seen.starts_with("0\n"), "{who:?}: {seen}");
        assert!(!bench.shell("kill -9 -1; kill -0 2").status.success());
        assert!(neighbour.try_wait().unwrap().is_none(), "the neighbour lives on");
        drop(neighbour.stdin.take());
        neighbour.wait().unwrap();
    }
}
