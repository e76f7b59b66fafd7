//! A Dockerfile becomes an image.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use xtask_shell::Shell;

use super::base;
use super::catalogue::Image;
use super::storage::Storage;

/// Lines of the log that are shown when a build fails.
const SHOWN: usize = 30;

/// Builds `image` from `context` and returns its id.
pub(super) async fn build(
    shell: &mut Shell,
    storage: &Storage,
    image: &Image,
    context: &Path,
) -> Result<String> {
    let (log, id) = (context.with_extension("log"), context.with_extension("id"));
    fs::remove_file(&log).ok();
    let mut command = storage.buildah();
    command
        .args(["build", "--layers", "--pull=never", "--format=oci", "--identity-label=false"])
        .args(["--quiet", "--timestamp", base::DATE, "--tag", &image.reference(), "--logfile"])
        .arg(&log)
        .arg("--iidfile")
        .arg(&id)
        .args(image.arguments())
        .arg(context);
    shell.run(command).await.with_context(|| {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
        format!("cannot build the image {}; {} ends with:\n{end}", image.name, log.display())
    })?;
    Ok(fs::read_to_string(&id)?.trim().to_owned())
}
