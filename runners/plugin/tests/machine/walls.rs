//! What a tool finds of the machine, of the assistant and of other plugins: nothing.

use std::fs;

use famulus_core::sandbox::Sandboxes;
use serde_json::{Value, json};

use crate::bench::{Bench, as_everybody, borrowed, files, shell};

/// Looks for whatever it can find, and says so.
const LOOK: &str = r#"#!/usr/bin/python3 -I
import json, os, socket, stat
found = {"reads": [], "writes": [], "sockets": [], "reached": [], "processes": []}
secrets = ["neighbour's secret", "the host's secret"]
def walk(top):
    for folder, names, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    with socket.socket(socket.AF_UNIX) as it:
                        it.connect(path)
                        found["sockets"].append(path)
                elif not path.startswith(("/proc", "/sys", "/usr", "/dev")) and os.path.getsize(path) < 100000:
                    text = open(path, errors="replace").read()
                    if any(secret in text for secret in secrets) or "bearer" in path:
                        found["reads"].append(path)
            except OSError:
                pass
walk("/")
for path in ("/usr/x", "/etc/x", "/famulus/x", "/famulus/kept/x", "/famulus/doors/x", "/x"):
    try:
        open(path, "w").close()
        found["writes"].append(path)
    except OSError:
        pass
for port in range(1, 65536):
    with socket.socket() as it:
        it.settimeout(0.2)
        try:
            it.connect(("127.0.0.1", port))
            # One that meets itself has reached nobody.
            if it.getsockname() != it.getpeername():
                found["reached"].append(port)
        except OSError:
            pass
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            found["processes"].append(open(f"/proc/{name}/cmdline").read().split("\0")[0])
        except OSError:
            pass
found["interfaces"] = [name for _, name in socket.if_nameindex()]
print(json.dumps(found))
"#;

#[test]
fn a_tool_finds_nothing_of_the_host_or_of_a_neighbour() {
    as_everybody("walls::a_tool_finds_nothing_of_the_host_or_of_a_neighbour", async || {
        let bench = Bench::new().await;
        let neighbour = bench.add("neighbour");
        bench.machine.configure(&neighbour.uid, &json!({"key": "the neighbour's secret"})).unwrap();
        let sleeps = shell("neighbour", "wait", "echo here");
        bench.install(&neighbour, &borrowed(&sleeps)).await;
        bench.call("neighbour", "wait", json!({})).await.unwrap();
        fs::write(bench.folder.path().join("secret"), "the host's secret").unwrap();

        let record = bench.add("curious");
        bench.install(&record, &borrowed(&files("curious", "look", false, LOOK))).await;
        let found = bench.call("curious", "look", json!({})).await.unwrap();
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["reads"], json!([]), "{found}");
        assert_eq!(found["writes"], json!([]), "{found}");
        assert_eq!(found["reached"], json!([]), "{found}");
        assert_eq!(found["interfaces"], json!(["lo"]), "{found}");
        // Its own: the app's door and its runner's, which both want a bearer.
        let sockets = found["sockets"].as_array().unwrap();
        let own = ["/famulus/doors/app", "/famulus/doors/run"];
        assert!(sockets.iter().all(|path| own.contains(&path.as_str().unwrap())), "{found}");
        let processes = found["processes"].as_array().unwrap();
        let others = |name: &&Value| {
            !["/famulus/runner", "/usr/bin/python3", "/proc/self/exe", "/proc/self/fd"]
                .iter()
                .any(|own| name.as_str().unwrap_or_default().starts_with(own))
        };
        let others: Vec<&Value> = processes.iter().filter(others).collect();
        assert!(others.iter().all(|name| name.as_str() == Some("")), "{found}");
        // Somebody who listens there was listening all the time.
        assert!(
            tokio::net::TcpStream::connect(bench.neighbour.local_addr().unwrap()).await.is_ok()
        );
        let state = bench.calls.plugins().await.unwrap();
        assert!(
            state.iter().all(|plugin| plugin
                .isolation
                .as_ref()
                .unwrap()
                .contains("namespaces of its own"))
        );
    });
}
