//! `kubectl` of a cluster: for people as a program in its folder, for ourselves as calls.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::namespace::{NETWORK, Namespaces};
use super::place::Place;
use super::processes;

/// Calls the API server from inside its network.
pub(super) struct Kubectl {
    program: PathBuf,
    args: Vec<String>,
}

impl Kubectl {
    /// Writes the program `kubectl` into the cluster's folder.
    pub(super) fn install(place: &Place, namespaces: &Namespaces, kubectl: &Path) -> Result<Self> {
        namespaces.show(place)?;
        let script = format!(
            "#!/bin/sh\nexec nsenter --net={} {} {} \"$@\"\n",
            place.text(NETWORK),
            kubectl.display(),
            server(place).join(" "),
        );
        let program = place.write("kubectl", script)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(Self::of(place))
    }

    /// The one that was installed.
    pub(super) fn of(place: &Place) -> Self {
        Self { program: place.at("kubectl"), args: Vec::new() }
    }

    /// One for a program that runs inside already.
    pub(super) fn inside(place: &Place, program: PathBuf) -> Self {
        Self { program, args: server(place).into() }
    }

    /// A call that is not made yet.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env(processes::SELDOM.0, processes::SELDOM.1);
        command
    }

    /// What a call prints, or what it complains about.
    pub(super) fn call(&self, args: &[&str]) -> Result<String> {
        self.with_input(args, "")
    }

    /// Applies objects, server side.
    pub(super) fn apply(&self, objects: &[Value]) -> Result<()> {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.with_input(&["apply", "--server-side", "-f", "-"], &list.to_string()).map(drop)
    }

    /// An object, or nothing when there is none.
    pub(super) fn get(&self, namespace: &str, kind: &str, name: &str) -> Result<Option<Value>> {
        let args = ["get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found"];
        let found = self.call(&args)?;
        if found.trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&found).map(Some).context("kubectl says no JSON")
    }

    /// All objects of some kinds, of all namespaces.
    pub(super) fn list(&self, kinds: &str) -> Result<Vec<Value>> {
        let found = self.call(&["get", kinds, "--all-namespaces", "-o", "json"])?;
        let mut found: Value = serde_json::from_str(&found).context("kubectl says no JSON")?;
        let Value::Array(items) = found["items"].take() else { bail!("kubectl says no list") };
        Ok(items)
    }

    fn with_input(&self, args: &[&str], input: &str) -> Result<String> {
        let mut child = self
            .command()
            .arg("--request-timeout=20s")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that ends early says why itself.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("`kubectl {}`: {}", args.join(" "), complaint.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Which server to speak to, and as whom.
fn server(place: &Place) -> [String; 2] {
    [
        format!("--kubeconfig={}", place.text("kubeconfig")),
        // The usual cache knows servers by address, and all clusters have the same one.
        format!("--cache-dir={}", place.text("kubectl-cache")),
    ]
}
