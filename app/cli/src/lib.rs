//! The commands with which people talk to a Famulus server: `chat`, `doctor`, `status`, `queue`,
//! `plugin`, `approvals`, `schedules`, `history`.
//!
//! The program embeds [`Command`] among its own subcommands, flattens [`ConnectionArgs`], and
//! hands both to [`run`]. Everything goes over `/v1`: this crate knows the words of `core` and
//! HTTP, and refuses to know the database, the queue, or that the server may be the same program.
//!
//! ```text
//! typed line ─► chat ─► client ─► POST /v1/…/messages
//!                 ▲
//!   screen ◄─ transcript ◄─ feed ◄─ sse ◄─ GET /v1/…/events
//! ```
//!
//! Invariants: what others wrote reaches a terminal only through [`clean`]; an escape code never
//! reaches anything but a terminal; a token never stands in an address, an argument or a message;
//! a message that is sent again counts once.

mod answer;
mod approvals;
mod blocks;
mod channel;
mod chat;
mod clean;
mod client;
mod connection;
mod doctor;
mod error;
mod feed;
mod history;
mod input;
mod interrupts;
mod outbox;
mod output;
mod paint;
#[cfg(test)]
mod peer;
mod people;
mod plugin;
mod queue;
mod schedules;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod timeouts;
mod transcript;
mod unseen;
#[cfg(test)]
mod vt;
mod wire;

use std::io;
use std::process::ExitCode;

pub use approvals::ApprovalsArgs;
pub use channel::ChannelArgs;
pub use chat::ChatArgs;
pub use connection::{CliEnvironment, Connection, ConnectionArgs, DEFAULT_URL, TokenSource};
pub use doctor::DoctorArgs;
pub use error::{Error, Refusal};
pub use history::HistoryArgs;
pub use outbox::OutboxArgs;
pub use people::PeopleArgs;
pub use plugin::PluginArgs;
pub use queue::QueueArgs;
pub use schedules::SchedulesArgs;
pub use status::StatusArgs;

use client::Client;
use output::Output;
use paint::Colour;

/// What a pipe whose reader went away ends with: 128 and the number of SIGPIPE.
const READER_GONE: u8 = 141;

/// The commands that talk to a running server.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Talk to the assistant
    Chat(ChatArgs),
    /// Look for what is wrong and say what to do about it
    Doctor(DoctorArgs),
    /// Show the state of the server
    Status(StatusArgs),
    /// Show the queue, its dead jobs, and try one again
    Queue(QueueArgs),
    /// Install plugins, see how they are, configure them, and run a tool of one
    Plugin(PluginArgs),
    /// List, allow and refuse calls that wait for an answer
    Approvals(ApprovalsArgs),
    /// See who asked to be let in, and let one in
    People(PeopleArgs),
    /// List messages that were not delivered, and send one again
    Outbox(OutboxArgs),
    /// Show how the chat channels stand
    Channel(ChannelArgs),
    /// List the schedules
    Schedules(SchedulesArgs),
    /// Show the latest messages
    History(HistoryArgs),
}

/// Runs a command to its end, on the standard streams of the process.
///
/// The exit code is 0, or 1 where `doctor` found a failure or a turn of `chat` did not complete,
/// or 130 when Ctrl-C ended it.
///
/// # Errors
/// The command could not do what it was asked; the message says what to do.
pub async fn run(command: Command, connection: Connection) -> Result<ExitCode, Error> {
    let colour = if connection.colour { Colour::On } else { Colour::Off };
    let output = Output::standard(colour);
    let done = Box::pin(dispatch(command, &connection, output)).await;
    match done {
        Err(Error::Write { source }) if source.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitCode::from(READER_GONE))
        }
        done => done,
    }
}

async fn dispatch(
    command: Command,
    connection: &Connection,
    mut output: Output,
) -> Result<ExitCode, Error> {
    let out = &mut output;
    let client = || Client::new(connection);
    match command {
        Command::Chat(args) => return chat::run(args, connection, output).await,
        Command::Doctor(args) => {
            let ok = doctor::run(args, connection, out).await?;
            return Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Status(args) => status::run(args, &client()?, out).await?,
        Command::Plugin(args) => {
            let ok = plugin::run(args, &client()?, out).await?;
            return Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Queue(args) => queue::run(args, &client()?, out).await?,
        Command::Approvals(args) => approvals::run(args, &client()?, out).await?,
        Command::People(args) => people::run(args, &client()?, out).await?,
        Command::Outbox(args) => outbox::run(args, &client()?, out).await?,
        Command::Channel(args) => channel::run(args, &client()?, out).await?,
        Command::Schedules(args) => schedules::run(args, &client()?, out).await?,
        Command::History(args) => history::run(args, &client()?, out).await?,
    }
    Ok(ExitCode::SUCCESS)
}
