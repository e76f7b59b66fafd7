//! `cargo xtask deny`: cargo-deny in a pinned version, by the policy in `deny.toml`.

use anyhow::Result;
use xtask_shell::workspace::cache;
use xtask_shell::{Shell, cargo};

const VERSION: &str = "0.20.2";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also ask the advisory database, which is fetched over the network
    #[arg(long)]
    advisories: bool,
}

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    let tools = cache().join("tools").join(format!("cargo-deny-{VERSION}"));
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() {
        let mut install =
            cargo(["install", "cargo-deny", "--locked", "--version", VERSION, "--root"]);
        install.arg(&tools);
        shell.run(install).await?;
    }
    let mut command = std::process::Command::new(program);
    command.current_dir(xtask_shell::workspace::root()).args([
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]);
    if args.advisories {
        command.arg("advisories");
    }
    shell.run(command).await
}
