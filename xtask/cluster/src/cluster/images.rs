//! The images of a cluster, made on the spot: OCI archives around programs that need nothing beside
//! themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use xtask_shell::{digest, output_of};

use super::build::Programs;
use super::load;
use super::place::Place;
use super::tar::{Archive, Entry};

/// Holds the namespaces of a Pod: sleeps, and buries orphans.
pub(super) const PAUSE: &str = "localhost/pause:1";
const PAUSE_COMMAND: [&str; 3] = ["/bin/sh", "-c", "sleep 2147483647 & wait"];

/// A shell and small tools, for tests.
pub(super) const BUSYBOX: &str = "localhost/busybox:1";
const BUSYBOX_COMMAND: [&str; 2] = ["/bin/sleep", "2147483647"];

/// Answers for names.
pub(super) const COREDNS: &str = "localhost/coredns:1";
const COREDNS_COMMAND: [&str; 3] = ["/bin/coredns", "-conf", "/etc/coredns/Corefile"];

/// Nobody: no image of ours runs as root.
const USER: &str = "65532";

/// Where archives are set down for the import.
const FOLDER: &str = "images";

/// Writes the archives.
pub(super) fn create(place: &Place, programs: &Programs) -> Result<()> {
    let coredns = programs.path("coredns")?;
    let coredns =
        fs::read(&coredns).with_context(|| format!("cannot read {}", coredns.display()))?;
    let (tools, coredns) = (tools(&busybox()?)?, alone("bin/coredns", &coredns)?);
    for (file, name, layer, command) in [
        ("pause", PAUSE, &tools, &PAUSE_COMMAND[..]),
        ("busybox", BUSYBOX, &tools, &BUSYBOX_COMMAND[..]),
        ("coredns", COREDNS, &coredns, &COREDNS_COMMAND[..]),
    ] {
        place.write(&format!("{FOLDER}/{file}.tar"), image(name, layer, command)?)?;
    }
    Ok(())
}

/// Hands every archive to containerd.
pub(super) fn import(place: &Place, ctr: &Path) -> Result<()> {
    for entry in fs::read_dir(place.at(FOLDER))? {
        load::import(place, ctr, &entry?.path())?;
    }
    Ok(())
}

/// The machine's busybox, which must need nothing beside itself.
fn busybox() -> Result<Vec<u8>> {
    let found = output_of(Command::new("sh").args(["-c", "command -v busybox"]))?;
    let path = PathBuf::from(String::from_utf8_lossy(&found).trim());
    let program = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    // A program that is loaded by another one names it near its beginning.
    let head = &program[..program.len().min(4096)];
    if head.windows(8).any(|bytes| bytes == b"ld-linux") {
        bail!("{} is not static; install the package busybox-static", path.display());
    }
    Ok(program)
}

/// A layer with one program that needs nothing beside itself.
fn alone(path: &str, program: &[u8]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.add("bin", 0o755, Entry::Folder)?;
    archive.add(path, 0o755, Entry::File(program))?;
    Ok(archive.finish())
}

/// A layer with a shell and its tools.
fn tools(busybox: &[u8]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "etc", "proc", "sys"] {
        archive.add(folder, 0o755, Entry::Folder)?;
    }
    archive.add("tmp", 0o1777, Entry::Folder)?;
    archive.add("bin/busybox", 0o755, Entry::File(busybox))?;
    let tools = output_of(Command::new("busybox").arg("--list"))?;
    let tools = String::from_utf8(tools).context("busybox lists no text")?;
    for tool in tools.lines().filter(|tool| *tool != "busybox") {
        archive.add(&format!("bin/{tool}"), 0o777, Entry::Link("busybox"))?;
    }
    Ok(archive.finish())
}

/// An archive of the OCI layout with one image of one layer.
fn image(name: &str, layer: &[u8], command: &[&str]) -> Result<Vec<u8>> {
    let layer = Blob::of("application/vnd.oci.image.layer.v1.tar", layer);
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"], "User": USER},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest()]},
    })
    .to_string();
    let config = Blob::of("application/vnd.oci.image.config.v1+json", config.as_bytes());
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": kind,
        "config": config.described(),
        "layers": [layer.described()],
    })
    .to_string();
    let manifest = Blob::of(kind, manifest.as_bytes());
    let mut entry = manifest.described();
    let tag = name.rsplit(':').next().unwrap_or_default();
    entry["annotations"] =
        json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag});
    let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    let mut archive = Archive::default();
    archive.add("oci-layout", 0o644, Entry::File(br#"{"imageLayoutVersion":"1.0.0"}"#))?;
    archive.add("index.json", 0o644, Entry::File(index.as_bytes()))?;
    for blob in [layer, config, manifest] {
        let path = format!("blobs/sha256/{}", blob.sum);
        archive.add(&path, 0o644, Entry::File(blob.content))?;
    }
    Ok(archive.finish())
}

/// A part of an image, with its checksum: some are large, so it is taken once.
struct Blob<'a> {
    kind: &'static str,
    content: &'a [u8],
    sum: String,
}

impl<'a> Blob<'a> {
    fn of(kind: &'static str, content: &'a [u8]) -> Self {
        Self { kind, content, sum: digest::sha256(content) }
    }

    fn digest(&self) -> String {
        format!("sha256:{}", self.sum)
    }

    fn described(&self) -> Value {
        json!({"mediaType": self.kind, "digest": self.digest(), "size": self.content.len()})
    }
}

/// The machine's architecture as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
