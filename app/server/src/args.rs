//! The command line.

use clap::{Parser, Subcommand};
use famulus_cli::ConnectionArgs;
use std::path::PathBuf;

/// A private assistant on hardware that you control.
#[derive(Debug, Parser)]
#[command(name = "famulus", version, max_term_width = 100)]
pub struct Args {
    /// The configuration file [default: /etc/famulus/config.toml as root, else in ~/.config]
    #[arg(long, env = "FAMULUS_CONFIG", value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start everything on this machine, the database included
    Up,
    /// Serve on a database that runs already (DATABASE_URL or database.url)
    Serve,
    /// Bring the database up to date and end (DATABASE_URL or database.url)
    Migrate,
    /// Show the first token
    Token,
    /// Look at the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    #[command(flatten)]
    Client(famulus_cli::Command),
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// List every key, its meaning, and whether a change needs a restart
    Keys,
    /// Check the configuration without starting anything
    Check,
}
