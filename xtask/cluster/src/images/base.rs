//! The Debian that every image starts from.
//!
//! It takes the place of the image of the same name in a registry: a minimal root, with the licences of
//! what is in it and without other documentation, logs, caches, or a trace of the machine.

use std::process::Command;

use anyhow::{Context, Result};
use xtask_shell::{Shell, digest, output_of};

use super::storage::Storage;

/// The name in the FROM line of the Dockerfiles.
const NAME: &str = "docker.io/library/debian:trixie-slim";

const SUITE: &str = "trixie";

/// The C library of the suite, which is how new a program may be that is to run there.
pub(super) const GLIBC: (u32, u32) = (2, 41);

/// Seconds since 1970 of everything in an image.
pub(super) const DATE: &str = "0";

const OPTIONS: [&str; 11] = [
    "--quiet",
    "--mode=root",
    "--format=tar",
    "--variant=minbase",
    "--aptopt=Acquire::Languages \"none\"",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--customize-hook=rm -rf \"$1\"/var/log/* \"$1\"/var/cache/* \"$1\"/etc/hostname \"$1\"/etc/*-",
    "--customize-hook=: > \"$1\"/etc/resolv.conf; : > \"$1\"/etc/machine-id",
];

/// What the base depends on, as a short name.
pub(super) fn key() -> String {
    let recipe = format!("{NAME} {SUITE} {DATE} {OPTIONS:?} {}", std::env::consts::ARCH);
    digest::sha256(recipe.as_bytes())[..12].to_owned()
}

/// Makes the base unless the storage has it.
pub(super) async fn ensure(shell: &mut Shell, storage: &Storage) -> Result<()> {
    if storage.has(NAME) {
        return Ok(());
    }
    let work = tempfile::tempdir()?;
    let root = work.path().join("root.tar");
    let mut debootstrap = Command::new("mmdebstrap");
    debootstrap.env("SOURCE_DATE_EPOCH", DATE).args(OPTIONS).arg(SUITE).arg(&root);
    shell.run(debootstrap).await.context("cannot make a Debian; is its mirror within reach?")?;
    let made = output_of(storage.buildah().args(["from", "scratch"]))?;
    let container = String::from_utf8(made)?.trim().to_owned();
    let mut add = storage.buildah();
    add.args(["add", "--quiet", &container]).arg(&root).arg("/");
    shell.run(add).await?;
    output_of(storage.buildah().args(["config", "--cmd", "[\"bash\"]", &container]))?;
    let mut commit = storage.buildah();
    commit.args(["commit", "--quiet", "--rm", "--format=oci", "--identity-label=false"]).args([
        "--timestamp",
        DATE,
        &container,
        NAME,
    ]);
    shell.run(commit).await
}
