//! Who takes more of the resolver than its share, in questions or in connections: its neighbour finds names
//! meanwhile, and no probe of the resolver fails.

use std::time::Duration;

use famulus_cluster_tests::kubectl::{object, ready_pod};
use famulus_cluster_tests::release::{Release, inline_of, name};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Questions within two seconds.
const QUESTIONS: u64 = 2_000;

/// Connections at a time: more than unbound takes, and than wait to be taken beside those.
const CONNECTIONS: u64 = 900;

/// What a kubelet waits for, and between two looks.
const PROBED: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(250);

/// Says when it began and ended, and what came of it.
const TAKE: &str = r#"#!/usr/bin/env python3
import json, selectors, socket, struct, sys, time

given = json.load(sys.stdin)
lines = open("/etc/resolv.conf").read().splitlines()
SERVER = next(line.split()[1] for line in lines if line.startswith("nameserver")), 53
QUESTION = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\x06canary\x07example\0\0\x01\0\x01"

def flood(count):
    """So many questions in two seconds, and the answers that come until a second later."""
    answers, sent, begun = 0, 0, time.time()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.setblocking(False)
        while (now := time.time() - begun) < 3 or sent < count:
            try:
                while sent < min(count, count * now / 2):
                    end.sendto(QUESTION, SERVER)
                    sent += 1
            except BlockingIOError:
                pass
            try:
                while end.recv(512):
                    answers += 1
            except BlockingIOError:
                time.sleep(0.005)
    return {"sent": sent, "answers": answers}

def crowd(count):
    """So many connections that say nothing, for five seconds; one that is closed is opened again."""
    ready, held, most, opened, until = selectors.DefaultSelector(), 0, 0, 0, time.time() + 5
    while time.time() < until:
        for _ in range(min(50, count - len(ready.get_map()))):
            end = socket.socket()
            end.setblocking(False)
            end.connect_ex(SERVER)
            ready.register(end, selectors.EVENT_WRITE, "new")
        for key, _ in ready.select(0.02):
            end = key.fileobj
            if key.data == "new" and not end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                held, opened = held + 1, opened + 1
                ready.modify(end, selectors.EVENT_READ, "held")
            else:
                held -= key.data == "held"
                ready.unregister(end)
                end.close()
        most = max(most, held)
    return {"held": most, "opened": opened}

def by_datagram():
    return bool(socket.getaddrinfo("canary.example", 80, socket.AF_INET))

def by_connection():
    """As a program does that was told that the answer is too long for a datagram."""
    for attempt in range(3):
        try:
            with socket.create_connection(SERVER, timeout=5) as end:
                end.sendall(struct.pack("!H", len(QUESTION)) + QUESTION)
                return len(end.recv(512)) > 2
        except OSError:
            pass

def ask(seconds):
    """Looks a name up again and again: when each began and ended, how, and whether it was found."""
    looks, until = [], time.time() + seconds
    while time.time() < until:
        for way in by_datagram, by_connection:
            begun = time.time()
            try:
                found = way()
            except OSError:
                found = False
            looks.append([way.__name__, begun, time.time(), bool(found)])
        time.sleep(0.1)
    return {"looks": looks}

begun = time.time()
said = {one.__name__: one for one in (flood, crowd, ask)}[given["what"]](given["number"])
print(json.dumps(said | {"begun": begun, "ended": time.time()}))
"#;

fn plugin(name: &str) -> String {
    let manifest = json!({
        "name": "take", "description": "Takes names.", "entrypoint": "run.py", "parameters": {
            "what": {"type": "string", "description": "How."},
            "number": {"type": "integer", "description": "How many, or for how long."},
        },
    });
    let files = [("take/manifest.json", &*manifest.to_string()), ("take/run.py", TAKE)];
    inline_of(name, &files, "  state: Ephemeral\n  egress: {mode: Internet}\n")
}

