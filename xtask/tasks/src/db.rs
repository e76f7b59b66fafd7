//! `cargo xtask db`: a migrated Postgres for development.

use anyhow::Result;
use xtask_postgres::scratch::{self, Scratch};
use xtask_postgres::tree;
use xtask_shell::Shell;
use xtask_shell::workspace::cache;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Keep the data for the next time instead of starting on empty ones
    #[arg(long)]
    keep: bool,
}

const DATABASE: &str = "famulus";

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    if args.keep {
        let tree = tree::obtain(shell).await?;
        let postgres = scratch::start(&cache().join("development"), &tree).await?;
        scratch::migrate(&postgres, DATABASE).await?;
        announce(&postgres.url_of(DATABASE));
        shell.signals.wait_for_signal().await;
        let _ = postgres.stop().await;
        Ok(())
    } else {
        let scratch = Scratch::for_tests(shell).await?;
        scratch::migrate(&scratch.postgres, DATABASE).await?;
        announce(&scratch.postgres.url_of(DATABASE));
        shell.signals.wait_for_signal().await;
        scratch.stop().await
    }
}

fn announce(url: &str) {
    println!("export DATABASE_URL='{url}'");
    eprintln!("Postgres runs until Ctrl-C");
}
