//! Running programs of the machine against a cluster: in its network, with its kubeconfig, and with
//! the names that Pods know. Else they see the machine's files and processes, and stand where they
//! were called.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use xtask_shell::Shell;
use xtask_shell::workspace::root;

use super::dns;
use super::namespace::Namespaces;
use super::packages;
use super::place::Place;
use super::processes;

/// Covers the file that says whom to ask for names, for the program alone.
const WITH_NAMES: &str = r#"mount --bind "$1" /etc/resolv.conf && shift && exec "$@""#;

/// `cargo xtask cluster enter`: any program.
pub(super) fn run(place: &Place, words: &[String]) -> Result<()> {
    let (program, args) = words.split_first().context("there is no command to run")?;
    become_it(place, Path::new(program), args)
}

/// `cargo xtask cluster kubectl`
pub(super) fn kubectl(place: &Place, args: &[String]) -> Result<()> {
    become_it(place, &place.at("kubectl"), args)
}

/// `cargo xtask cluster helm`, which is built when it is not there yet.
pub(super) async fn helm(shell: &mut Shell, place: &Place, args: &[String]) -> Result<()> {
    let helm = super::helm(shell).await?;
    become_it(place, &helm, args)
}

/// Becomes the program, so that it has our terminal, gets our signals and says how it ended.
fn become_it(place: &Place, program: &Path, args: &[String]) -> Result<()> {
    Err(inside(place, program, args)?.exec()).context("cannot run nsenter")
}

/// A program in the cluster's network that does not run yet.
pub(super) fn inside(place: &Place, program: &Path, args: &[String]) -> Result<Command> {
    packages::root()?;
    let namespaces = Namespaces::running(place)?;
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", namespaces.first));
    command.args(["unshare", "--mount", "--", "sh", "-c", WITH_NAMES, "sh"]);
    command.arg(dns::resolver(place)?);
    command.arg(program).args(args).env("KUBECONFIG", place.at("kubeconfig"));
    command.env(processes::SELDOM.0, processes::SELDOM.1);
    // The usual caches know servers by address, and all clusters have the same one.
    command.env("KUBECACHEDIR", place.at("kubectl-cache"));
    for kind in ["CACHE", "CONFIG", "DATA"] {
        command.env(format!("HELM_{kind}_HOME"), place.at("helm").join(kind.to_lowercase()));
    }
    Ok(command)
}

/// The same program with the same words in the cluster's network, in the folder of the workspace.
pub(super) fn as_inside(place: &Place, program: &Command) -> Result<Command> {
    let args: Vec<String> =
        program.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let mut inside = inside(place, program.get_program().as_ref(), &args)?;
    inside.current_dir(root());
    Ok(inside)
}
