//! Keys, certificates and the kubeconfigs that name them: new ones for every start.

use std::fs;
use std::process::Command;

use anyhow::Result;
use serde_json::json;
use xtask_shell::output_of;

use super::place::{API_SERVICE, NODE, NODE_ADDRESS, Place};

/// A cluster for tests does not grow old.
const DAYS: &str = "30";

/// A certificate and what its owner may be called.
struct Certificate {
    name: &'static str,
    subject: String,
    names: Vec<String>,
    kubeconfig: bool,
}

/// Makes all of them, in the folder `keys`.
pub(super) fn create(place: &Place) -> Result<()> {
    place.make_folder("keys")?;
    // Empty: what a certificate says is said here, not in the machine's own settings.
    place.write("keys/openssl.cnf", "[req]\ndistinguished_name = name\n[name]\n")?;
    authority(place)?;
    let mut account = Command::new("openssl");
    account.args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out"]);
    output_of(account.arg(place.at("keys/accounts.key")))?;
    let mut public = Command::new("openssl");
    public.args(["pkey", "-pubout", "-in"]).arg(place.at("keys/accounts.key"));
    output_of(public.arg("-out").arg(place.at("keys/accounts.pub")))?;
    for certificate in certificates() {
        sign(place, &certificate)?;
        if certificate.kubeconfig {
            let config = kubeconfig(place, certificate.name);
            let path = format!("keys/{}.kubeconfig", certificate.name);
            place.write(&path, serde_json::to_vec_pretty(&config)?)?;
        }
    }
    Ok(())
}

fn certificates() -> Vec<Certificate> {
    let client = |name, subject: &str| Certificate {
        name,
        subject: subject.to_owned(),
        names: Vec::new(),
        kubeconfig: true,
    };
    let domains = ["", ".default", ".default.svc", ".default.svc.cluster.local"];
    let mut api: Vec<String> =
        domains.iter().map(|domain| format!("DNS:kubernetes{domain}")).collect();
    api.push("DNS:localhost".to_owned());
    api.extend(["127.0.0.1", API_SERVICE, NODE_ADDRESS].map(|address| format!("IP:{address}")));
    vec![
        Certificate {
            name: "apiserver",
            subject: "/CN=kube-apiserver".to_owned(),
            names: api,
            kubeconfig: false,
        },
        Certificate {
            kubeconfig: false,
            ..client("apiserver-kubelet", "/O=system:masters/CN=apiserver-kubelet")
        },
        client("admin", "/O=system:masters/CN=admin"),
        client("controller-manager", "/CN=system:kube-controller-manager"),
        client("scheduler", "/CN=system:kube-scheduler"),
        client("proxy", "/CN=system:kube-proxy"),
        Certificate {
            names: vec![format!("DNS:{NODE}"), format!("IP:{NODE_ADDRESS}")],
            ..client("kubelet", &format!("/O=system:nodes/CN=system:node:{NODE}"))
        },
    ]
}

fn authority(place: &Place) -> Result<()> {
    let mut command = request(place, "authority", "/CN=famulus-test-authority");
    command.args(["-addext", "basicConstraints=critical,CA:TRUE"]);
    command.args(["-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"]);
    output_of(&mut command).map(drop)
}

fn sign(place: &Place, certificate: &Certificate) -> Result<()> {
    let mut command = request(place, certificate.name, &certificate.subject);
    command.arg("-CA").arg(place.at("keys/authority.crt"));
    command.arg("-CAkey").arg(place.at("keys/authority.key"));
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.args(["-addext", "extendedKeyUsage=serverAuth,clientAuth"]);
    if !certificate.names.is_empty() {
        command.args(["-addext", &format!("subjectAltName={}", certificate.names.join(","))]);
    }
    output_of(&mut command).map(drop)
}

fn request(place: &Place, name: &str, subject: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-config"]).arg(place.at("keys/openssl.cnf"));
    command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    command.args(["-days", DAYS, "-subj", subject]);
    command.arg("-keyout").arg(place.at(&format!("keys/{name}.key")));
    command.arg("-out").arg(place.at(&format!("keys/{name}.crt")));
    command
}

fn kubeconfig(place: &Place, name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": place.name, "cluster": {
            "server": format!("https://{NODE_ADDRESS}:6443"),
            "certificate-authority": place.at("keys/authority.crt"),
        }}],
        "users": [{"name": name, "user": {
            "client-certificate": place.at(&format!("keys/{name}.crt")),
            "client-key": place.at(&format!("keys/{name}.key")),
        }}],
        "contexts": [{"name": place.name, "context": {"cluster": place.name, "user": name}}],
        "current-context": place.name,
    })
}

/// The administrator's kubeconfig, set beside the keys for people.
pub(super) fn publish(place: &Place) -> Result<()> {
    fs::copy(place.at("keys/admin.kubeconfig"), place.at("kubeconfig"))?;
    Ok(())
}
