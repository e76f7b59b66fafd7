//! schemathesis, which asks the API what its OpenAPI document promises: pinned with all that it needs, by
//! version and checksum, fetched by pip, and kept in the cache.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use xtask_shell::workspace::cache;
use xtask_shell::{Shell, digest, output_of, programs};

const PINS: &str = include_str!("../schemathesis.txt");

/// The folder of its modules, fetched if it is not there yet. It appears under its name only when it is
/// complete.
pub(crate) async fn obtain(shell: &mut Shell) -> Result<PathBuf> {
    programs::ensure(shell, &programs::BUILD).await?;
    let tools = cache().join("tools");
    // Some modules are compiled, for one version of Python.
    let tree = tools.join(format!(
        "schemathesis-{}-{}",
        &digest::sha256(PINS.as_bytes())[..12],
        python()?
    ));
    if tree.exists() {
        return Ok(tree);
    }
    fs::create_dir_all(&tools).with_context(|| {
        format!("cannot make {}; set FAMULUS_CACHE to another folder", tools.display())
    })?;
    let work = tempfile::Builder::new().prefix(".fetching-").tempdir_in(&tools)?;
    let pins = work.path().join("pins.txt");
    fs::write(&pins, PINS)?;
    let made = work.path().join("tree");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--require-hashes", "--no-deps", "--only-binary", ":all:"])
        .args(["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--quiet"])
        .args(["--root-user-action", "ignore", "--target"])
        .arg(&made)
        .arg("--requirement")
        .arg(&pins);
    shell.run(pip).await.context(
        "cannot fetch schemathesis; is there a way to the Python registry, and is python3 at least 3.11?",
    )?;
    match fs::rename(&made, &tree) {
        Ok(()) => {}
        Err(_) if tree.exists() => {} // another process was faster
        Err(error) => return Err(error).context("cannot put schemathesis in its place"),
    }
    Ok(tree)
}

/// What distinguishes compiled modules of one Python from those of another.
fn python() -> Result<String> {
    let mut asked = Command::new("python3");
    asked.args(["-c", "import sysconfig; print(sysconfig.get_config_var('SOABI'))"]);
    Ok(String::from_utf8(output_of(&mut asked)?).context("python3 says no text")?.trim().to_owned())
}