#[tokio::test]
async fn who_asks_or_connects_without_end_gets_its_share_and_holds_up_neither_neighbour_nor_probe()
{
    let release = Release::open().await;
    let (greedy, neighbour) = ("crowd-greedy", "crowd-neighbour");
    for one in [greedy, neighbour] {
        release.apply(&plugin(one)).await;
    }
    for one in [greedy, neighbour] {
        release.condition(one, "Ready=True").await;
        // So that both have Pods.
        take(&release, one, "ask", 0).await;
    }
    let before = resolver().await;

    let asked = take(&release, neighbour, "ask", 6);
    let (flood, asked) = tokio::join!(late(take(&release, greedy, "flood", QUESTIONS)), asked);
    let [begun, ended] = ["begun", "ended"].map(|key| flood[key].as_f64().unwrap());
    let (sent, answers) = (flood["sent"].as_u64().unwrap(), flood["answers"].as_u64().unwrap());
    // A second may begin and end within it, and the limit is one of whole seconds.
    let share = per_second().await * ((ended - begun).ceil() as u64 + 1);
    println!("{answers} of {sent} questions were answered, of at most {share}");
    assert!(sent == QUESTIONS && share < sent / 2, "it was no flood: {flood}");
    assert!((1..=share).contains(&answers), "{answers} answers: {flood}");
    finds_names(&asked, begun, ended);

    let asked = take(&release, neighbour, "ask", 9);
    let crowd = late(take(&release, greedy, "crowd", CONNECTIONS));
    let (crowd, asked, knocks) = tokio::join!(crowd, asked, knock(&before));
    let [begun, ended] = ["begun", "ended"].map(|key| crowd[key].as_f64().unwrap());
    println!(
        "{} connections at a time, {} in all; {knocks} probes",
        crowd["held"], crowd["opened"]
    );
    assert!(crowd["held"].as_u64().unwrap() >= 500, "it was no crowd: {crowd}");
    finds_names(&asked, begun, ended);

    let after = resolver().await;
    let lives = |pod: &Value| {
        let container = &pod["status"]["containerStatuses"][0];
        (pod["metadata"]["uid"].clone(), container["restartCount"].clone())
    };
    assert_eq!(lives(&after), lives(&before), "it was not ended");
    release.delete(&[greedy, neighbour]).await;
}

/// When the other one is at it.
async fn late<T>(what: impl Future<Output = T>) -> T {
    sleep(Duration::from_secs(1)).await;
    what.await
}

/// Each look that the neighbour began in that time succeeded, in both ways, and not only when it was over.
fn finds_names(asked: &Value, begun: f64, ended: f64) {
    for way in ["by_datagram", "by_connection"] {
        let time = |look: &Value, place: usize| look[place].as_f64().unwrap();
        let looks = asked["looks"].as_array().unwrap().iter();
        let looks: Vec<&Value> = looks
            .filter(|look| look[0] == way && time(look, 1) > begun && time(look, 1) < ended)
            .collect();
        let longest = looks.iter().map(|look| time(look, 2) - time(look, 1)).fold(0.0, f64::max);
        println!("{way}: {} looks, the longest of {longest:.3} s", looks.len());
        assert!(looks.iter().all(|look| look[3] == true), "{way}: {asked}");
        assert!(looks.iter().any(|look| time(look, 2) < ended), "{way} waited: {asked}");
    }
}

/// Connects as the kubelet does, for as long as the crowd is there and a little; how often.
async fn knock(resolver: &Value) -> usize {
    let address = resolver["status"]["podIP"].as_str().unwrap();
    let ports = resolver["spec"]["containers"][0]["ports"].as_array().unwrap();
    let probe = &resolver["spec"]["containers"][0]["readinessProbe"]["tcpSocket"]["port"];
    let port = ports.iter().find(|port| port["name"] == *probe).unwrap();
    let target = format!("{address}:{}", port["containerPort"]);
    const KNOCKS: usize = 28;
    for number in 0..KNOCKS {
        let there = timeout(PROBED, TcpStream::connect(&target)).await;
        assert!(matches!(there, Ok(Ok(_))), "probe {number} of {target}: {there:?}");
        sleep(LOOK).await;
    }
    KNOCKS
}

async fn resolver() -> Value {
    ready_pod(&name(), "app.kubernetes.io/component=resolver").await
}

/// What one Pod may ask in a second.
async fn per_second() -> u64 {
    let config = object(&name(), "configmap", &format!("{}-resolver", name())).await.unwrap();
    let config = config["data"]["unbound.conf"].as_str().unwrap();
    let limit = config.lines().find_map(|line| line.trim().strip_prefix("ip-ratelimit: "));
    limit.unwrap().parse().unwrap()
}

async fn take(release: &Release, plugin: &str, what: &str, number: u64) -> Value {
    let said = release.run(plugin, "take", &json!({"what": what, "number": number})).await;
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let text = last["result"]["runs"][0]["output"]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{plugin}: {said}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{plugin}: {error}: {said}"))
}
