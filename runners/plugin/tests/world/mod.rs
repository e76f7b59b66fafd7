//! The world around a machine, for tests that root runs: the machine's own network, and behind it one that
//! plays the internet. Both are namespaces, and end with it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Addresses of the machine, its neighbour in the house, and of two on the internet, by ranges for documentation.
pub(crate) const OWN: &str = "203.0.113.1";
pub(crate) const OWN_HOUSE: &str = "192.168.77.1";
pub(crate) const NEIGHBOUR: &str = "192.168.77.9";
pub(crate) const FAR: &str = "203.0.113.9";
pub(crate) const FAR_V6: &str = "2001:db8:77::9";

/// What the far side does: it answers at a port of TCP with what it was sent, when it was sent all; at one of
/// UDP with the same; at another it gives much, and at another it ends a connection the hard way.
const FAR_SIDE: &str = r"
import socket, struct, threading
def served(port, serve):
    for family, address in ((socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(512)
        def accept(listener=listener):
            while True:
                one, _ = listener.accept()
                threading.Thread(target=serve, args=(one,), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
def echo(one):
    with one:
        got = b''
        while piece := one.recv(65536):
            got += piece
        one.sendall(got)
def much(one):
    with one:
        try:
            for _ in range(512):
                one.sendall(b'x' * 65536)
        except OSError:
            pass
def hard(one):
    one.recv(1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    one.close()
served(80, echo); served(81, much); served(82, hard)
def datagrams(port):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(('0.0.0.0', port))
    while True:
        bytes, who = one.recvfrom(65536)
        # A question for a name is answered with an address.
        answer = bytes
        if port == 53:
            answer = bytes[:2] + b'\x81\x80' + bytes[4:6] + b'\0\1\0\0\0\0' + bytes[12:]
            answer += b'\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4' + socket.inet_aton('203.0.113.9')
        one.sendto(answer, who)
for port in (53, 80):
    threading.Thread(target=datagrams, args=(port,), daemon=True).start()
print('serves', flush=True)
threading.Event().wait()
";

/// Networks that hold as long as this does.
pub(crate) struct World {
    machine: Child,
    far: Child,
    services: Vec<Child>,
}

impl Drop for World {
    fn drop(&mut self) {
        for child in self.services.iter_mut().chain([&mut self.machine, &mut self.far]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let holder = || {
            let namespaces = ["--net", "--mount", "sh", "-c", "echo; exec sleep 600"];
            let mut child = Command::new("unshare");
            let mut child = child.args(namespaces).stdout(Stdio::piped()).spawn().unwrap();
            told(&mut child);
            child
        };
        let mut world = Self { machine: holder(), far: holder(), services: Vec::new() };
        let far = world.far.id();
        world.in_machine(&format!(
            "ip link set lo up
             ip link add outward type veth peer name inward netns {far}
             ip address add {OWN}/24 dev outward
             ip address add {OWN_HOUSE}/24 dev outward
             ip -6 address add 2001:db8:77::1/64 dev outward nodad
             ip link set outward up
             mount -t tmpfs none /dev/net && mknod -m 666 /dev/net/tun c 10 200
             echo 'nameserver {FAR}' > /dev/net/resolv.conf
             mount --bind /dev/net/resolv.conf /etc/resolv.conf"
        ));
        let set_up = format!(
            "ip link set lo up
             ip address add {FAR}/24 dev inward
             ip address add {NEIGHBOUR}/24 dev inward
             ip -6 address add {FAR_V6}/64 dev inward nodad
             ip link set inward up"
        );
        ran(&borrowed(&entering(&world.far), &["sh", "-ec", &set_up]));
        let own = served(&world.machine, &["/usr/bin/python3", "-c", FAR_SIDE]);
        world.services.push(own);
        world.serve(&["/usr/bin/python3", "-c", FAR_SIDE]);
        world
    }

    /// Runs a script on the machine.
    pub(crate) fn in_machine(&self, script: &str) {
        ran(&borrowed(&self.entering(None), &["sh", "-ec", script]));
    }

    /// The words that start a program on the machine, by its user.
    pub(crate) fn entering(&self, user: Option<u32>) -> Vec<String> {
        let enter = entering(&self.machine);
        let user = user.map(|user| user.to_string());
        let become_user = user.iter().flat_map(|user| {
            ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"].map(str::to_owned)
        });
        enter.into_iter().chain(become_user).collect()
    }

    /// Starts a service on the internet, and waits until it says something.
    pub(crate) fn serve(&mut self, words: &[&str]) {
        self.services.push(served(&self.far, words));
    }
}

fn served(of: &Child, words: &[&str]) -> Child {
    let enter = entering(of);
    let mut service = Command::new(&enter[0]);
    service.args(&enter[1..]).args(["sh", "-c", "exec \"$0\" \"$@\" 2>&1"]).args(words);
    let mut service = service.stdout(Stdio::piped()).spawn().unwrap();
    told(&mut service);
    service
}

fn entering(of: &Child) -> Vec<String> {
    let id = of.id().to_string();
    ["nsenter", "--net", "--mount", "--target", &id].map(str::to_owned).into()
}

fn borrowed<'a>(first: &'a [String], then: &[&'a str]) -> Vec<&'a str> {
    first.iter().map(String::as_str).chain(then.iter().copied()).collect()
}

/// Waits for the first line.
pub(crate) fn told(child: &mut Child) {
    let said = child.stdout.as_mut().unwrap();
    BufReader::new(said).read_line(&mut String::new()).unwrap();
}

pub(crate) fn ran(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {told}");
}
