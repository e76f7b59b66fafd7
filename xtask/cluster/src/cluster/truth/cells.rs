//! The truth table of a network policy: who reaches whom, before, while and after it holds.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cluster::kubectl::Kubectl;
use crate::cluster::wait;

use super::pods::{Kind, Pod, make_namespace};

const NAMESPACE: &str = "cells";
const OTHER_NAMESPACE: &str = "cells-other";
const PORT: u16 = 8080;
const POLICY: &str = "friends-only";

/// How long a change may take until all cells are right.
const LIMIT: Duration = Duration::from_secs(30);

/// Who asks, and whether the policy lets them.
struct Client {
    namespace: &'static str,
    name: &'static str,
    label: &'static str,
    kind: Kind,
    allowed: bool,
}

const CLIENTS: [Client; 5] = [
    Client {
        namespace: NAMESPACE,
        name: "friend",
        label: "friend",
        kind: Kind::Runc,
        allowed: true,
    },
    Client {
        namespace: NAMESPACE,
        name: "stranger",
        label: "stranger",
        kind: Kind::Runc,
        allowed: false,
    },
    Client {
        namespace: OTHER_NAMESPACE,
        name: "foreign-friend",
        label: "friend",
        kind: Kind::Runc,
        allowed: false,
    },
    Client {
        namespace: NAMESPACE,
        name: "gvisor-friend",
        label: "friend",
        kind: Kind::Gvisor,
        allowed: true,
    },
    Client {
        namespace: NAMESPACE,
        name: "gvisor-stranger",
        label: "stranger",
        kind: Kind::Gvisor,
        allowed: false,
    },
];

const SERVERS: [(&str, Kind); 2] = [("server", Kind::Runc), ("gvisor-server", Kind::Gvisor)];

/// What is expected of a client while the policy is there.
#[derive(Clone, Copy)]
enum Policy {
    Obeyed,
    Ignored,
}

/// One question: does this client reach this server?
struct Cell<'a> {
    client: &'a Client,
    server: &'static str,
    address: String,
}

pub(super) async fn enforced(kubectl: &Kubectl) -> Result<String> {
    table(kubectl, Policy::Obeyed).await
}

pub(super) async fn ignored(kubectl: &Kubectl) -> Result<String> {
    table(kubectl, Policy::Ignored).await
}

async fn table(kubectl: &Kubectl, policy: Policy) -> Result<String> {
    let cells = set_up(kubectl).await?;
    expect(kubectl, &cells, "before", |_| true).await?;
    kubectl.apply(&[friends_only()])?;
    if matches!(policy, Policy::Ignored) {
        // Long enough for an enforcer to act, if there were one.
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let allowed = |client: &Client| match policy {
        Policy::Obeyed => client.allowed,
        Policy::Ignored => true,
    };
    expect(kubectl, &cells, "while the policy holds", allowed).await?;
    kubectl.call(&["delete", "networkpolicy", POLICY, "-n", NAMESPACE])?;
    expect(kubectl, &cells, "after", |_| true).await?;
    Ok(format!("{0} of {0} cells", cells.len() * 3))
}

async fn set_up(kubectl: &Kubectl) -> Result<Vec<Cell<'static>>> {
    make_namespace(kubectl, NAMESPACE).await?;
    make_namespace(kubectl, OTHER_NAMESPACE).await?;
    let clients = CLIENTS.iter().map(|client| Pod {
        namespace: client.namespace,
        name: client.name,
        label: client.label,
        kind: client.kind,
        serves: None,
    });
    let servers = SERVERS.iter().map(|(name, kind)| Pod {
        namespace: NAMESPACE,
        name,
        label: "server",
        kind: *kind,
        serves: Some(PORT),
    });
    let pods: Vec<Pod<'_>> = clients.chain(servers).collect();
    kubectl.apply(&pods.iter().map(Pod::object).collect::<Vec<_>>())?;
    let mut cells = Vec::new();
    for pod in &pods {
        let address = pod.ready(kubectl).await.with_context(|| pod.name.to_owned())?;
        let Some((server, _)) = SERVERS.iter().find(|(name, _)| *name == pod.name) else {
            continue;
        };
        cells.extend(CLIENTS.iter().map(|client| Cell {
            client,
            server,
            address: address.clone(),
        }));
    }
    Ok(cells)
}

fn friends_only() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY, "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": {"app": "server"}},
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [{"podSelector": {"matchLabels": {"app": "friend"}}}],
                "ports": [{"port": PORT, "protocol": "TCP"}],
            }],
        },
    })
}

/// Asks all cells, again and again until all are as expected.
async fn expect(
    kubectl: &Kubectl,
    cells: &[Cell<'_>],
    phase: &str,
    allowed: impl Fn(&Client) -> bool,
) -> Result<()> {
    let mut wrong = Vec::new();
    let waited = wait::until("the right answers", LIMIT, || {
        wrong.clear();
        for (cell, is_open) in cells.iter().zip(ask(kubectl, cells)?) {
            if is_open != allowed(cell.client) {
                let is = if is_open { "reaches" } else { "does not reach" };
                wrong.push(format!("{} {is} {}", cell.client.name, cell.server));
            }
        }
        Ok(wrong.is_empty().then_some(()))
    });
    match waited.await {
        Ok(()) => Ok(()),
        Err(error) if wrong.is_empty() => Err(error),
        Err(_) => bail!("{phase}: {}", wrong.join(", ")),
    }
}

/// Whether each cell is open, asked all at once.
fn ask(kubectl: &Kubectl, cells: &[Cell<'_>]) -> Result<Vec<bool>> {
    thread::scope(|scope| {
        let asked: Vec<_> =
            cells.iter().map(|cell| scope.spawn(move || cell.is_open(kubectl))).collect();
        let answer = |one: thread::ScopedJoinHandle<'_, Result<bool>>| {
            one.join().unwrap_or_else(|_| bail!("the question itself broke"))
        };
        asked.into_iter().map(answer).collect()
    })
}

impl Cell<'_> {
    fn is_open(&self, kubectl: &Kubectl) -> Result<bool> {
        let script = format!(
            "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {} {PORT} | grep -q HTTP \
             && echo open || echo closed",
            self.address
        );
        let Client { namespace, name, .. } = self.client;
        let said = kubectl.call(&["exec", "-n", namespace, name, "--", "sh", "-c", &script])?;
        match said.trim() {
            "open" => Ok(true),
            "closed" => Ok(false),
            other => bail!("{name} says {other:?}"),
        }
    }
}
