//! famulus: start the assistant, or talk to one that runs.

use clap::Parser;
use famulus_cli::{CliEnvironment, Connection};
use famulus_server::{
    args::{Args, Command},
    backup,
    paths::Paths,
    up,
};
use secrecy::SecretString;
use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

/// What a thread has left to do, such as removing half a backup from a store that does not answer,
/// holds up the end no longer than this.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let args = Args::parse();
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return failed("a TLS provider is installed already; this is a defect");
    }
    // Two threads: the work is waiting, and each thread keeps memory of its own.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(run(args));
            runtime.shutdown_timeout(LEFT_BEHIND);
            code
        }
        Err(error) => failed(&format!("the operating system refused to start threads: {error}")),
    }
}

async fn run(args: Args) -> ExitCode {
    let places = Paths::find(|name| std::env::var_os(name), rustix::process::geteuid().is_root());
    let done = match args.command {
        Command::Up => Box::pin(up::run(up::DatabaseSource::Private, args.config, places)).await,
        Command::Serve => {
            Box::pin(up::run(up::DatabaseSource::External, args.config, places)).await
        }
        Command::Migrate => up::migrate(args.config, places).await,
        Command::Backup { command, before_update } => {
            Box::pin(backup::run(command, before_update, args.config, places)).await
        }
        Command::RestoreSecrets(wanted) => {
            Box::pin(backup::restore_secrets(wanted, args.config, places)).await
        }
        Command::Hold(wanted) => backup::hold(wanted, args.config, places).await,
        Command::Restore(wanted) => Box::pin(backup::restore(wanted, args.config, places)).await,
        Command::Token => up::show_token(args.config, places),
        Command::Config { command } => up::config(command, args.config, places),
        Command::Client(command) => {
            let home = match up::data_dir(args.config, places) {
                Ok(data_dir) => CliEnvironment {
                    token: std::env::var_os("FAMULUS_TOKEN")
                        .and_then(|token| token.into_string().ok())
                        .map(SecretString::from),
                    token_file: famulus_server::token::path(&data_dir),
                    data_dir,
                },
                Err(error) => return failed(&format!("{error:#}")),
            };
            let connection = Connection::new(args.connection, home);
            match famulus_cli::run(command, connection).await {
                Ok(code) => return code,
                Err(error) => Err(anyhow::Error::new(error)),
            }
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = failed(&format!("{error:#}"));
            let incomplete = error.is::<backup::Incomplete>();
            if incomplete { ExitCode::from(backup::Incomplete::EXIT_CODE) } else { code }
        }
    }
}

fn failed(message: &str) -> ExitCode {
    // Nobody is left to tell when standard error is gone.
    let _gone = writeln!(io::stderr(), "famulus: {message}");
    ExitCode::FAILURE
}
