//! What stands around the Pods: listeners on the node and in the internet beside it, and taps that see
//! what a Pod sends, whether or not anybody answers.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use famulus_cluster_tests::beside::node;
use famulus_cluster_tests::kubectl::{LONG, until};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UdpSocket;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// What a metadata service has on every cloud, and an address of a house. Neither is anybody here
/// without [`Listeners`].
pub(crate) const METADATA: &str = "169.254.169.254";
pub(crate) const HOUSE: &str = "192.168.77.7";
/// A server of the internet that takes whatever is sent.
pub(crate) const SINK: &str = "198.51.100.99";
/// Where listeners of the tests are on the node, at these of its addresses.
pub(crate) const PORT: u16 = 7000;
pub(crate) const NODE: [&str; 2] = ["172.30.0.2", "198.51.100.1"];

/// Answers every datagram and takes every connection; says what came, a line for each piece.
const LISTENER: &str = r#"
import socket, sys, threading, time

def bound(kind, where):
    while True:
        try:
            server = socket.socket(socket.AF_INET, kind)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
            server.bind(where)
            if kind == socket.SOCK_STREAM:
                server.listen()
            return server
        except OSError:
            # One of a test before is about to end.
            server.close()
            time.sleep(0.1)

def datagrams(server):
    while True:
        data, who = server.recvfrom(2048)
        server.sendto(data, who)

def connection(taken, who):
    with taken:
        while data := taken.recv(2048):
            print(who[0], len(data), flush=True)

def connections(server):
    while True:
        threading.Thread(target=connection, args=server.accept(), daemon=True).start()

for word in sys.argv[1:]:
    host, port = word.rsplit(":", 1)
    for kind, serve in (socket.SOCK_DGRAM, datagrams), (socket.SOCK_STREAM, connections):
        server = bound(kind, (host, int(port)))
        threading.Thread(target=serve, args=(server,), daemon=True).start()
print("listens", flush=True)
threading.Event().wait()
"#;

/// Says when who sent what to whom out of any interface; a few times a second each. The time is the
/// packet's own, in seconds since 1970.
const TAP: &str = r#"
import ctypes, socket, struct

TIMES = 35

tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
# Only what leaves an interface: the type of a packet is loaded, and compared with that.
words = [(0x28, 0, 0, 0xFFFFF004), (0x15, 0, 1, 4), (6, 0, 0, 128), (6, 0, 0, 0)]
code = b"".join(struct.pack("HBBI", *word) for word in words)
buffer = ctypes.create_string_buffer(code)
tap.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", len(words), ctypes.addressof(buffer)))
tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
tap.setsockopt(socket.SOL_SOCKET, TIMES, 1)
print("listens", flush=True)
told = {}
while True:
    data, extra, _, (_, kind, *_) = tap.recvmsg(128, 64)
    seconds, nanos = struct.unpack("qq", extra[0][2])
    now = seconds + nanos / 1e9
    if kind != 0x0800 or len(data) < 20:
        continue
    head = (data[0] & 15) * 4
    ports = data[head:head + 4]
    port = struct.unpack(">HH", ports)[1] if data[9] in (6, 17) and len(ports) == 4 else 0
    name = {6: "tcp", 17: "udp"}.get(data[9], str(data[9]))
    source, target = socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20])
    line = f"{source} {name} {target} {port}"
    if now > told.get(line, 0) + 0.2:
        told[line] = now
        print(f"{now:.6f} {line}", flush=True)
"#;

/// A program beside the Pods, and the lines that it said. It ends with this.
pub(crate) struct Beside {
    _child: Child,
    said: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Beside {
    async fn start(script: &str, words: &[String], network: Option<u32>) -> Self {
        let mut command = match network {
            Some(pid) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/proc/{pid}/ns/net")).arg("python3");
                command
            }
            None => Command::new("python3"),
        };
        command.args(["-c", script]).args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
        assert_eq!(first.unwrap().unwrap().as_deref(), Some("listens"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&said);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                to.lock().push((Instant::now(), line));
            }
        });
        Self { _child: child, said }
    }

    /// What it said, and when.
    pub(crate) fn said(&self) -> Vec<(Instant, String)> {
        self.said.lock().clone()
    }
}

/// Listeners where nobody may come.
pub(crate) struct Listeners {
    /// In the internet.
    pub(crate) internet: Beside,
    _node: Beside,
}

