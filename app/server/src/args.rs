//! The command line.

use clap::{Parser, Subcommand};
use famulus_cli::ConnectionArgs;
use std::{net::SocketAddr, path::PathBuf};

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
    /// Back up everything, now
    #[command(args_conflicts_with_subcommands = true)]
    Backup {
        #[command(subcommand)]
        command: Option<BackupCommand>,
        /// Only if this release would change the database
        #[arg(long)]
        before_update: bool,
    },
    /// Bring a backup back, into a database that is empty
    Restore(RestoreArgs),
    /// Make the Secrets of a release again, before anything else of it is there
    #[command(hide = true)]
    RestoreSecrets(RestoreSecretsArgs),
    /// Give backups what the daemon of a channel keeps, and take it back from them
    #[command(hide = true)]
    Hold(HoldArgs),
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

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// List the backups that are there
    List,
    /// Restore one into a database that is thrown away, and look whether it is sound
    Verify {
        /// Its name
        #[arg(default_value = "latest")]
        backup: String,
    },
}

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// Its name (`famulus backup list`), or `latest`
    pub backup: String,
    /// The latest that began before this time, such as 2026-11-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub at: Option<jiff::Timestamp>,
    /// In place of a database that holds something; asks before
    #[arg(long)]
    pub replace: bool,
    /// Only wait until somebody else has restored it
    #[arg(long, conflicts_with = "replace")]
    pub wait: bool,
}

#[derive(Debug, clap::Args)]
pub struct HoldArgs {
    /// The channel's name in addresses
    pub channel: String,
    /// The daemon's own folder
    #[arg(long)]
    pub folder: PathBuf,
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// What backups have to know
    #[arg(long, value_name = "FILE")]
    pub key_file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct RestoreSecretsArgs {
    /// The name of a backup, or `latest`
    pub backup: String,
    #[arg(long, value_name = "TIME")]
    pub at: Option<jiff::Timestamp>,
    #[arg(long)]
    pub release: String,
    #[arg(long)]
    pub namespace: String,
    /// The Secret with the root key, which is its key `key`; left out, it is not made
    #[arg(long)]
    pub root_key: Option<String>,
    /// The Secret with the owner's token, which is its key `token`; left out, it is not made
    #[arg(long)]
    pub token: Option<String>,
}
