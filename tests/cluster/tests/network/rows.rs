//! Pods that try to reach others when they are asked to.

use std::net::IpAddr;
use std::time::Duration;

use famulus_cluster_tests::kubectl::{self, LONG, fed, kubectl, object, objects, until};
use famulus_cluster_tests::release;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::outside::PORT;

/// A namespace that has nothing to do with Famulus.
pub(crate) const BESIDE: &str = "network-beside";

/// Whoever stands behind Deployments may make Pods in the sandbox; this is how the operator's come.
const CONTROLLER: &str = "--as=system:serviceaccount:kube-system:replicaset-controller";

/// Answers datagrams; takes a line with what to try, and says what came of each.
///
/// `silent` is what a policy does. A refusal or a router's word means that a packet was let out.
const PROBER: &str = r#"
import json, os, select, socket, socketserver, threading
from concurrent.futures import ThreadPoolExecutor

QUESTION = bytes.fromhex("beef01000001000000000000") + b"\x06canary\x07example\x00\x00\x01\x00\x01"

def tried(cell, patience):
    kind, host, port = cell
    try:
        if kind == "tcp":
            socket.create_connection((host, port), timeout=patience).close()
            return "open"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.settimeout(patience)
            end.connect((host, port))
            end.send(QUESTION)
            end.recv(512)
            return "open"
    except TimeoutError:
        return "silent"
    except OSError as error:
        return error.strerror

def looked(cell):
    for _ in range(3):
        said = tried(cell, 0.4)
        if said != "silent":
            return said
    return said

def watched(cells, ended):
    rounds, heard = 0, []
    while not ended.is_set():
        ends, ready = [], select.poll()
        for kind, host, port in cells:
            of = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
            end = socket.socket(socket.AF_INET, of)
            end.setblocking(False)
            end.connect_ex((host, port))
            if kind == "udp":
                end.send(QUESTION)
            ready.register(end, select.POLLOUT if kind == "tcp" else select.POLLIN)
            ends.append(end)
        ended.wait(0.05)
        for descriptor, _ in ready.poll(0):
            number = [end.fileno() for end in ends].index(descriptor)
            error = ends[number].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            heard.append([number, os.strerror(error) if error else "open"])
        for end in ends:
            end.close()
        rounds += 1
    return {"rounds": rounds, "heard": heard}

class Asked(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline()
        if not line:
            return
        wanted = json.loads(line)
        if "look" in wanted:
            with ThreadPoolExecutor(32) as pool:
                answer = list(pool.map(looked, wanted["look"]))
        else:
            ended, answer = threading.Event(), {}
            watch = threading.Thread(
                target=lambda: answer.update(watched(wanted["watch"], ended)))
            watch.start()
            self.wfile.write(b"watches\n")
            self.rfile.readline()
            ended.set()
            watch.join()
        self.wfile.write(json.dumps(answer).encode() + b"\n")

def echo():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("", 7000))
        while True:
            data, who = server.recvfrom(512)
            server.sendto(data, who)

socketserver.ThreadingTCPServer.daemon_threads = True
threading.Thread(target=echo, daemon=True).start()
runner = socketserver.ThreadingTCPServer(("", 8090), Asked)
threading.Thread(target=runner.serve_forever, daemon=True).start()
socketserver.ThreadingTCPServer(("", 7000), Asked).serve_forever()
"#;

/// What is tried: protocol, address, port.
pub(crate) type Cell = (&'static str, String, u16);

/// A Pod that tries.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
}

/// A row that watches.
pub(crate) struct Watch {
    pub(crate) row: String,
    stream: BufReader<TcpStream>,
}

impl Row {
    pub(crate) async fn look(&self, cells: &[Cell]) -> Vec<String> {
        let mut stream = self.asked(&json!({"look": cells})).await;
        serde_json::from_str(&line(&mut stream).await).unwrap()
    }

    /// Tries without a pause from now on.
    pub(crate) async fn watch(&self, cells: &[Cell]) -> Watch {
        let mut stream = self.asked(&json!({"watch": cells})).await;
        assert_eq!(line(&mut stream).await, "watches\n");
        Watch { row: self.name.clone(), stream }
    }

