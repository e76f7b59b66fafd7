//! Whether an image does what it is for: its `proof` is run inside of it, as its user and without a network.

use std::process::Command;

use anyhow::{Context, Result};
use xtask_shell::workspace::root;
use xtask_shell::{Shell, output_of};

use super::catalogue::Image;
use super::storage::Storage;

/// Where the proof appears in the image.
const INSIDE: &str = "/proof";

/// Runs the proof of an image.
pub(super) async fn run(shell: &mut Shell, storage: &Storage, image: &Image) -> Result<()> {
    let script = root().join("images").join(image.folder).join("proof");
    let from = ["from", "--pull-never", &image.reference()];
    let made = output_of(storage.buildah().args(from))?;
    let container = String::from_utf8(made)?.trim().to_owned();
    // A network of its own, with nothing in it but itself.
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    let mut run = storage.buildah();
    let volume = format!("--volume={}:{INSIDE}:ro", script.display());
    run.args(["run", &volume, &container, "--", INSIDE]);
    command.arg(run.get_program()).args(run.get_args());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let proved = shell.run(command).await;
    output_of(storage.buildah().args(["rm", &container]))?;
    proved.with_context(|| format!("the image {} does not do what it is for", image.name))
}