impl Listeners {
    pub(crate) async fn start() -> Self {
        let internet = internet();
        let enter = format!("--net=/proc/{internet}/ns/net");
        for address in [METADATA, HOUSE, SINK] {
            let whole = format!("{address}/32");
            let add = ["ip", "address", "replace", &whole, "dev", "eth0"];
            run("nsenter", &[&[enter.as_str()], &add[..]].concat()).await;
            let via = ["route", "replace", &whole, "via", "198.51.100.10", "dev", "internet0"];
            run("ip", &via).await;
        }
        let words = [METADATA, HOUSE, SINK].map(|address| format!("{address}:80"));
        let node = NODE.map(|address| format!("{address}:{PORT}"));
        Self {
            internet: Beside::start(LISTENER, &words, Some(internet)).await,
            _node: Beside::start(LISTENER, &node, None).await,
        }
    }
}

/// What Pods sent that got as far as a wire, the stack of the node, or another Pod, since a moment.
pub(crate) struct Taps {
    wires: Beside,
    since: SystemTime,
}

/// A table of the node's firewall that lets everything pass.
const COUNTED: &str = "famulus_tests";
const SETS: [&str; 2] = ["seen", "other"];

impl Taps {
    pub(crate) async fn start() -> Self {
        drop(Command::new("nft").args(["delete", "table", "ip", COUNTED]).output().await);
        // What an interface of a Pod lets in comes here; addresses of all Pods are in this range.
        let rules = format!(
            "table ip {COUNTED} {{
                set seen {{
                    type ipv4_addr . inet_proto . ipv4_addr . inet_service
                    flags dynamic
                    size 65535
                }}
                set other {{ type ipv4_addr . inet_proto . ipv4_addr; flags dynamic; size 65535; }}
                chain incoming {{
                    type filter hook prerouting priority -400
                    ip saddr 10.244.0.0/16 meta l4proto {{ tcp, udp }} \
                        add @seen {{ ip saddr . meta l4proto . ip daddr . th dport }}
                    ip saddr 10.244.0.0/16 meta l4proto != {{ tcp, udp }} \
                        add @other {{ ip saddr . meta l4proto . ip daddr }}
                }}
            }}"
        );
        run("nft", &[&rules]).await;
        Self { wires: Beside::start(TAP, &[], None).await, since: SystemTime::now() }
    }

    /// Forgets all that was seen until now. An address is somebody's for a time: what is seen from it
    /// is said to be of its Pod only if nobody else had it since the last call.
    pub(crate) async fn forget(&mut self) {
        for set in SETS {
            run("nft", &["flush", "set", "ip", COUNTED, set]).await;
        }
        self.since = SystemTime::now();
    }

    /// `FROM PROTOCOL TO PORT`, of everything that these addresses sent.
    pub(crate) async fn seen(&self, from: &BTreeSet<String>) -> BTreeSet<String> {
        self.until_told().await;
        let since = self.since.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let mut lines = BTreeSet::new();
        for (_, line) in self.wires.said() {
            let (time, line) = line.split_once(' ').unwrap();
            if time.parse::<f64>().unwrap() >= since {
                lines.insert(line.to_owned());
            }
        }
        for set in SETS {
            let listed = run("nft", &["list", "set", "ip", COUNTED, set]).await;
            let elements = listed.split_once("elements = {").map_or("", |(_, elements)| elements);
            let elements = elements.replace(['}', '\n', '\t'], " ");
            lines.extend(elements.split(',').map(|one| {
                let words: Vec<&str> = one.split(" . ").map(str::trim).collect();
                words.join(" ")
            }));
        }
        let is_from =
            |line: &String| line.split(' ').next().is_some_and(|source| from.contains(source));
        lines.into_iter().filter(is_from).collect()
    }

    /// Waits until the tap has told all that was sent before: it tells packets in their order, and
    /// this one is the last.
    async fn until_told(&self) {
        static LAST: AtomicU16 = AtomicU16::new(20_000);
        let port = LAST.fetch_add(1, Ordering::Relaxed);
        let end = UdpSocket::bind(("0.0.0.0", 0)).await.unwrap();
        end.send_to(b"last", (SINK, port)).await.unwrap();
        let mark = format!(" udp {SINK} {port}");
        until("the tap has told everything", LONG, async || {
            let said = self.wires.said();
            let is_told = said.iter().any(|(_, line)| line.ends_with(&mark));
            if is_told { Ok(()) } else { Err(format!("{} lines", said.len())) }
        })
        .await;
    }

    pub(crate) async fn end(self) {
        run("nft", &["delete", "table", "ip", COUNTED]).await;
    }
}

/// A process whose network is the internet's: the canary of this cluster.
fn internet() -> u32 {
    let mark = format!("FAMULUS_CLUSTER={}", node().display());
    let is_it = |pid: &u32| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let marked = read("environ").split(|byte| *byte == 0).any(|one| one == mark.as_bytes());
        marked && read("cmdline").starts_with(b"busybox\0httpd")
    };
    let entries = fs::read_dir("/proc").unwrap();
    let mut pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.find(is_it).expect("the cluster has an internet with a canary")
}

/// Runs a program of the machine; it must succeed.
pub(crate) async fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}