    /// A node reaches its Pods, whatever the policies say.
    async fn asked(&self, wanted: &Value) -> BufReader<TcpStream> {
        let what = format!("{} can be asked", self.name);
        let mut stream = until(&what, LONG, async || {
            let dialled = timeout(Duration::from_secs(2), TcpStream::connect((self.address, PORT)));
            dialled.await.map_err(|late| late.to_string())?.map_err(|error| error.to_string())
        })
        .await;
        stream.write_all(format!("{wanted}\n").as_bytes()).await.unwrap();
        BufReader::new(stream)
    }
}

impl Watch {
    /// How often each cell was tried, and what was heard: the number of the cell, and what.
    pub(crate) async fn end(mut self) -> (u64, Vec<(usize, String)>) {
        self.stream.write_all(b"end\n").await.unwrap();
        let told: Value = serde_json::from_str(&line(&mut self.stream).await).unwrap();
        let rounds = told["rounds"].as_u64().unwrap();
        (rounds, serde_json::from_value(told["heard"].clone()).unwrap())
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    timeout(LONG, stream.read_line(&mut line)).await.unwrap().unwrap();
    line
}

/// The image of the release's runners.
pub(crate) async fn image() -> String {
    let name = release::name();
    let operator = object(&name, "deployment", &format!("{name}-operator")).await.unwrap();
    let variables = &operator["spec"]["template"]["spec"]["containers"][0]["env"];
    let mut variables = variables.as_array().unwrap().iter();
    let image = variables.find(|one| one["name"] == "FAMULUS_OPERATOR_RUNNER_IMAGE").unwrap();
    image["value"].as_str().unwrap().to_owned()
}

/// A Pod of the sandbox in every respect but for what runs in it.
pub(crate) fn pod(name: &str, labels: &Value, command: &[&str], image: &str) -> Value {
    let mut all = json!({"famulus.test/of": "network"});
    for (key, value) in labels.as_object().unwrap() {
        all[key] = value.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": all},
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 20000, "runAsGroup": 20000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "row", "image": image, "imagePullPolicy": "IfNotPresent",
                "command": command,
                "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "96Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    })
}

/// Makes Pods, as the controllers make those of the operator.
pub(crate) async fn make(namespace: &str, pods: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    let mut args = vec!["-n", namespace, "create"];
    if namespace.ends_with("-sandbox") {
        args.push(CONTROLLER);
    }
    feed(&args, &list).await;
}

/// Gives an object to kubectl, which must take it.
pub(crate) async fn feed(args: &[&str], object: &Value) {
    let said = fed(args, &object.to_string()).await;
    said.unwrap_or_else(|complaint| panic!("{args:?}: {complaint}"));
}

/// Pods that try, one for each of these namespaces and labels. Those of an earlier attempt are gone.
pub(crate) async fn stand(wanted: &[(&str, &str, Value)]) -> Vec<Row> {
    remove().await;
    let image = image().await;
    kubectl::apply(
        "default",
        &json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BESIDE},
        })
        .to_string(),
    )
    .await
    .unwrap();
    for (name, namespace, labels) in wanted {
        make(namespace, &[pod(name, labels, &["python3", "-u", "-c", PROBER], &image)]).await;
    }
    let mut rows = Vec::new();
    for (name, namespace, _) in wanted {
        let address = until(&format!("{name} has an address"), LONG, async || {
            let pod = object(namespace, "pod", name).await.ok_or("it is not there")?;
            let address = pod["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok());
            address.ok_or_else(|| pod["status"].to_string())
        })
        .await;
        rows.push(Row { name: (*name).to_owned(), address });
    }
    rows
}

/// Removes every Pod that these tests made.
pub(crate) async fn remove() {
    let release = release::name();
    let sandbox = format!("{release}-sandbox");
    for namespace in [release.as_str(), &sandbox, BESIDE] {
        let mine =
            ["-n", namespace, "delete", "pods", "-l", "famulus.test/of=network", "--wait=false"];
        kubectl(&mine).await;
    }
    for namespace in [release.as_str(), &sandbox, BESIDE] {
        until("Pods of the tests are gone", LONG, async || {
            match objects(namespace, "pods", "famulus.test/of=network").await.len() {
                0 => Ok(()),
                left => Err(format!("{left} in {namespace}")),
            }
        })
        .await;
    }
}
